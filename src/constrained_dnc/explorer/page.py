"""The page as text: for a server, or whole in one file."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from importlib import resources
from string import Template
from typing import Any

from plotly.offline import get_plotlyjs

from constrained_dnc.explorer import style, views
from constrained_dnc.explorer.attempts import Attempt


def compose(models: Sequence[dict[str, Any]]) -> str:
    """The page that asks its server."""
    return _fill({"models": list(models)}, '<script src="plotly.js"></script>')


def one_file(attempts: Sequence[Attempt]) -> str:
    """The page of one problem, or of two models on it, that needs nothing but itself."""
    shown = [
        views.view(found)
        | {
            "states": views.states(found),
            "file": base64.b64encode(views.data_file(found, len(found.outputs))).decode(),
        }
        for found in attempts
    ]
    about = {"models": [each["model"] for each in shown], "views": shown}
    plotly = get_plotlyjs().replace("</script", "<\\/script")
    return _fill(about, f"<script>{plotly}</script>")


def _fill(about: dict[str, Any], plotly: str) -> str:
    folder = resources.files(__package__)
    parts = {
        name: folder.joinpath(f"page.{name}").read_text("utf-8")
        for name in ("css", "js", "legend.js", "controls.js")
    }
    templates = {
        "light": style.LIGHT.to_plotly_json(),
        "dark": style.DARK.to_plotly_json(),
    }
    return Template(folder.joinpath("page.html").read_text("utf-8")).substitute(
        style=parts["css"],
        script=parts["js"],
        legend=parts["legend.js"],
        controls=parts["controls.js"],
        plotly=plotly,
        about=views.dumps(about | {"templates": templates}),
    )
