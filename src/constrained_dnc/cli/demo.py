"""The command demo: the paper's effect in seconds, from pretrained models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from constrained_dnc.cli.terminal import print_table
from constrained_dnc.config import INFERENCES, PAPER, extended, parse_lengths
from constrained_dnc.errors import LARGEST_SEED, SettingError, require_integer
from constrained_dnc.evaluation.prediction import predict
from constrained_dnc.evaluation.results import stored_results
from constrained_dnc.tasks.task import AbstractTask
from constrained_dnc.training.run import Run, load_run
from constrained_dnc.zoo import PREFIX

SHOWN = range(10, 101, 10)
"""Lengths of the table of scores."""
LONGEST_PRINTED = 10_000
"""Longer problems would fill the screen and the computer's memory."""


@dataclass(frozen=True)
class Demo:
    """Give a baseline and a constrained model the same problems, of increasing length."""

    task: str = "copy"
    """A task whose result is one sequence of digits: sort, copy, shift or differentiation."""
    baseline: str = "stateful-baseline"
    """The approach without constraints."""
    constrained: str = "compr+reg"
    """The approach to compare it with."""
    lengths: str = "10,30"
    """Input lengths of the problems, such as 10..50:10; the models were trained on 5 to 15."""
    digital_length: int = 200
    """Input length of a test of digital inference with ten times the slots; 0 leaves it out."""
    seed: int = 0
    """Seed of the sampled problems."""

    def run(self) -> int:
        """Print the answers of both models, then their scores over many problems."""
        require_integer("seed", self.seed, 0, LARGEST_SEED)
        lengths = parse_lengths(self.lengths)
        require_integer("the longest of --lengths", lengths[-1], 1, LONGEST_PRINTED)
        require_integer("--digital-length", self.digital_length, 0, LONGEST_PRINTED)
        names = [f"{PREFIX}{self.task}/{name}" for name in (self.baseline, self.constrained)]
        runs = [load_run(name) for name in names]
        problems = [_sample(runs[0].task, length, self.seed) for length in lengths]
        training = runs[0].config.training
        print(
            f"{self.task} by two pretrained models, both trained on lengths {training.min_length} "
            f"to {training.max_length}. A mark below an entry means that it is wrong.\n"
            + "\n".join([runs[0].task.answer_note, *map(_origin, runs)]),
            flush=True,
        )
        for problem in problems:
            print(f"\nlength {len(problem)}\n{_compared(runs, problem)}", flush=True)
        print("\nThe two models over many problems, % correct by input length, rounded:")
        print_table(["", *map(str, SHOWN)], [_curve(run) for run in runs])
        if self.digital_length:
            print(_digital(runs[1], _sample(runs[1].task, self.digital_length, self.seed)))
        return 0


def _origin(run: Run) -> str:
    """Which trial a model is: other trials score differently."""
    config = run.config
    return (
        f"{config.approach.name}: seed {config.seed}, {run.status.iteration} iterations "
        f"(paper: {PAPER.training.iterations}), {config.model.memory_size} slots, "
        f"selected by {run.default_rule}."
    )


def _sample(task: AbstractTask, length: int, seed: int) -> Any:
    """A problem that can be printed as digits, as can its result."""
    problem = task.sample(seed, 1, length).problems[0]
    for entries in (problem, task.solve(problem)):
        if not isinstance(entries, tuple) or any(type(entry) is not int for entry in entries):
            raise SettingError(f"{task.name} has problems or answers that are not digits")
    return problem


def _compared(runs: Sequence[Run], problem: Any) -> str:
    """The solution of one problem and the models' answers, wrong entries marked."""
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


def _digital(run: Run, problem: Any) -> str:
    """How a model does on a long problem, as trained and with digital inference."""
    right, slots = run.task.solve(problem), extended(run.config.model.memory_size)
    counts = []
    for inference in INFERENCES:
        text = run.task.format_problem(problem)
        answer = predict(run, text, memory=slots, inference=inference)
        count = sum(ours == theirs for ours, theirs in zip(answer, right, strict=True))
        counts.append(f"{inference} {count} of {len(right)} right")
    return (
        f"\n{run.config.approach.name} at length {len(right)} with {slots} slots, as a network and "
        f"with digital inference\n(one-hot writes, states that snap to a few; no retraining): "
        f"{', '.join(counts)}"
    )


def _digits(entries: Sequence[int | None]) -> str:
    """One character per entry: ? is not finite, * has more than one digit.

    >>> _digits((3, None, 12))
    '3?*'
    """
    return "".join(
        "?" if entry is None else str(entry) if 0 <= entry <= 9 else "*" for entry in entries
    )


def _curve(run: Run) -> list[object]:
    """The stored scores of a model at the lengths in the table."""
    rows = stored_results(run.folder)
    is_shown = (rows["selection"] == run.default_rule) & (rows["inference"] == "network")
    is_shown &= rows["memory"] == str(run.config.model.memory_size)
    scores = rows[is_shown].dropna(subset="score").set_index("length")["score"]
    cells = [round(100 * scores[n]) if n in scores else "-" for n in SHOWN]
    return [run.config.approach.name, *cells]
