"""The command show: tasks, approaches and samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import tyro
from jaxtyping import Float

from constrained_dnc.cli.parsing import option
from constrained_dnc.cli.terminal import print_table
from constrained_dnc.config import LONGEST_INPUT, PAPER, SUPPLEMENT_C
from constrained_dnc.errors import LARGEST_SEED, SettingError, require_integer
from constrained_dnc.parts import APPROACHES
from constrained_dnc.tasks.entries import format_number, label_with_number
from constrained_dnc.tasks.registry import get_task, task_names
from constrained_dnc.tasks.task import AbstractTask, Batch, CellLabels

DEFAULT_LENGTH = 8
NOTE = """
In brackets: the number that the network sees; a blank is 0.
· the loss ignores this step"""


@dataclass(frozen=True)
class Show:
    """List the tasks and approaches, or draw one sample of a task step by step.

    A sample shows input, control channel, target and signal channel.
    """

    task: Annotated[str, tyro.conf.Positional, option(metavar="[TASK]")] = ""
    """A task: its name, package.module:Class or file.py:Class."""
    text: Annotated[str, tyro.conf.Positional, option(metavar="[TEXT]")] = ""
    """A problem, such as 31410 or "3 1 4 1 0"; without it one is sampled."""
    length: Annotated[int | None, option()] = None
    """Input length of the sample; by default 8."""
    seed: int = 0
    """Seed of the sample."""

    def run(self) -> int:
        """Print lists or a sample."""
        require_integer("seed", self.seed, 0, LARGEST_SEED)
        if self.text and self.length is not None:
            raise SettingError("--length cannot be combined with a problem")
        length = DEFAULT_LENGTH if self.length is None else self.length
        require_integer("length", length, 1, LONGEST_INPUT)
        if self.task:
            task = get_task(self.task)
            if self.text:
                batch = task.batch_of([task.parse(self.text)])
            else:
                batch = task.sample(self.seed, 1, length)
            _print_sample(task, batch)
        else:
            _print_lists()
        return 0


def _print_lists() -> None:
    print_table(["task", ""], [[name, get_task(name).summary] for name in task_names()], left=2)
    print("\nA user-defined task is written path/to/file.py:Class.\n")
    rows = [[name, _origin(name), approach.summary()] for name, approach in APPROACHES.items()]
    print_table(["approach", "", ""], rows, left=3)


def _origin(approach: str) -> str:
    if approach in PAPER.approaches:
        return "paper"
    return "supplement C" if approach in SUPPLEMENT_C else "beyond the paper"


def _print_sample(task: AbstractTask, batch: Batch) -> None:
    """The first sample of a batch: problem, answer and a table with one row per step."""
    from constrained_dnc.evaluation.floors import floor  # noqa: PLC0415 - for this command only

    problem = batch.problems[0]
    print(f"{task.name}: {task.summary}")
    print(f"problem  {task.format_problem(problem)}")
    print(f"answer   {task.format_answer(task.solve(problem))}")
    print(
        f"floor    {floor(task, batch.length):.2f}, the score of an answer that ignores the input\n"
    )
    steps = int(batch.num_steps[0])
    inputs, targets, mask = (a[:steps, 0] for a in (batch.inputs, batch.targets, batch.mask))
    input_labels, target_labels = task.cell_labels(batch.problems[0]) or (None, None)
    rows = []
    for step in range(steps):
        seen = _cells(task.input_channels, inputs[step], step, input_labels)
        expected = _cells(task.output_channels, targets[step], step, target_labels)
        rows.append([step + 1, *seen, "|", *(expected if mask[step] else "·" * len(expected))])
    print_table(["step", *task.input_channels, "|", *task.output_channels], rows, left=0)
    print(NOTE)


def _cells(
    channels: Sequence[str],
    values: Float[np.ndarray, "channels"],
    step: int,
    labels: CellLabels | None,
) -> list[str]:
    """The symbol in each channel, followed by the number that the network sees."""
    if labels is None:
        return [format_number(value) for value in values.tolist()]
    written = [labels.get(channel, {}).get(step, "") for channel in channels]
    return [label_with_number(*pair) for pair in zip(written, values.tolist(), strict=True)]
