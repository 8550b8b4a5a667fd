"""What a study will take, before it begins: measured for one run of each task, then multiplied."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import SupportsFloat

import jax

from constrained_dnc.config import Config
from constrained_dnc.evaluation.analyses import analyse_model
from constrained_dnc.evaluation.scoring import make_plan, work_of
from constrained_dnc.evaluation.trained import outputs_of
from constrained_dnc.study.trial import Wanted, is_done, memories_of
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.batches import evaluation_batch
from constrained_dnc.training.parameters import backend_for, initial_model, parameters_of
from constrained_dnc.training.run import Run, TrainedModel

STORED_COPIES = 3 + 2 * 6
"""Of the parameters in a run: selected by three rules; in each of two checkpoints those, the
current ones, and two moments."""
BYTES_OF_A_MEASUREMENT = 130
"""In metrics.jsonl."""
MANY_CORES = 64


@dataclass(frozen=True)
class RunCost:
    """What one run takes: seconds on one core of this machine, and bytes."""

    iteration: float
    scoring: float
    """At most: lengths are skipped once the score is near its floor."""
    analyses: float
    bytes: float

    def seconds(self, iterations: int) -> float:
        """All of it, with so many iterations to go."""
        return self.iteration * iterations + self.scoring + self.analyses


def iterations_left(run: Run | None, config: Config, wanted: Wanted) -> int | None:
    """The iterations that a run lacks; None if nothing is to be done."""
    if run is None:
        return config.training.iterations
    status = run.status
    left = 0 if status.state == "diverged" else config.training.iterations - status.iteration
    is_same = config.evaluation == run.config.evaluation
    return None if left <= 0 and is_same and is_done(run.folder, wanted) else max(0, left)


def measure_run(config: Config, wanted: Wanted) -> RunCost:
    """Time an update, a measurement, a batch with every memory, and the analyses."""
    training, task = config.training, get_task(config.task)
    model = initial_model(config)
    backend = backend_for(config, model, threads=1)
    mean_length = (training.min_length + training.max_length) // 2
    trained, unseen = (
        task.sample(0, training.batch_size, n) for n in (mean_length, training.unseen_length)
    )
    update = _seconds(lambda: backend.value_and_grad(model, trained)[0])
    measurement = _seconds(lambda: backend.measure(model, unseen)[0])
    untrained = TrainedModel(lambda: model, task, training, config.evaluation)
    inputs = evaluation_batch(task, config.evaluation, training.unseen_length, 0).inputs
    scoring, slots = 0.0, config.model.memory_size
    for memory in memories_of(config):
        running = untrained.memory(memory)
        once = _seconds(lambda: outputs_of(backend, model, running, inputs).sum())  # noqa: B023
        (timed,) = make_plan(config.evaluation, slots, [training.unseen_length], [memory], 1)
        rows = make_plan(config.evaluation, slots, memories=[memory])
        work = sum(work_of(untrained, row) for row in rows) / work_of(untrained, timed)
        rules = sum(memory in memories_of(config, rule) for rule in wanted.rules)
        scoring += len(wanted.inferences) * rules * once * work
    arrays = analyse_model(model, task, config) if wanted.analyses else {}
    analyses = _seconds(lambda: len(analyse_model(model, task, config))) if wanted.analyses else 0.0
    parameters = sum(leaf.nbytes for leaf in jax.tree.leaves(parameters_of(model)))
    lines = training.iterations / training.measure_every * BYTES_OF_A_MEASUREMENT
    stored = STORED_COPIES * parameters + lines + sum(array.nbytes for array in arrays.values())
    return RunCost(update + measurement / training.measure_every, scoring, analyses, stored)


def _seconds(value: Callable[[], SupportsFloat]) -> float:
    """The mean time of three calls, after a first one that may compile."""
    float(value())
    start = time.perf_counter()
    for _ in range(3):
        float(value())
    return (time.perf_counter() - start) / 3


def describe(
    to_do: Sequence[tuple[Config, int]], runs: int, wanted: Wanted, workers: int
) -> Iterable[str]:
    """Say what a study takes, line by line.

    Args:
        to_do: The configs of the runs that are not done, each with the iterations to go.
        runs: The number of all its runs.
        wanted: What is wanted of each.
        workers: How many run at a time here.
    """
    iterations = sum(left for _, left in to_do)
    yield f"{runs} runs, {runs - len(to_do)} ended, {len(to_do)} to go: {iterations} iterations"
    if not to_do:
        return
    costs: dict[str, RunCost] = {}
    for config, _ in to_do:
        if config.task not in costs:
            cost = costs[config.task] = measure_run(config, wanted)
            name = f"{get_task(config.task).name} {config.approach.name}"
            yield (
                f"measured here, one core, {name}: {1000 * cost.iteration:.3g} ms an iteration; a "
                f"run takes {_time(cost.iteration * config.training.iterations)} to train, at most "
                f"{_time(cost.scoring)} to score, {_time(cost.analyses)} to analyse"
            )
    seconds = [costs[config.task].seconds(left) for config, left in to_do]
    total, longest, size = sum(seconds), max(seconds), sum(costs[c.task].bytes for c, _ in to_do)
    yield "by arithmetic, as if all runs of a task were like the one that was timed:"
    yield f"  {_rounded(total / 3600)} core-hours, {_rounded(size / 1e6)} MB on disk"
    for cores, where in ((workers, "here"), (MANY_CORES, "on cores like these")):
        busy = min(cores, len(to_do))
        needed = _time(max(total / busy, longest))
        idle = f", {busy} of them busy" if busy < cores else ""
        yield f"  {needed} with {cores} workers {where}{idle}"
    yield "  on a GPU: not known, as it was never measured; it would use JAX instead of the kernel"


def _rounded(number: float) -> str:
    """
    >>> _rounded(0.0123), _rounded(314.2)
    ('0.012', '314')
    """
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"


def _time(seconds: float) -> str:
    """
    >>> _time(3.2), _time(7300.0)
    ('0:00:04', '2:01:40')
    """
    return str(timedelta(seconds=int(-(-seconds // 1))))
