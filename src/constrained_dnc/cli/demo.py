"""The command demo: the paper's effect in seconds, from pretrained models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from constrained_dnc.cli.parsing import parse
from constrained_dnc.errors import BadSetting
from constrained_dnc.evaluation.lengths import predict
from constrained_dnc.training.run import Run, load_run
from constrained_dnc.zoo import PREFIX, find

SHOWN = range(10, 101, 10)
"""Lengths of the table of scores."""


@dataclass(frozen=True)
class _Demo:
    task: str = "sort"
    """A task whose result is one sequence of digits: sort, copy, shift or differentiation."""
    baseline: str = "stateful-baseline"
    """The approach without constraints."""
    constrained: str = "compr+reg"
    """The approach it is compared with."""
    lengths: tuple[int, ...] = (10, 30, 45)
    """Input lengths of the problems; the models were trained on 5 to 15."""
    seed: int = 0
    """Which problems are drawn."""


def demo(arguments: list[str]) -> int:
    """Give a baseline and a constrained model the same problems, ever longer ones."""
    asked = parse(_Demo, arguments, "cdnc demo", demo.__doc__)
    approaches = (asked.baseline, asked.constrained)
    runs = [load_run(f"{PREFIX}{asked.task}/{approach}") for approach in approaches]
    training = runs[0].config.training
    print(
        f"{asked.task} by two pretrained models, both trained on lengths {training.min_length} to "
        f"{training.max_length}. A mark below an entry: it is wrong.",
        flush=True,
    )
    for length in asked.lengths:
        print(f"\nlength {length}")
        print(_compared(runs, length, asked.seed), flush=True)
    print(f"\n{_curves(asked.task, approaches)}")
    return 0


def _compared(runs: Sequence[Run], length: int, seed: int) -> str:
    """The right answer to one problem and those of the models, wrong entries marked."""
    task = runs[0].task
    problem = task.sample(seed, 1, length).problems[0]
    right = task.solve(problem)
    if not all(isinstance(entry, int) for entry in right):
        raise BadSetting("task", task.name, "one whose result is one sequence of digits")
    width = max(len(run.config.approach.name) for run in runs)
    lines = [f"  {'problem':{width}}  {_digits(problem)}", f"  {'right':{width}}  {_digits(right)}"]
    for run in runs:
        answer = predict(run, task.format_problem(problem))
        wrong = [ours != theirs for ours, theirs in zip(answer, right, strict=True)]
        name = run.config.approach.name
        count = f"{length - sum(wrong)} of {length} right"
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
        "The same two models over many problems, % right by input length:",
        f"  {'':{width}}  " + " ".join(f"{length:4}" for length in SHOWN),
    ]
    for approach in approaches:
        model = find(f"{PREFIX}{task}/{approach}")
        scores = model.scores()
        cells = (f"{100 * scores[length]:4.0f}" if length in scores else "   -" for length in SHOWN)
        lines.append(f"  {approach:{width}}  " + " ".join(cells))
    return "\n".join(lines)
