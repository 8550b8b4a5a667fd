"""The command demo: the effect of a constraint, by pretrained models or trained live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from constrained_dnc.cli.parsing import option, parse
from constrained_dnc.cli.terminal import print_stderr, print_table
from constrained_dnc.config import PAPER, PRESETS, SelectionRule, extended, parse_lengths
from constrained_dnc.errors import LARGEST_SEED, SettingError, require_integer
from constrained_dnc.evaluation.prediction import predict
from constrained_dnc.evaluation.results import stored_results
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.tasks.task import AbstractTask
from constrained_dnc.training.run import Run, load_run
from constrained_dnc.zoo import PREFIX, pretrained

if TYPE_CHECKING:
    import pandas as pd

LIVE, ROUNDED = PRESETS["demo"], "round+reg"
SHOWN, SHOWN_EXTENDED = (10, 30, 50), (50, 100)
"""Lengths of the table of scores, with the slots of training and with ten times as many."""
LONGEST_PRINTED = 10_000
"""Longer problems would fill the screen and the computer's memory."""


@dataclass(frozen=True)
class Demo:
    """Give a baseline and a constrained model the same problems, of increasing length."""

    task: str = "copy"
    """A task whose result is one sequence of digits: sort, copy, shift or differentiation."""
    baseline: str = "stateful-baseline"
    """The approach without constraints."""
    constrained: Annotated[str | None, option()] = None
    """The approach to compare it with; by default round+reg, where pretrained, or compr+reg."""
    lengths: str = "10,30"
    """Input lengths of the problems, such as 10..50:10; the models were trained on 5 to 15."""
    seed: int = 0
    """Seed of the sampled problems."""
    live: Annotated[
        bool,
        option(
            "Train both models now, at the paper's size, side by side: about "
            f"{LIVE.study_takes}. The same command resumes."
        ),
    ] = False
    study: Path = Path("studies", LIVE.name)
    """With --live: the folder of the two runs, their report and the explorer's page."""

    def run(self) -> int:
        """Print the answers of both models, then their scores over many problems."""
        require_integer("seed", self.seed, 0, LARGEST_SEED)
        lengths = parse_lengths(self.lengths)
        require_integer("the longest of --lengths", lengths[-1], 1, LONGEST_PRINTED)
        return self._run_live(lengths) if self.live else self._run_pretrained(lengths)

    def _run_pretrained(self, lengths: Sequence[int]) -> int:
        has_rounded = f"{PREFIX}{self.task}/{ROUNDED}" in pretrained()
        names = (self.baseline, self.constrained or (ROUNDED if has_rounded else "compr+reg"))
        runs = [load_run(f"{PREFIX}{self.task}/{name}") for name in names]
        self._show(runs, [stored_results(run.folder) for run in runs], lengths, "score")
        print(
            "\nThese models came with the package. To train two of this size yourself, side by "
            f"side, in {LIVE.study_takes}:\ncdnc demo --live"
        )
        return 0

    def _run_live(self, lengths: Sequence[int]) -> int:
        from constrained_dnc.cli.studies import Study  # noqa: PLC0415 - slow to import
        from constrained_dnc.explorer import open_model, page  # noqa: PLC0415
        from constrained_dnc.study import read_study  # noqa: PLC0415

        names = (self.baseline, self.constrained or LIVE.approaches[-1])
        problem = _sample(get_task(self.task), lengths[-1], self.seed)
        print_stderr(
            f"training {' and '.join(names)} on {self.task}, {LIVE.training.iterations} iterations "
            f"each: about {LIVE.study_takes}; Ctrl-C stops, the same command resumes"
        )
        options = ["--preset", LIVE.name, "--tasks", self.task, "--approaches", *names]
        code = parse(Study, [*options, "--study", str(self.study)], "cdnc study").run()
        if code:
            return code
        study = read_study(self.study)
        runs, results = [], []
        for name in names:
            is_shown = (study.runs["task"] == self.task) & (study.runs["approach"] == name)
            run_id = study.runs[is_shown]["seed"].idxmin()
            runs.append(study.members[str(run_id)])
            results.append(study.results[study.results["run_id"] == run_id])
        print()
        rule = LIVE.rules[-1]
        self._show(runs, results, lengths, rule)
        path = self.study / "explorer.html"
        models = [open_model(str(run.folder), selection=rule) for run in reversed(runs)]
        page.write(models, models[0].task.format_problem(problem), None, path)
        print(f"\nboth at work on the last problem, step by step: {path}")
        return 0

    def _show(
        self,
        runs: Sequence[Run],
        results: Sequence[pd.DataFrame],
        lengths: Sequence[int],
        rule: SelectionRule,
    ) -> None:
        """Print the models, their answers and their scores."""
        problems = [_sample(runs[0].task, length, self.seed) for length in lengths]
        training = runs[0].config.training
        print(
            f"{self.task} by two {'new' if self.live else 'pretrained'} models, both trained on "
            f"lengths {training.min_length} to {training.max_length}. A mark below an entry means "
            "that it is wrong.\n"
            + "\n".join([runs[0].task.answer_note, *(_origin(run, rule) for run in runs)]),
            flush=True,
        )
        for problem in problems:
            print(f"\nlength {len(problem)}\n{_compared(runs, problem, rule)}", flush=True)
        print("\nThe two models over many problems, % correct by input length, rounded:")
        slots = extended(runs[0].config.model.memory_size)
        columns = [*map(str, SHOWN), *(f"{length} ({slots} slots)" for length in SHOWN_EXTENDED)]
        rows = zip(runs, results, strict=True)
        print_table(["", *columns], [_scores(run, table, rule) for run, table in rows])


def _origin(run: Run, rule: SelectionRule) -> str:
    """Which trial a model is: other trials score differently."""
    config = run.config
    return (
        f"{config.approach.name}: seed {config.seed}, {run.status.iteration} iterations "
        f"(paper: {PAPER.training.iterations}), {config.model.memory_size} slots, "
        f"selected by {rule}."
    )


def _sample(task: AbstractTask, length: int, seed: int) -> Any:
    """A problem that can be printed as digits, as can its result."""
    problem = task.sample(seed, 1, length).problems[0]
    for entries in (problem, task.solve(problem)):
        if not isinstance(entries, tuple) or any(type(entry) is not int for entry in entries):
            raise SettingError(f"{task.name} has problems or answers that are not digits")
    return problem


def _compared(runs: Sequence[Run], problem: Any, rule: SelectionRule) -> str:
    """The solution of one problem and the models' answers, wrong entries marked."""
    task = runs[0].task
    right = task.solve(problem)
    width = max(len(run.config.approach.name) for run in runs)
    lines = [f"  {'problem':{width}}  {_digits(problem)}", f"  {'right':{width}}  {_digits(right)}"]
    for run in runs:
        answer = predict(run, task.format_problem(problem), selection=rule)
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


def _scores(run: Run, results: pd.DataFrame, rule: SelectionRule) -> list[object]:
    """The scores of a model at the lengths in the table."""
    is_shown = (results["selection"] == rule) & (results["inference"] == "network")
    scores = results[is_shown].set_index(["memory", "length"])["score"].dropna()
    trained = run.config.model.memory_size
    keys = [(str(trained), length) for length in SHOWN]
    keys += [(str(extended(trained)), length) for length in SHOWN_EXTENDED]
    cells = [round(100 * scores[key]) if key in scores else "-" for key in keys]
    return [run.config.approach.name, *cells]
