"""Time a training iteration of PyPI's `dnc` beside ours: processor time on one core, in turns.

pip install dnc torch, then python benchmarks/peers.py [--json] [--repeats N]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np
from bench import Iteration, Load, cpu_name, fastest_backend, on_cores, times_ms

from constrained_dnc.config import PAPER
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
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=PAPER.training.learning_rate)

    def __call__(self) -> None:
        self.optimiser.zero_grad()
        outputs, _ = self.model(self.inputs)
        off = (outputs[..., : self.targets.shape[-1]] - self.targets) ** 2
        loss = (off.sum(-1) * self.mask).sum() / self.mask.sum()
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), PAPER.training.clip_norm)
        self.optimiser.step()


def measure_against(
    theirs: Callable[[Load], Callable[[], Any]] = TorchDnc,
    packages: Sequence[str] = ("dnc", "torch"),
    repeats: int = 15,
) -> dict[str, Any]:
    """A training iteration of ours and of a peer at equal sizes, and their ratios."""
    load, cores = Load(), os.sched_getaffinity(0)
    with on_cores({min(cores)}):
        backend = fastest_backend(load, 1)
        contestants = {"ours": Iteration(backend, load), "theirs": theirs(load)}
        times = times_ms(contestants, repeats, time.process_time)
    fastest = {who: min(values) for who, values in times.items()}
    median = {who: statistics.median(values) for who, values in times.items()}
    return {
        "load": asdict(load),
        "machine": {"cpu": cpu_name(), "cores": len(cores)},
        "backend": backend.name,
        "against": packages[0],
        "versions": {package: version(package) for package in packages},
        "runs": len(times["ours"]),
        "fastest_ms": fastest,
        "median_ms": median,
        "fastest_ratio": fastest["theirs"] / fastest["ours"],
        "median_ratio": median["theirs"] / median["ours"],
    }


def table(result: dict[str, Any]) -> str:
    """Ours beside the peer in Markdown."""
    load, name = result["load"], result["against"]
    fastest, median = result["fastest_ms"], result["median_ms"]
    versions = ", ".join(f"{package} {number}" for package, number in result["versions"].items())
    rows = {
        f"ours ({result['backend']}), ms": (fastest["ours"], median["ours"]),
        f"{name}, ms": (fastest["theirs"], median["theirs"]),
        f"{name} / ours": (result["fastest_ratio"], result["median_ratio"]),
    }
    return "\n".join(
        [
            f"One of {result['machine']['cores']} cores, {result['machine']['cpu']}; {versions}; "
            f"batch {load['batch_size']}, N = {load['memory_size']}, W = {load['word_size']}, "
            f"R = {load['num_reads']}, H = {load['hidden_size']}, {load['task']} with "
            f"L = {load['length']}; {result['runs']} runs each, in turns",
            "",
            "| a training iteration | fastest | median |",
            "|---|---|---|",
            *(f"| {what} | {least:.1f} | {middle:.1f} |" for what, (least, middle) in rows.items()),
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--repeats", type=int, default=15, help="runs of each contestant")
    args = parser.parse_args()
    result = measure_against(repeats=args.repeats)
    print(json.dumps(result) if args.json else table(result))
