"""The command demo: the paper's effect in seconds, from pretrained models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

from constrained_dnc.cli.parsing import parse
from constrained_dnc.config import parse_lengths
from constrained_dnc.errors import LARGEST_SEED, SettingError, require_integer
from constrained_dnc.evaluation.prediction import predict
from constrained_dnc.published import ITERATIONS
from constrained_dnc.tasks.task import AbstractTask
from constrained_dnc.training.run import Run, load_run
from constrained_dnc.zoo import PREFIX, find

SHOWN = range(10, 101, 10)
"""Lengths of the table of scores."""
LONGEST_PRINTED = 10_000
"""Longer problems fill screens, and memories."""


@dataclass(frozen=True)
class _Demo:
    task: str = "sort"
    """A task whose result is one sequence of digits: sort, copy, shift or differentiation."""
    baseline: str = "stateful-baseline"
    """The approach without constraints."""
    constrained: str = "compr+reg"
    """The approach it is compared with."""
    lengths: str = "10,30,45"
    """Input lengths of the problems, such as 10..50:10; the models were trained on 5 to 15."""
    seed: int = 0
    """Which problems are drawn."""


def demo(arguments: list[str]) -> int:
    """Give a baseline and a constrained model the same problems, of increasing length."""
    asked = parse(_Demo, arguments, "cdnc demo", demo.__doc__)
    require_integer("seed", asked.seed, 0, LARGEST_SEED)
    lengths = parse_lengths(asked.lengths)
    require_integer("lengths", lengths[-1], 1, LONGEST_PRINTED)
    approaches = (asked.baseline, asked.constrained)
    runs = [load_run(f"{PREFIX}{asked.task}/{approach}") for approach in approaches]
    problems = [_drawn(runs[0].task, length, asked.seed) for length in lengths]
    training = runs[0].config.training
    print(
        f"{asked.task} by two pretrained models, both trained on lengths {training.min_length} to "
        f"{training.max_length}. A mark below an entry: it is wrong.\n{runs[0].task.answer_note}\n"
        + "\n".join(map(_about, runs)),
        flush=True,
    )
    for problem in problems:
        print(f"\nlength {len(problem)}")
        print(_compared(runs, problem), flush=True)
    print(f"\n{_curves(asked.task, approaches)}")
    return 0


def _about(run: Run) -> str:
    """Which of many models this is: others of its kind score otherwise."""
    config, rule = run.config, run.default_rule
    return (
        f"{config.approach.name}: trial {config.seed}, {run.status.iteration} iterations "
        f"(paper: {ITERATIONS}), {config.model.memory_size} slots, selected by the rule {rule}."
    )


def _drawn(task: AbstractTask, length: int, seed: int) -> Any:
    """A problem that can be printed as digits, as can its result."""
    problem = task.sample(seed, 1, length).problems[0]
    for entries in (problem, task.solve(problem)):
        if not isinstance(entries, tuple) or any(type(entry) is not int for entry in entries):
            accepted = "one whose problems and results are sequences of digits"
            raise SettingError("task", task.name, accepted)
    return problem


def _compared(runs: Sequence[Run], problem: Any) -> str:
    """The right answer to one problem and those of the models, wrong entries marked."""
    task = runs[0].task
    right = task.solve(problem)
    width = max(len(run.config.approach.name) for run in runs)
    lines = [f"  {'problem':{width}}  {_digits(problem)}", f"  {'right':{width}}  {_digits(right)}"]
    for run in runs:
        answer = predict(run, task.format_problem(problem))
        wrong = [ours != theirs for ours, theirs in zip(answer, right, strict=True)]
        name = run.config.approach.name
        count = f"{len(wrong) - sum(wrong)} of {len(wrong)} right"
        lines.append(f"  {name:{width}}  {_digits(answer)}  {count}")
        if any(wrong):
            lines.append(f"  {'':{width}}  {''.join('^' if bad else ' ' for bad in wrong)}")
    return "\n".join(line.rstrip() for line in lines)


def _digits(entries: Sequence[int | None]) -> str:
    """One character per entry: ? is not finite, * has more than one digit.

    >>> _digits((3, None, 12))
    '3?*'
    """
    return "".join(
        "?" if entry is None else str(entry) if 0 <= entry <= 9 else "*" for entry in entries
    )


def _curves(task: str, approaches: Sequence[str]) -> str:
    """The stored scores of both models over lengths, as a table."""
    width = max(map(len, approaches))
    lines = [
        "The same two models over many problems, % right by input length, rounded down:",
        f"  {'':{width}}  " + " ".join(f"{length:4}" for length in SHOWN),
    ]
    for approach in approaches:
        model = find(f"{PREFIX}{task}/{approach}")
        scores = model.scores()
        cells = (
            f"{floor(100 * scores[length] + 1e-6):4}" if length in scores else "   -"
            for length in SHOWN
        )
        lines.append(f"  {approach:{width}}  " + " ".join(cells))
    return "\n".join(lines)
