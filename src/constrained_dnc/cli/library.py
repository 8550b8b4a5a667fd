"""Commands about what the library has: tasks, approaches, show, tour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import tyro

from constrained_dnc.approaches import (
    APPROACHES,
    PAPER_APPROACHES,
    SUPPLEMENT_C_APPROACHES,
    get_approach,
)
from constrained_dnc.cli.parsing import Nothing, parse
from constrained_dnc.errors import LARGEST_SEED, BadSetting, require_whole
from constrained_dnc.tasks.registry import get_task, task_names
from constrained_dnc.tasks.task import AbstractTask, Batch


def tasks(arguments: list[str]) -> int:
    """List the tasks, one line each."""
    parse(Nothing, arguments, "cdnc tasks", tasks.__doc__)
    width = max(map(len, task_names()))
    for name in task_names():
        print(f"{name:{width}}  {get_task(name).summary}")
    print("\nYour own: a class in a file, as path/to/file.py:Class, wherever a task is asked for.")
    return 0


def approaches(arguments: list[str]) -> int:
    """List the approaches, one line each."""
    parse(Nothing, arguments, "cdnc approaches", approaches.__doc__)
    width = max(map(len, APPROACHES))
    for name, approach in APPROACHES.items():
        where = "  [supplement C]" if name in SUPPLEMENT_C_APPROACHES else ""
        if name not in (*PAPER_APPROACHES, *SUPPLEMENT_C_APPROACHES):
            where = "  [beyond the paper]"
        print(f"{name:{width}}  {approach.summary()}{where}")
    return 0


@dataclass(frozen=True)
class _Show:
    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """A task: its name, package.module:Class or file.py:Class."""
    text: Annotated[
        str | None, tyro.conf.Positional, tyro.conf.arg(metavar="TEXT", help_behavior_hint="")
    ] = None
    """A problem of your own, such as "3 1 4 1 0"; without it one is drawn."""
    length: int | None = None
    """Input length of the drawn problem; by default 8."""
    seed: int = 0
    """Which problem is drawn."""


def show(arguments: list[str]) -> int:
    """Draw one sample step by step: input, control channel, target, signal channel."""
    asked = parse(_Show, arguments, "cdnc show", show.__doc__)
    task = get_task(asked.task)
    require_whole("seed", asked.seed, 0, LARGEST_SEED)
    if asked.text is not None and asked.length is not None:
        raise BadSetting("length", asked.length, "nothing beside a problem of your own")
    if asked.text is None:
        batch = task.sample(asked.seed, 1, 8 if asked.length is None else asked.length)
    else:
        batch = task.batch_of([task.parse(asked.text)])
    problem = batch.problems[0]
    print(f"{task.name}: {task.summary}")
    print(f"problem  {task.format_problem(problem)}")
    print(f"answer   {task.format_answer(task.solve(problem))}\n")
    print(draw(task, batch))
    return 0


def draw(task: AbstractTask, batch: Batch) -> str:
    """The first sample of a batch as a table: one row per step."""
    steps = int(batch.num_steps[0])
    inputs, targets, mask = (a[:steps, 0] for a in (batch.inputs, batch.targets, batch.mask))
    names = ["step", *task.input_channels, "|", *task.output_channels]
    rows = [
        [
            str(step + 1),
            *map(_number, inputs[step]),
            "|",
            *(_number(value) if mask[step] else "·" for value in targets[step]),
        ]
        for step in range(steps)
    ]
    widths = [max(len(row[column]) for row in [names, *rows]) for column in range(len(names))]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in [names, *rows]
    ]
    return "\n".join(lines) + "\n\n· the loss does not look at this step"


def _number(value: np.floating) -> str:
    return np.format_float_positional(value, precision=2, trim="-")


@dataclass(frozen=True)
class _Tour:
    length: int = 6
    """Input length of the samples."""
    approach: str = "compr+reg"
    """Approach of the untrained model."""


def tour(arguments: list[str]) -> int:
    """Show a batch of every task as text, and what an untrained model answers."""
    asked = parse(_Tour, arguments, "cdnc tour", tour.__doc__)
    import jax  # noqa: PLC0415 - slow to import

    from constrained_dnc.model.build import build_dnc  # noqa: PLC0415

    approach = get_approach(asked.approach)
    require_whole("length", asked.length, 1)
    print(f"An untrained DNC ({approach.summary()}) on problems of length {asked.length}.")
    for name in task_names():
        task = get_task(name)
        batch = task.sample(0, 3, asked.length)
        outputs = build_dnc(approach, task, key=jax.random.key(0)).unroll(batch.inputs).outputs
        scores = task.score(batch, np.asarray(outputs))
        print(f"\n{name}: {task.summary}")
        for problem, answer in zip(
            batch.problems, task.decode(np.asarray(outputs), asked.length), strict=True
        ):
            print(f"  problem  {task.format_problem(problem)}")
            print(f"    right  {task.format_answer(task.solve(problem))}")
            print(f"    model  {task.format_answer(answer)}")
        print(f"  {task.score_kind} {100 * float(scores.score.mean()):.0f} %, untrained")
    return 0
