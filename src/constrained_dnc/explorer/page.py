"""The page as text: for a server, or self-contained."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from importlib import resources
from string import Template
from typing import Any

from plotly.offline import get_plotlyjs

from constrained_dnc.explorer import style, views
from constrained_dnc.explorer.machines import machine_view
from constrained_dnc.explorer.traces import Trace


def compose(models: Sequence[dict[str, Any]]) -> str:
    """The page for a server."""
    return _fill({"models": list(models)}, '<script src="plotly.js"></script>')


def one_file(traces: Sequence[Trace], *, machines: bool = False) -> str:
    """A self-contained page of one problem, with one model or two, and with their machines."""
    shown = [
        views.view(trace)
        | {
            "states": views.states(trace),
            "machine": machine_view(trace) if machines else None,
            "file": base64.b64encode(views.data_file(trace, len(trace.outputs))).decode(),
        }
        for trace in traces
    ]
    plotly = get_plotlyjs().replace("</script", "<\\/script")
    return _fill({"models": [], "views": shown}, f"<script>{plotly}</script>")


def _fill(content: dict[str, Any], plotly: str) -> str:
    folder = resources.files(__package__)
    page, css, *scripts = (
        folder.joinpath(f"page.{kind}").read_text("utf-8")
        for kind in ("html", "css", "js", "machine.js", "controls.js")
    )
    templates = {"light": style.LIGHT.to_plotly_json(), "dark": style.DARK.to_plotly_json()}
    content |= {"templates": templates, "panels": views.describe_panels()}
    return Template(page).substitute(
        style=css, plotly=plotly, content=views.dumps(content), script="\n".join(scripts)
    )
