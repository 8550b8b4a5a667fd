"""Time a training iteration: fused, pure, and the floor of its matrix products.

python benchmarks/bench.py [--json] [--repeats N] [--no-growth] [--plot FILE.png]

The floor is the matrix products of an iteration alone, through the BLAS of SciPy. Machines are
shared and noisy, so contestants take turns in one process and medians are compared; noise only adds
time, so the fastest run is reported too. On one core the time is the processor's, on all of them
the clock's. A few minutes, most of it compiling the pure path; the machine should be idle.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import optax
from scipy.linalg.blas import sgemm
from threadpoolctl import threadpool_limits

from constrained_dnc.config import PAPER
from constrained_dnc.model import fused
from constrained_dnc.model.backend import (
    AbstractBackend,
    FusedBackend,
    PureBackend,
    choose_backend,
)
from constrained_dnc.model.build import build_dnc
from constrained_dnc.model.config import ModelConfig
from constrained_dnc.model.dnc_memory import interface_parts
from constrained_dnc.parts import get_approach
from constrained_dnc.tasks.registry import get_task

TURN = 5
"""Counted runs of a contestant before the next one's turn."""


@dataclass(frozen=True)
class Load:
    """What one iteration works on; the defaults are the paper's at L = 10."""

    batch_size: int = PAPER.training.batch_size
    length: int = 10
    memory_size: int = ModelConfig.memory_size
    word_size: int = ModelConfig.word_size
    num_reads: int = ModelConfig.num_reads
    hidden_size: int = ModelConfig.hidden_size
    task: str = "sort"
    approach: str = "stateful-baseline"

    def model(self) -> Any:
        config = ModelConfig(self.memory_size, self.word_size, self.num_reads, self.hidden_size)
        return build_dnc(
            get_approach(self.approach), get_task(self.task), config, key=jax.random.key(0)
        )


class Iteration:
    """Forward, loss, backward, clipping and Adam, again and again on one batch."""

    def __init__(self, backend: AbstractBackend, load: Load):
        self.backend = backend
        self.batch = get_task(load.task).sample(0, load.batch_size, load.length)
        self.model = load.model()
        self.optimiser = optax.chain(
            optax.clip_by_global_norm(PAPER.training.clip_norm),
            optax.adam(PAPER.training.learning_rate),
        )
        self.state = self.optimiser.init(self.model)

        @jax.jit
        def update(model: Any, state: Any, gradient: Any) -> Any:
            updates, state = self.optimiser.update(gradient, state, model)
            return eqx.apply_updates(model, updates), state

        self.update = update

    def __call__(self) -> None:
        _, _, gradient = self.backend.value_and_grad(self.model, self.batch)
        self.model, self.state = self.update(self.model, self.state, gradient)
        self.model.output_bias.block_until_ready()


class Floor:
    """The matrix products of an iteration and nothing else."""

    def __init__(self, load: Load):
        task = get_task(load.task)
        steps, batch = task.num_steps(load.length), load.batch_size
        reads = load.num_reads * load.word_size
        seen = task.input_size + reads + load.hidden_size
        layers = [  # (outputs, inputs) of every matrix
            (4 * load.hidden_size, seen),
            (sum(interface_parts(load.num_reads, load.word_size).values()), load.hidden_size),
            (task.output_size, load.hidden_size),
            (task.output_size, reads),
        ]
        self.products = []
        for wide, narrow in layers:
            self.products += [
                (steps, _product(batch, narrow, wide)),  # forward
                (steps, _product(batch, wide, narrow)),  # gradient of the inputs
                (1, _product(wide, steps * batch, narrow)),  # gradient of the weights
            ]

    def __call__(self) -> None:
        for times, product in self.products:
            for _ in range(times):
                product()


def _product(rows: int, inner: int, columns: int) -> Callable[[], Any]:
    generator = np.random.default_rng(0)
    a = np.asfortranarray(generator.normal(size=(rows, inner)), np.float32)
    b = np.asfortranarray(generator.normal(size=(inner, columns)), np.float32)
    c = np.zeros((rows, columns), np.float32, order="F")
    return lambda: sgemm(1.0, a, b, c=c, overwrite_c=1)


@contextmanager
def on_cores(cores: set[int]) -> Iterator[None]:
    """Confine every thread of this process, those of XLA and BLAS too, to some cores."""
    before = os.sched_getaffinity(0)
    jax.numpy.zeros(1).block_until_ready()  # JAX sizes its pools when it starts: before this
    try:
        _confine(cores)
        yield
    finally:
        _confine(before)


def _confine(cores: set[int]) -> None:
    for path in Path("/proc/self/task").iterdir():
        try:
            os.sched_setaffinity(int(path.name), cores)
        except ProcessLookupError:  # the thread has just ended
            continue


def times_ms(
    contestants: dict[str, Callable[[], Any]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """The times of each, taking turns of a few runs.

    The first run of a turn finds the caches full of another's data, as no iteration of a training
    does, and is not counted. On one core `time.process_time` leaves out other processes' share.
    """
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(-(-repeats // TURN)):
        for name, run in contestants.items():
            run()
            for _ in range(TURN):
                start = clock()
                run()
                times[name].append(1000 * (clock() - start))
    return times


def compare(load: Load, threads: int, repeats: int) -> dict[str, float | None]:
    """Iteration with `fused` and `pure`, the floor, and their ratios, on the cores in force."""
    pure = Iteration(PureBackend("squared error"), load)
    contestants: dict[str, Callable[[], Any]] = {"floor": Floor(load), "pure": pure}
    first = {"pure": _seconds(pure)}
    if fused.missing_reason() is None:
        backend = FusedBackend("squared error", threads)
        contestants["fused"] = Iteration(backend, load)
        first["fused"] = _seconds(contestants["fused"])
    with threadpool_limits(threads, "blas"):
        clock = time.process_time if threads == 1 else time.perf_counter
        times = times_ms(contestants, repeats, clock)
    medians = {name: statistics.median(values) for name, values in times.items()}
    result: dict[str, float | None] = {
        "fused_ms": medians.get("fused"),
        "pure_ms": medians["pure"],
        "floor_ms": medians["floor"],
        "fused_fastest_ms": min(times["fused"]) if "fused" in times else None,
        "fused_first_s": first.get("fused"),
        "pure_first_s": first["pure"],
        "pure_over_fused": None,
        "fused_over_floor": None,
    }
    if "fused" in medians:
        result["pure_over_fused"] = medians["pure"] / medians["fused"]
        result["fused_over_floor"] = medians["fused"] / medians["floor"]
    return result


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def fastest_backend(load: Load, threads: int) -> AbstractBackend:
    """`fused` where it was built, else `pure`."""
    return choose_backend("auto", load.model(), get_task(load.task).loss, threads=threads)


def forward_steps_per_second(load: Load, threads: int) -> float:
    """Samples times steps per second, forward only."""
    backend, model = fastest_backend(load, threads), load.model()
    inputs = get_task(load.task).sample(0, load.batch_size, load.length).inputs

    def run() -> None:
        backend.forward(model, inputs, keep_state=False).outputs.block_until_ready()

    milliseconds = min(times_ms({"forward": run}, repeats=5)["forward"])
    return 1000 * inputs.shape[0] * inputs.shape[1] / milliseconds


GROWTH = {
    "memory_size": (25, 50, 100, 200, 400),
    "length": (5, 10, 20, 40, 60),
    "batch_size": (8, 16, 32, 64, 128, 256),
}


def growth(axis: str, repeats: int) -> dict[int, float]:
    """Milliseconds of the fastest iteration over one size, the others at the paper's."""
    result = {}
    for size in GROWTH[axis]:
        sizes: dict[str, Any] = {axis: size}
        load = replace(Load(), **sizes)
        iteration = Iteration(fastest_backend(load, threads=1), load)
        result[size] = min(times_ms({"run": iteration}, repeats)["run"])
    return result


def measure(repeats: int = 15, with_growth: bool = True) -> dict[str, Any]:
    """Every measurement as one object that JSON can hold."""
    load, cores = Load(), os.sched_getaffinity(0)
    result: dict[str, Any] = {
        "load": asdict(load),
        "backend": fastest_backend(load, 1).name,
        "fused_missing": fused.missing_reason(),
        "simd": fused.simd_levels()[:1],
        "machine": {"cpu": cpu_name(), "cores": len(cores), "python": platform.python_version()},
        "date": time.strftime("%Y-%m-%d"),
    }
    for name, used in (("one_core", {min(cores)}), ("all_cores", cores)):
        report(f"a training iteration on {len(used)} core{'s' * (len(used) > 1)}")
        with on_cores(used):
            result[name] = compare(load, len(used), repeats)
    for size, length in ((50, 45), (500, 100)):
        report(f"forward only, {size} slots")
        at = replace(load, memory_size=size, length=length)
        with on_cores({min(cores)}):
            result[f"forward_steps_per_second_{size}"] = forward_steps_per_second(at, 1)
    if with_growth and fused.missing_reason() is None:
        result["growth_ms"] = {}
        for axis in GROWTH:
            report(f"growth with {axis}")
            with on_cores({min(cores)}):
                result["growth_ms"][axis] = growth(axis, repeats=max(3, repeats // 5))
    result["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return result


def report(line: str) -> None:
    """Say on standard error what is measured now."""
    print(f"... {line}", file=sys.stderr, flush=True)


def cpu_name() -> str:
    """What the processor calls itself."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


ROWS = {
    "fused, ms": "fused_ms",
    "fused, fastest run, ms": "fused_fastest_ms",
    "pure, ms": "pure_ms",
    "floor: its matrix products alone, ms": "floor_ms",
    "pure / fused": "pure_over_fused",
    "fused / floor": "fused_over_floor",
    "first iteration with fused, s": "fused_first_s",
    "first iteration with pure (compiling), s": "pure_first_s",
}


def table(result: dict[str, Any]) -> str:
    """The result in Markdown, as kept in benchmarks/README.md."""
    machine = result["machine"]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}, "
        f"{result['date']}; backend {result['backend']}"
        + (f" ({result['fused_missing']})" if result["fused_missing"] else ""),
        "",
        "| a training iteration | one core | all cores |",
        "|---|---|---|",
    ]
    for what, key in ROWS.items():
        cells = [result[cores][key] for cores in ("one_core", "all_cores")]
        lines.append(f"| {what} | {' | '.join('-' if c is None else f'{c:.1f}' for c in cells)} |")
    lines += ["", "| forward only, one core | samples x steps per second |", "|---|---|"]
    for size in (50, 500):
        lines.append(f"| {size} slots | {result[f'forward_steps_per_second_{size}']:,.0f} |")
    for axis, values in result.get("growth_ms", {}).items():
        times = " | ".join(f"{value:.1f}" for value in values.values())
        lines += [
            "",
            f"| {axis} | {' | '.join(map(str, values))} |",
            f"|---{'|---' * len(values)}|",
            f"| fused, one core, fastest run, ms | {times} |",
        ]
    lines += ["", f"Peak memory {result['peak_memory_mb']:.0f} MB."]
    return "\n".join(lines)


def draw(result: dict[str, Any], path: Path) -> None:
    """The comparison as bars, the growth as lines."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - only when a picture is wanted

    growths = result.get("growth_ms", {})
    figure = Figure(figsize=(4 * (1 + len(growths)), 3.6), layout="constrained")
    bars, *lines = figure.subplots(1, 1 + len(growths), squeeze=False)[0]
    for place, cores in enumerate(("one_core", "all_cores")):
        for offset, (name, colour) in enumerate(
            (("pure", "#bbbbbb"), ("fused", "#0072b2"), ("floor", "#009e73"))
        ):
            value = result[cores][f"{name}_ms"]
            if value is not None:
                bar = bars.bar(place + (offset - 1) * 0.28, value, 0.26, color=colour)
                bars.bar_label(bar, fmt="%.0f", fontsize=8)
                if place == 0:
                    bar.set_label(name)
    bars.set_xticks([0, 1], ["one core", "all cores"])
    bars.set_ylabel("ms per training iteration")
    bars.legend(frameon=False)
    for axis, (name, values) in zip(lines, growths.items(), strict=True):
        axis.loglog(list(values), list(values.values()), "o-", color="#0072b2")
        axis.set_xticks(list(values), [str(v) for v in values])
        axis.set_yticks(list(values.values()), [f"{v:.0f}" for v in values.values()])
        axis.minorticks_off()
        axis.set_xlabel(name)
        axis.set_title("fused, one core, fastest run, ms", fontsize=9)
    figure.savefig(path, dpi=110)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and draw if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--repeats", type=int, default=15, help="runs of each contestant")
    parser.add_argument("--no-growth", action="store_true", help="skip growth with each size")
    parser.add_argument("--plot", type=Path, help="a PNG file of the comparison and the growth")
    args = parser.parse_args(arguments)
    result = measure(args.repeats, not args.no_growth)
    print(json.dumps(result) if args.json else table(result))
    if args.plot is not None:
        draw(result, args.plot)


if __name__ == "__main__":
    main()
