"""The explorer from Python: for a script or a notebook."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

from constrained_dnc.choices import SelectionRule
from constrained_dnc.config import TrainingConfig
from constrained_dnc.errors import SettingError
from constrained_dnc.explorer import server
from constrained_dnc.explorer.models import Model, model_from, open_model
from constrained_dnc.explorer.page import one_file
from constrained_dnc.explorer.traces import read_problem, trace
from constrained_dnc.files import write_atomically
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
    """Show what the memory of a model does, on a page of this machine or in one HTML file.

    `model` is a network, with its `task` and optionally the `training` settings whose lengths the
    page shows, or a run. The address is printed, and the page served until Ctrl-C; in a notebook
    it is served in the background until the kernel ends.
    """
    shown = _model(model, task, training, selection)
    if problem is not None:
        problem = shown.task.format_problem(read_problem(shown.task, problem))
    if html is not None:
        drawn = shown.task.sample(0, 1, shown.first_length()).problems[0]
        page = one_file([trace(shown, problem or shown.task.format_problem(drawn))])
        write_atomically(Path(html), page.encode())
        return
    listening = server.listen(port)
    fragment = "#" + urlencode({"model": shown.name, "problem": problem}) if problem else ""
    address = f"http://{server.HOST}:{listening.getsockname()[1]}/{fragment}"
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


def _model(
    model: DNC | Run | str | Path,
    task: AbstractTask | str | None,
    training: TrainingConfig | None,
    selection: SelectionRule | None,
) -> Model:
    if isinstance(model, DNC):
        if task is None:
            raise SettingError("a model needs its task: explore(model, task)")
        return model_from(model, task, training)
    if task is not None:
        raise SettingError("a run knows its task: leave the argument out")
    if isinstance(model, Run):  # its code has been trusted
        return open_model(str(model.folder), selection, trust_code=True)
    return open_model(str(model), selection)
