"""The command explore."""

from __future__ import annotations

import os
import socket
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import tyro

from constrained_dnc import zoo
from constrained_dnc.cli.parsing import Flag, InferenceOption, Memory, Selection, TrustCode, option
from constrained_dnc.config import PAPER
from constrained_dnc.errors import SettingError, shortened
from constrained_dnc.model.config import MemorySize, memory_order, read_memory_size
from constrained_dnc.training.folder import CONFIG
from constrained_dnc.training.process import use_compilation_cache
from constrained_dnc.training.run import load_run

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
            "Run directories, folders of them, or pretrained models such as zoo:sort/compr+reg; by "
            'default all pretrained models. Then optionally a problem, such as "3 1 4 1 0".',
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
    """Only print the address."""
    trust_code: TrustCode = False

    def run(self) -> int:
        """Write the file, or serve the page until it is interrupted."""
        names, text = split_arguments(self.runs_and_text)
        from constrained_dnc.explorer import server, traces  # noqa: PLC0415 - slow to import

        use_compilation_cache()
        memory: MemorySize | None = None
        if self.memory is not None:
            memory = read_memory_size(self.memory, traces.MAX_DRAWN_SLOTS)
        if text is not None:
            task = load_run(names[0], trust_code=self.trust_code).task
            try:
                traces.read_problem(task, text)
            except SettingError as error:
                argument = f"{shortened(repr(text))} is neither {RUN_ARGUMENT}"
                raise SettingError(f"{argument}, nor a problem: {error}") from error
        server.explore(
            names,
            problem=text,
            memory=memory,
            selection=self.selection,
            inference=self.inference,
            html=self.html,
            port=self.port,
            trust_code=self.trust_code,
            announce=self._announce,
        )
        if self.html is not None:
            print(f"{self.html}: {self.html.stat().st_size / 1e6:.1f} MB, opens in any browser")
        return 0

    def _announce(self, address: str) -> None:
        """Print the address and open it, or say how to reach it from another machine."""
        print(address, flush=True)
        url = urlsplit(address.split(maxsplit=1)[0])
        if self.no_browser:
            tunnel = f"{url.port}:{url.hostname}:{url.port} {os.environ.get('USER', 'USER')}"
            print(f"from another machine: ssh -N -L {tunnel}@{socket.gethostname()}", flush=True)
        else:
            webbrowser.open(url.geturl())


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """Models, by default all pretrained ones, and the last argument if it is not a model."""
    if not arguments:
        return farthest_first() or [str(zoo.find(zoo.PREFIX))], None  # without models, find raises
    names: list[str] = []
    for index, argument in enumerate(arguments):
        is_pretrained = zoo.is_name(argument) and zoo.find(argument)
        models = [argument] if is_pretrained else runs_in(Path(argument))
        if not models and index and index == len(arguments) - 1:
            return names, argument
        if not models:
            raise SettingError(f"{argument!r} is not {RUN_ARGUMENT}")
        names += models
    return names, None


def farthest_first() -> list[str]:
    """The pretrained models: those of the paper's approaches first, then by maximum length."""
    from constrained_dnc.evaluation.results import max_length, stored_results  # noqa: PLC0415 - slow

    def order(name: str) -> tuple[bool, int]:
        rows = stored_results(zoo.find(name))
        rows = rows[(rows["selection"] == "score") & (rows["inference"] == "network")]
        trained = rows[rows["memory"] == min(rows["memory"], key=memory_order)]
        return name.rpartition("/")[2] not in PAPER.approaches, -max_length(trained)

    return sorted(zoo.pretrained(), key=order)


def runs_in(folder: Path) -> list[str]:
    """The folder itself if it is a run, or the runs right inside it."""
    if not os.path.isdir(folder):  # unlike pathlib's, it takes any text, however long
        return []
    if (folder / CONFIG).is_file():
        return [str(folder)]
    return sorted(str(path.parent) for path in folder.glob(f"*/{CONFIG}"))
