"""The HTML of the explorer's page: for a server, or self-contained."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from plotly.offline import get_plotlyjs

from constrained_dnc.errors import SettingError
from constrained_dnc.explorer import style, views
from constrained_dnc.explorer.models import first_length
from constrained_dnc.explorer.traces import Trace, trace
from constrained_dnc.explorer.views import machine_view
from constrained_dnc.files import write_atomically
from constrained_dnc.model.config import MemorySize
from constrained_dnc.training.run import TrainedModel


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


def write(
    models: Sequence[TrainedModel], problem: str | None, memory: MemorySize | None, path: Path
) -> None:
    """Write the page of a problem, by default a random one, to a self-contained file."""
    if not path.parent.is_dir():
        raise SettingError(f"{path} cannot be written: there is no folder {path.parent}")
    first = models[0]
    if any(model.task.name != first.task.name for model in models):
        names = " and ".join(model.name for model in models)
        raise SettingError(f"{names} are models of different tasks")
    if problem is None:
        length = first_length(first, is_compared=len(models) > 1)
        problem = first.task.format_problem(first.task.sample(0, 1, length).problems[0])
    page = one_file([trace(model, problem, memory) for model in models])
    write_atomically(path, page.encode())


def _fill(content: dict[str, Any], plotly: str) -> str:
    folder = resources.files(__package__)
    page, css, *scripts = (
        folder.joinpath(f"page.{kind}").read_text("utf-8")
        for kind in ("html", "css", "js", "machine.js", "controls.js")
    )
    templates = {"light": style.LIGHT.to_plotly_json(), "dark": style.DARK.to_plotly_json()}
    content["templates"] = templates
    return Template(page).substitute(
        style=css, plotly=plotly, content=views.dumps(content), script="\n".join(scripts)
    )
