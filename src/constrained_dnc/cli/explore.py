"""The command explore."""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from constrained_dnc import published, zoo
from constrained_dnc.choices import SelectionRule
from constrained_dnc.cli.parsing import MEMORY_SIZE, parse
from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.files import write_atomically
from constrained_dnc.model.config import MemorySize, read_memory_size
from constrained_dnc.training.compilation import use_compilation_cache
from constrained_dnc.training.disk import CONFIG
from constrained_dnc.training.run import load_run, open_run

ACCEPTED = f"a run directory, with a {CONFIG}, a folder of them, or zoo:TASK/APPROACH"


@dataclass(frozen=True)
class _Explore:
    what: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="[RUN ...] [TEXT]", help_behavior_hint=""),
    ] = ()
    """Run directories, also of runs in training, folders of them, or pretrained models such as
    zoo:sort/compr+reg (by default all of these); last a problem, such as "3 1 4 1 0"."""
    html: Path | None = None
    """Write the page of the problem to this self-contained file, and exit."""
    memory_size: Annotated[str | None, MEMORY_SIZE] = None
    """Slots of the memory, by default those of training; or growing, with the input."""
    selection: SelectionRule | None = None
    """Rule that selected the parameters; by default the one that `cdnc predict` uses."""
    port: int | None = None
    """Port of the page on this machine; by default 8050 or the next free one."""
    browser: bool = True
    """Open the page in a browser."""
    trust_code: bool = False
    """Run the code that a run's config names: a task or controller of your own."""


def explore(arguments: list[str]) -> int:
    """See what the memory does: a page on this machine, or one HTML file.

    The page shows every gate, weight and state of a model at work on a problem, step by step,
    one model or two side by side. It listens on 127.0.0.1 only; Ctrl-C ends it.
    """
    asked = parse(_Explore, arguments, "cdnc explore", explore.__doc__)
    names, text = sort_out(asked.what)
    use_compilation_cache()
    if text is not None:
        require_problem(text, names[0], asked.trust_code)
    memory_size: MemorySize | None = None
    if asked.memory_size is not None:
        from constrained_dnc.explorer.traces import MAX_DRAWN_SLOTS  # noqa: PLC0415

        memory_size = read_memory_size(asked.memory_size, MAX_DRAWN_SLOTS)
    if asked.html is not None:
        _write(names, text, memory_size, asked, asked.html)
    else:
        _show(names, text, memory_size, asked)
    return 0


def sort_out(given: Sequence[str]) -> tuple[list[str], str | None]:
    """Models, by default all pretrained ones, and the problem if the last argument is none."""
    if not given:
        return farthest_first() or [zoo.find(zoo.PREFIX).name], None  # the latter refuses
    names: list[str] = []
    for place, argument in enumerate(given):
        found = [zoo.find(argument).name] if zoo.is_name(argument) else runs_in(Path(argument))
        if not found and place and place == len(given) - 1:
            return names, argument
        if not found:
            raise SettingError("run", argument, ACCEPTED)
        names += found
    return names, None


def farthest_first() -> list[str]:
    """The pretrained models: those of the paper's approaches first, then by maximum length."""

    def rank(model: zoo.Pretrained) -> tuple[bool, int]:
        try:
            farthest = model.max_length() or 0
        except RunError:
            farthest = 0  # the page says what is wrong with it
        return model.approach not in published.APPROACHES, -farthest

    models = zoo.pretrained()
    return sorted(models, key=lambda name: rank(models[name]))


def require_problem(text: str, name: str, trust_code: bool) -> None:
    """Refuse a last argument that is neither: it may be a run or a problem that was mistyped."""
    from constrained_dnc.explorer.traces import read_problem  # noqa: PLC0415 - slow to import

    task = load_run(name, trust_code=trust_code).task
    try:
        task.parse(text)
    except SettingError as error:
        accepted = f"a problem of {task.name} ({error.args[-1]}), or {ACCEPTED}"
        raise SettingError("last argument", text, accepted) from error
    read_problem(task, text)


def runs_in(folder: Path) -> list[str]:
    """The folder itself if it is a run, or the runs right inside it."""
    if not os.path.isdir(folder):  # unlike pathlib's, it takes any text, also a very long one
        return []
    if (folder / CONFIG).is_file():
        return [str(folder)]
    return sorted(str(path.parent) for path in folder.glob(f"*/{CONFIG}"))


def _write(
    names: list[str],
    text: str | None,
    memory_size: MemorySize | None,
    asked: _Explore,
    path: Path,
) -> None:
    from constrained_dnc.explorer import open_model, trace  # noqa: PLC0415 - slow to import
    from constrained_dnc.explorer.page import one_file  # noqa: PLC0415

    if len(names) > 2:
        raise SettingError("run", ", ".join(names), "one or two with --html")
    models = [open_model(name, asked.selection, trust_code=asked.trust_code) for name in names]
    first = models[0].task
    if any(model.task.name != first.name for model in models):
        raise SettingError("run", ", ".join(names), "two runs of one task")
    if text is None:
        length = models[0].first_length(is_compared=len(models) > 1)
        text = first.format_problem(first.sample(0, 1, length).problems[0])
    page = one_file([trace(model, text, memory_size) for model in models])
    write_atomically(path, page.encode())
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, opens in any browser")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # nobody that the system knows, as in some containers
        return "USER"


def _second(names: list[str]) -> str | None:
    """The model to compare the first with: the second of two, or its pretrained baseline."""
    if len(names) != 2:
        baseline = f"{names[0].partition('/')[0]}/stateful-baseline"
        is_there = zoo.is_name(names[0]) and names[0] != baseline and baseline in names
        return baseline if is_there else None
    first, second = (open_run(name).config.task for name in names)
    return names[1] if first == second else None


def _show(
    names: list[str], text: str | None, memory_size: MemorySize | None, asked: _Explore
) -> None:
    from urllib.parse import urlencode  # noqa: PLC0415

    from constrained_dnc.explorer import server  # noqa: PLC0415 - slow to import

    listening = server.listen(asked.port)
    port = listening.getsockname()[1]
    address = f"http://{server.HOST}:{port}/"
    known = {"problem": text, "compare": _second(names), "memory": memory_size}
    if any(known.values()):
        given = {name: value for name, value in known.items() if value}
        address += "#" + urlencode({"model": names[0], **given})
    print(f"{address}  (Ctrl-C ends it)", flush=True)
    if asked.browser:
        webbrowser.open(address)
    else:
        here = f"{_user()}@{socket.gethostname()}"
        print(f"from another machine: ssh -N -L {port}:{server.HOST}:{port} {here}", flush=True)
    models = server.ModelCache(names, asked.selection, trust_code=asked.trust_code)
    asyncio.run(server.serve(models, listening))
