"""The explorer from Python: for a script or a notebook."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path

from constrained_dnc.choices import SelectionRule
from constrained_dnc.config import TrainingConfig
from constrained_dnc.errors import SettingError
from constrained_dnc.explorer import page, server
from constrained_dnc.explorer.models import model_from, open_model
from constrained_dnc.explorer.traces import read_problem
from constrained_dnc.model.dnc import DNC
from constrained_dnc.tasks.task import AbstractTask
from constrained_dnc.training.run import Run


def explore(
    model: DNC | Run | str | Path,
    task: AbstractTask | str | None = None,
    problem: str | None = None,
    *,
    html: str | Path | None = None,
    training: TrainingConfig | None = None,
    selection: SelectionRule | None = None,
    port: int | None = None,
) -> None:
    """Show what the memory of a model does, on a local page or in one HTML file.

    `model` is a network, with its `task` and optionally the `training` settings whose lengths the
    page shows, or a run. The address is printed, and the page served until Ctrl-C; in a notebook
    it is served in the background until the kernel ends.
    """
    if isinstance(model, DNC):
        shown = model_from(model, task, training)
    elif task is not None:
        raise SettingError("a run knows its task: leave the argument out")
    else:
        name = str(model.folder if isinstance(model, Run) else model)
        shown = open_model(name, selection, trust_code=isinstance(model, Run))
    if problem is not None:
        problem = shown.task.format_problem(read_problem(shown.task, problem))
    if html is not None:
        page.write([shown], problem, None, Path(html))
        return
    listening = server.listen(port)
    address = server.address(listening, shown.name, problem=problem)
    if isinstance(model, DNC):
        models = server.ModelCache([], opened=[shown])
    else:
        models = server.ModelCache([shown.name], selection, trust_code=isinstance(model, Run))
    serving = server.serve(models, listening)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        print(f"{address}  (Ctrl-C ends it)", flush=True)
        with suppress(KeyboardInterrupt):
            asyncio.run(serving)
    else:
        print(address, flush=True)
        threading.Thread(target=asyncio.run, args=[serving], daemon=True).start()
