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
from typing import Annotated, Any
from urllib.parse import urlencode

import tyro

from constrained_dnc import published, zoo
from constrained_dnc.cli.parsing import (
    Flag,
    InferenceOption,
    Memory,
    Selection,
    TrustCode,
    option,
    read_problem,
)
from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.files import write_atomically
from constrained_dnc.model.config import MemorySize, read_memory_size
from constrained_dnc.training.compilation import use_compilation_cache
from constrained_dnc.training.disk import CONFIG
from constrained_dnc.training.run import load_run, open_run

RUN_ARGUMENT = "a run directory, a folder of them, or zoo:TASK/APPROACH"


@dataclass(frozen=True)
class Explore:
    """See what the memory does: a page on this machine, or one HTML file.

    The page shows every gate, weight and state of a model at work on a problem, step by step, one
    model or two side by side. It listens on 127.0.0.1 only; Ctrl-C ends it.
    """

    runs_and_text: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        option(
            "Run directories, folders of them, or pretrained models such as zoo:sort/compr+reg, by "
            'default all of these; last a problem, such as "3 1 4 1 0".',
            "[RUN ...] [TEXT]",
        ),
    ] = ()
    html: Annotated[Path | None, option()] = None
    """Write the page of the problem to this self-contained file, and exit."""
    memory: Memory = None
    selection: Selection = None
    inference: InferenceOption = "network"
    port: Annotated[int | None, option()] = None
    """Port of the page on this machine; by default 8050 or any free one."""
    no_browser: Flag = False
    """Print the address only."""
    trust_code: TrustCode = False

    def run(self) -> int:
        """Write the file, or serve the page until it is interrupted."""
        names, text = split_arguments(self.runs_and_text)
        use_compilation_cache()
        if text is not None:
            text = check_problem(text, names[0], self.trust_code)
        memory: MemorySize | None = None
        if self.memory is not None:
            from constrained_dnc.explorer.traces import MAX_DRAWN_SLOTS  # noqa: PLC0415

            memory = read_memory_size(self.memory, MAX_DRAWN_SLOTS)
        if self.html is not None:
            self._write(names, text, memory, self.html)
        else:
            self._serve(names, text, memory)
        return 0

    def _options(self) -> dict[str, Any]:
        """Which parameters and which inference."""
        return {
            "selection": self.selection,
            "inference": self.inference,
            "trust_code": self.trust_code,
        }

    def _serve(self, names: list[str], text: str | None, memory: MemorySize | None) -> None:
        from constrained_dnc.explorer import server  # noqa: PLC0415 - slow to import

        listening = server.listen(self.port)
        port = listening.getsockname()[1]
        shown = {"problem": text, "compare": _second(names), "memory": memory}
        shown = {name: value for name, value in shown.items() if value}
        fragment = "#" + urlencode({"model": names[0], **shown}) if shown else ""
        address = f"http://{server.HOST}:{port}/{fragment}"
        print(f"{address}  (Ctrl-C ends it)", flush=True)
        if self.no_browser:
            here = f"{_user()}@{socket.gethostname()}"
            print(f"from another machine: ssh -N -L {port}:{server.HOST}:{port} {here}", flush=True)
        else:
            webbrowser.open(address)
        models = server.ModelCache(names, **self._options())
        asyncio.run(server.serve(models, listening))

    def _write(
        self, names: list[str], text: str | None, memory: MemorySize | None, path: Path
    ) -> None:
        from constrained_dnc.explorer import open_model, trace  # noqa: PLC0415 - slow to import
        from constrained_dnc.explorer.page import one_file  # noqa: PLC0415

        if not path.name:
            raise SettingError("--html needs the name of a file")
        if len(names) > 2:
            raise SettingError(f"--html shows one or two models, not {len(names)}")
        models = [open_model(name, **self._options()) for name in names]
        first = models[0].task
        if any(model.task.name != first.name for model in models):
            raise SettingError(f"{' and '.join(names)} are models of different tasks")
        if text is None:
            length = models[0].first_length(is_compared=len(models) > 1)
            text = first.format_problem(first.sample(0, 1, length).problems[0])
        page = one_file([trace(model, text, memory) for model in models])
        write_atomically(path, page.encode())
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, opens in any browser")


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """Models, by default all pretrained ones; the last argument is a problem if it is no model."""
    if not arguments:
        return farthest_first() or [zoo.find(zoo.PREFIX).name], None  # the latter refuses
    names: list[str] = []
    for place, argument in enumerate(arguments):
        is_pretrained = zoo.is_name(argument)
        models = [zoo.find(argument).name] if is_pretrained else runs_in(Path(argument))
        if not models and place and place == len(arguments) - 1:
            return names, argument
        if not models:
            raise SettingError(f"{argument!r} is not {RUN_ARGUMENT}")
        names += models
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


def check_problem(text: str, name: str, trust_code: bool) -> str:
    """The last argument as the page reads problems; it may be a mistyped run or problem."""
    from constrained_dnc.explorer.traces import read_problem as check  # noqa: PLC0415 - slow

    task = load_run(name, trust_code=trust_code).task
    try:
        problem = read_problem(task, text)
    except SettingError as error:
        raise SettingError(f"{text!r} is neither {RUN_ARGUMENT}, nor a problem: {error}") from error
    text = task.format_problem(problem)
    check(task, text)
    return text


def runs_in(folder: Path) -> list[str]:
    """The folder itself if it is a run, or the runs right inside it."""
    if not os.path.isdir(folder):  # unlike pathlib's, it takes any text, also a very long one
        return []
    if (folder / CONFIG).is_file():
        return [str(folder)]
    return sorted(str(path.parent) for path in folder.glob(f"*/{CONFIG}"))


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
