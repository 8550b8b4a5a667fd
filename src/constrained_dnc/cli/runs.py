"""Commands for one trained model: evaluate, predict."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

import tyro

from constrained_dnc.cli.parsing import (
    Backend,
    Flag,
    InferenceOption,
    Memory,
    ModelOptions,
    Selection,
    Threads,
    option,
)
from constrained_dnc.cli.progress import ProgressBar
from constrained_dnc.cli.terminal import print_stderr, print_table
from constrained_dnc.config import (
    MASTERED,
    THRESHOLD,
    format_lengths,
    parse_lengths,
    parse_memories,
)
from constrained_dnc.errors import SettingError
from constrained_dnc.model.config import read_memory_size
from constrained_dnc.training.folder import EVALUATION

if TYPE_CHECKING:
    import pandas as pd

Lengths = Annotated[str | None, option(metavar="LENGTHS")]
Memories = Annotated[str | None, option(metavar="MEMORIES")]


def _show(bar: ProgressBar) -> Callable[[float, float, Any], None]:
    """A function that `evaluate` calls with the work done, the total and the current row."""
    return lambda done, total, row: bar.show(
        int(100 * done / total), 100, f"length {row.length}, memory {row.memory}"
    )


@dataclass(frozen=True)
class Evaluate(ModelOptions):
    """Score a model at every length, print the scores and store them in the run directory."""

    lengths: Lengths = None
    """Input lengths, such as 2..100 or 2,5..50:5; by default those of the run's config."""
    memory: Memories = None
    """Slots, such as 80 or 50..200:50,growing; by default as in training."""
    batches: Annotated[int | None, option()] = None
    """Batches of every length; by default as in the run's config."""
    all_lengths: Flag = False
    """Leave out no length. By default, inputs longer than the memory has slots are left out once
    the score is close to the floor."""
    selection: Selection = None
    inference: InferenceOption = "network"
    backend: Backend = "auto"
    threads: Threads = None
    json: Flag = False
    """Print the rows as one JSON list instead of tables."""

    def run(self) -> int:
        """Evaluate with progress, then print maximum lengths and scores."""
        memories = None if self.memory is None else parse_memories(self.memory)
        lengths = None if self.lengths is None else parse_lengths(self.lengths)
        from constrained_dnc.evaluation import scoring  # noqa: PLC0415 - slow to import

        run = self.open_run()
        if memories and run.config.approach.memory.kind == "none":
            raise SettingError(f"{run.config.approach.name} has no memory for --memory to change")
        with ProgressBar("percent") as bar:
            table = scoring.evaluate(
                run,
                lengths=lengths,
                memories=memories,
                batches=self.batches,
                all_lengths=self.all_lengths,
                selection=self.selection,
                inference=self.inference,
                backend=self.backend,
                threads=self.threads,
                progress=_show(bar),
                store=False,
            )
        if self.json:
            print(table.to_json(orient="records"))
        else:
            print_scores(table)
        if not run.is_pretrained:  # after printing: a full disk must not cost the scores
            scoring.store_rows(run.folder / EVALUATION, table)
        return 0


def print_scores(table: pd.DataFrame) -> None:
    """The maximum lengths of every memory, then all scores, then where they come from."""
    from constrained_dnc.evaluation.results import max_length  # noqa: PLC0415 - slow to import

    measured = table[table["batches"] > 0]
    row, reached = measured.iloc[0], measured["floor"] >= MASTERED
    lengths = format_lengths(measured["length"].unique().tolist())
    share = f"at least {100 * THRESHOLD:.0f} % correct"
    print(f"Maximum length: the longest input with {share}, of the lengths {lengths}")
    if reached.any():
        lengths = format_lengths(measured[reached]["length"].unique().tolist())
        print(f"(not counted, as the floor reaches that: {lengths})")
    kinds = ["score", "sequence_accuracy"]
    by_memory = cast(Any, measured.groupby("memory", sort=False))
    longest = [
        [memory, *(max_length(rows, kind) or "none" for kind in kinds)]
        for memory, rows in by_memory
    ]
    print_table(["memory", f"by {row['score_kind']}", "by whole answers"], longest, left=0)
    print()
    columns = cast(Any, measured[["memory", "length", *kinds, "floor"]])
    cells = [
        [memory, length, *(f"{100 * share:.1f} %" for share in shares)]
        for memory, length, *shares in columns.itertuples(index=False)
    ]
    print_table(["memory", "length", row["score_kind"], "whole answers", "floor"], cells, left=0)
    for memory, rows in cast(Any, table[table["batches"] == 0].groupby("memory", sort=False)):
        print(
            f"memory {memory}: {len(rows)} longer inputs were left out, as the score is close to "
            "the floor (--all-lengths measures them)"
        )
    print(
        f"\n{row['task']}, {row['approach']}, seed {row['seed']}: parameters of iteration "
        f"{row['iteration']}, selected by {row['selection']}; {row['status']} after "
        f"{row['iterations']} iterations, skipped updates {row['skipped_updates']}; "
        f"{row['inference']} inference"
    )


@dataclass(frozen=True)
class Predict(ModelOptions):
    """Answer problems with a trained model."""

    texts: Annotated[tuple[str, ...], tyro.conf.Positional, option(metavar="[TEXT ...]")] = ()
    """Problems, such as 31410 or "3 1 4 1 0"; without any, the lines of standard input."""
    memory: Memory = None
    selection: Selection = None
    inference: InferenceOption = "network"
    backend: Backend = "auto"
    json: Flag = False
    """Print problems and answers as one JSON list."""

    def run(self) -> int:
        """Print every problem, its solution and the model's answer."""
        memory = None if self.memory is None else read_memory_size(self.memory)
        texts = [text for text in self.texts or _input_lines() if text.strip()]
        if not texts:
            raise SettingError("a problem is missing: add one, such as '3 1 4 1 0', or pipe lines")
        from constrained_dnc.evaluation.prediction import compare, predict  # noqa: PLC0415 - slow to import

        run = self.open_run()
        task, training = run.task, run.config.training
        answers = predict(
            run,
            texts,
            memory=memory,
            selection=self.selection,
            inference=self.inference,
            backend=self.backend,
        )
        problems = [task.parse(text) for text in texts]
        lengths = sorted({task.length_of(problem) for problem in problems})
        others = [n for n in lengths if not training.min_length <= n <= training.max_length]
        if len(problems) > 1 and lengths == [1]:
            print_stderr(f"note: {len(problems)} problems of length 1; quote a longer one: '3 1 4'")
        if others:
            trained = f"trained on lengths {training.min_length} to {training.max_length}"
            print_stderr(f"note: {trained}; not on {', '.join(map(str, others))}")
        rows = []
        for problem, answer in zip(problems, answers, strict=True):
            entries = compare(task, problem, answer)
            rows.append(
                {
                    "problem": task.format_problem(problem),
                    "right": task.solve(problem),
                    "model": answer,
                    "entries": len(entries),
                    "right_entries": sum(entry.is_right for entry in entries),
                }
            )
        if self.json:
            print(json.dumps(rows, default=str))
        for index, row in enumerate([] if self.json else rows):
            print("\n" * (index > 0) + f"problem  {row['problem']}")
            print(f"right    {task.format_answer(row['right'])}")
            print(f"model    {task.format_answer(row['model'])}")
            print(f"         {row['right_entries']} of {row['entries']} entries right")
        return 0


def _input_lines() -> list[str]:
    """The lines of standard input, if it is not a terminal."""
    return [] if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read().splitlines()
