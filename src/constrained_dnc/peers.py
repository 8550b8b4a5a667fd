"""Other implementations of the DNC beside ours: processor time on one core, in turns."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

from constrained_dnc import published
from constrained_dnc.bench import (
    Iteration,
    Load,
    cpu_name,
    fastest_backend,
    on_cores,
    require_affinity,
    times_ms,
)
from constrained_dnc.errors import SettingError, one_of
from constrained_dnc.tasks.registry import get_task


class TorchDnc:
    """PyPI's `dnc`: forward, loss, backward, clipping and Adam, again and again on one batch.

    It has as many outputs as inputs; the loss sees as many as the task has.
    """

    def __init__(self, load: Load):
        torch: Any = import_module("torch")
        dnc: Any = import_module("dnc")
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.torch = torch
        task = get_task(load.task)
        batch = task.sample(0, load.batch_size, load.length)
        self.inputs, self.targets, self.mask = (
            torch.from_numpy(np.array(np.swapaxes(values, 0, 1), np.float32))
            for values in (batch.inputs, batch.targets, batch.mask)
        )
        self.model = dnc.DNC(
            input_size=task.input_size,
            hidden_size=load.hidden_size,
            num_layers=1,
            num_hidden_layers=1,
            nr_cells=load.memory_size,
            cell_size=load.word_size,
            read_heads=load.num_reads,
        )
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=published.LEARNING_RATE)

    def __call__(self) -> None:
        self.optimiser.zero_grad()
        outputs, _ = self.model(self.inputs)
        off = (outputs[..., : self.targets.shape[-1]] - self.targets) ** 2
        loss = (off.sum(-1) * self.mask).sum() / self.mask.sum()
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), published.CLIP_NORM)
        self.optimiser.step()


@dataclass(frozen=True)
class Peer:
    """Another implementation, the packages it needs, and how one of its iterations is built."""

    packages: tuple[str, ...]
    iteration: Callable[[Load], Callable[[], Any]]


PEERS = {"dnc": Peer(("dnc", "torch"), TorchDnc)}


def measure_against(
    name: str, repeats: int = 15, say: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """A training iteration of ours and of a peer at the same sizes, and their ratios."""
    if name not in PEERS:
        raise SettingError("against", name, one_of(PEERS))
    require_affinity()
    load, peer, cores = Load(), PEERS[name], os.sched_getaffinity(0)
    with on_cores({min(cores)}):
        theirs = _built(name, peer, load)
        backend = fastest_backend(load, 1)
        say(f"a training iteration of {backend.name} and of {name}, in turns, on one core")
        ours = Iteration(backend, load)
        contestants: dict[str, Callable[[], Any]] = {"ours": ours, "theirs": theirs}
        times = times_ms(contestants, repeats, time.process_time)
    least = {who: min(values) for who, values in times.items()}
    median = {who: statistics.median(values) for who, values in times.items()}
    return {
        "load": asdict(load),
        "machine": {"cpu": cpu_name(), "cores": len(cores)},
        "backend": backend.name,
        "against": name,
        "versions": {package: version(package) for package in peer.packages},
        "runs": len(times["ours"]),
        "fastest_ms": least,
        "median_ms": median,
        "fastest_ratio": least["theirs"] / least["ours"],
        "median_ratio": median["theirs"] / median["ours"],
    }


def _built(name: str, peer: Peer, load: Load) -> Callable[[], Any]:
    try:
        return peer.iteration(load)
    except ImportError as error:
        needed = f"pip install {' '.join(peer.packages)}"
        raise SettingError(
            "against", name, f"a package that is there: {needed} ({error})"
        ) from error
