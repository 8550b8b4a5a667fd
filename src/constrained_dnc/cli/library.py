"""Commands about what the library has: tasks, approaches, show, tour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np
import tyro
from jaxtyping import Float

from constrained_dnc import published
from constrained_dnc.approaches import (
    APPROACHES,
    Approach,
    get_approach,
)
from constrained_dnc.cli.parsing import Nothing, parse
from constrained_dnc.config import LONGEST_INPUT
from constrained_dnc.errors import LARGEST_SEED, SettingError, require_integer
from constrained_dnc.tasks.entries import format_number, label_with_number
from constrained_dnc.tasks.registry import get_task, task_names
from constrained_dnc.tasks.task import AbstractTask, Batch, CellLabels

if TYPE_CHECKING:
    from constrained_dnc.model.dnc import DNC


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
        where = "  [supplement C]" if name in published.SUPPLEMENT_C else ""
        if name not in (*published.APPROACHES, *published.SUPPLEMENT_C):
            where = "  [beyond the paper]"
        print(f"{name:{width}}  {approach.summary()}{where}")
    return 0


@dataclass(frozen=True)
class _Show:
    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """A task: its name, package.module:Class or file.py:Class."""
    text: Annotated[
        str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[TEXT]", help_behavior_hint="")
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
    require_integer("seed", asked.seed, 0, LARGEST_SEED)
    if asked.text is not None and asked.length is not None:
        raise SettingError("length", asked.length, "nothing beside a problem of your own")
    if asked.text is None:
        length = 8 if asked.length is None else asked.length
        require_integer("length", length, 1, LONGEST_INPUT)
        batch = task.sample(asked.seed, 1, length)
    else:
        batch = task.batch_of([task.parse(asked.text)])
    problem = batch.problems[0]
    print(f"{task.name}: {task.summary}")
    print(f"problem  {task.format_problem(problem)}")
    print(f"answer   {task.format_answer(task.solve(problem))}\n")
    print(draw(task, batch))
    return 0


NOTE = """
In brackets: what the network sees instead. A blank is 0 to it.
· the loss does not look at this step"""


def draw(task: AbstractTask, batch: Batch) -> str:
    """The first sample of a batch as a table: one row per step."""
    steps = int(batch.num_steps[0])
    inputs, targets, mask = (a[:steps, 0] for a in (batch.inputs, batch.targets, batch.mask))
    input_labels, target_labels = task.cell_labels(batch.problems[0]) or (None, None)
    rows = [["step", *task.input_channels, "|", *task.output_channels]]
    for step in range(steps):
        asked = _cells(task.input_channels, inputs[step], step, input_labels)
        wanted = _cells(task.output_channels, targets[step], step, target_labels)
        rows.append([str(step + 1), *asked, "|", *(wanted if mask[step] else "·" * len(wanted))])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines) + f"\n{NOTE}"


def _cells(
    channels: Sequence[str],
    values: Float[np.ndarray, "channels"],
    step: int,
    labels: CellLabels | None,
) -> list[str]:
    """What stands in each channel, as a person writes it, with the network's number beside it."""
    if labels is None:
        return [format_number(value) for value in values.tolist()]
    written = [labels.get(channel, {}).get(step, "") for channel in channels]
    return [label_with_number(*pair) for pair in zip(written, values.tolist(), strict=True)]


@dataclass(frozen=True)
class _Tour:
    length: int = 6
    """Input length of the samples."""
    approach: str = "compr+reg"
    """Approach of the models."""


def tour(arguments: list[str]) -> int:
    """Show problems of every task as text, and what a model answers: a pretrained one, if any."""
    asked = parse(_Tour, arguments, "cdnc tour", tour.__doc__)
    approach = get_approach(asked.approach)
    require_integer("length", asked.length, 1)
    from constrained_dnc.model.backend import choose_backend  # noqa: PLC0415 - slow to import
    from constrained_dnc.training.compilation import use_compilation_cache  # noqa: PLC0415

    use_compilation_cache()
    print(f"DNCs ({approach.summary()}) on problems of length {asked.length}.")
    for name in task_names():
        model, task, origin = _model_for(name, approach)
        batch = task.sample(0, 3, asked.length)
        backend = choose_backend("auto", model, task.loss, threads=1)
        outputs = np.asarray(backend.forward(model, batch.inputs).outputs)
        print(f"\n{name}: {task.summary}")
        answers = task.decode(outputs, asked.length)
        for problem, answer in zip(batch.problems, answers, strict=True):
            print(f"  problem  {task.format_problem(problem)}")
            print(f"    right  {task.format_answer(task.solve(problem))}")
            print(f"    model  {task.format_answer(answer)}")
        score = float(task.score(batch, outputs).score.mean())
        print(f"  {task.score_kind} {100 * score:.0f} %, {origin}", flush=True)
    return 0


def _model_for(name: str, approach: Approach) -> tuple[DNC, AbstractTask, str]:
    """A pretrained model where there is one, else an untrained one; and which it is."""
    import jax  # noqa: PLC0415 - slow to import

    from constrained_dnc.model.build import build_dnc  # noqa: PLC0415
    from constrained_dnc.training.run import load_pretrained  # noqa: PLC0415
    from constrained_dnc.zoo import PREFIX, pretrained  # noqa: PLC0415

    if f"{PREFIX}{name}/{approach.name}" in pretrained():
        return *load_pretrained(name, approach.name), "pretrained"
    task = get_task(name)
    with jax.enable_x64(False):  # as batches are
        return build_dnc(approach, task, key=jax.random.key(0)), task, "untrained"
