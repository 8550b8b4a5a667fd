"""Commands for one trained model: evaluate, frontier, predict, replay."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from constrained_dnc.cli.parsing import (
    Backend,
    Flag,
    InferenceOption,
    Memory,
    RunArgument,
    Selection,
    Threads,
    TrustCode,
    option,
    read_problem,
)
from constrained_dnc.cli.progress import ProgressBar
from constrained_dnc.cli.terminal import print_stderr, print_table
from constrained_dnc.config import parse_memories
from constrained_dnc.errors import SettingError
from constrained_dnc.lengths import parse_lengths
from constrained_dnc.model.config import read_memory_size
from constrained_dnc.published import THRESHOLD, max_length_of

if TYPE_CHECKING:
    import pandas as pd

    from constrained_dnc.tasks.task import Answer, Problem
    from constrained_dnc.training.run import Run

Lengths = Annotated[str | None, option(metavar="LENGTHS")]
Memories = Annotated[str | None, option(metavar="MEMORIES")]


def open_model(name: str | Path, trust_code: bool) -> Run:
    """Open a run or a pretrained model, and keep compiled programs for the next time."""
    from constrained_dnc.training.compilation import use_compilation_cache  # noqa: PLC0415
    from constrained_dnc.training.run import load_run  # noqa: PLC0415 - slow to import

    use_compilation_cache()
    return load_run(name, trust_code=trust_code)


def _show(bar: ProgressBar) -> Callable[[float, float, Any], None]:
    """A function that `evaluate` calls with the work done, the total and the current row."""
    return lambda done, total, row: bar.show(
        int(100 * done / total), 100, f"length {row.length}, memory {row.memory}"
    )


@dataclass(frozen=True)
class Evaluate:
    """Score a model at every length, print the scores and store them in the run directory."""

    run_name: RunArgument
    lengths: Lengths = None
    """Input lengths, such as 2..100 or 2,5..50:5; by default those of the run's config."""
    memory: Memories = None
    """Slots, such as 80 or 50..200:50,growing; by default as in training."""
    batches: Annotated[int | None, option()] = None
    """Batches of every length; by default as in the run's config."""
    selection: Selection = None
    inference: InferenceOption = "network"
    backend: Backend = "auto"
    threads: Threads = None
    json: Flag = False
    """Print the rows as one JSON list instead of tables."""
    trust_code: TrustCode = False

    def run(self) -> int:
        """Evaluate with progress, then print maximum lengths and scores."""
        memories = None if self.memory is None else parse_memories(self.memory)
        lengths = None if self.lengths is None else parse_lengths(self.lengths)
        from constrained_dnc.evaluation.scoring import (  # noqa: PLC0415 - slow to import
            EVALUATION_FILE,
            evaluate,
            store_rows,
        )

        run = open_model(self.run_name, self.trust_code)
        with ProgressBar("percent") as bar:
            table = evaluate(
                run,
                lengths=lengths,
                memories=memories,
                batches=self.batches,
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
        if not run.is_pretrained:  # a disk that is full costs nothing that is printed
            store_rows(run.folder / EVALUATION_FILE, table)
        return 0


def print_scores(table: pd.DataFrame) -> None:
    """The maximum lengths of every memory, then all scores, then where they come from."""
    rows = table[table["batches"] > 0].to_dict("records")
    by_memory: dict[str, list[dict[Any, Any]]] = {}
    for row in rows:
        by_memory.setdefault(row["memory"], []).append(row)
    print(f"Maximum length: the longest input with at least {100 * THRESHOLD:.0f} % right")
    longest = [
        [memory, *(_max_length(part, name) for name in ("score", "sequence_accuracy"))]
        for memory, part in by_memory.items()
    ]
    print_table(["memory", f"by {rows[0]['score_kind']}", "by whole answers"], longest, left=0)
    print()
    shares = ("score", "sequence_accuracy", "floor")
    cells = [
        [memory, row["length"], *(f"{100 * row[share]:.1f} %" for share in shares)]
        for memory, part in by_memory.items()
        for row in part
    ]
    headings = ["memory", "length", rows[0]["score_kind"], "whole answers", "floor"]
    print_table(headings, cells, left=0)
    for memory in table[table["batches"] == 0]["memory"].unique():
        print(f"memory {memory}: longer inputs were not measured, the score is near the floor")
    row = rows[0]
    print(
        f"\n{row['task']}, {row['approach']}, seed {row['seed']}: parameters of iteration "
        f"{row['iteration']}, selected by {row['selection']}; {row['status']} after "
        f"{row['iterations']} iterations, skipped updates {row['skipped_updates']}; "
        f"{row['inference']} inference"
    )


def _max_length(rows: Sequence[dict[Any, Any]], score: str) -> int:
    return max_length_of({row["length"]: row[score] for row in rows})


@dataclass(frozen=True)
class Frontier:
    """Map a model's score over input length and memory size: a heat map and a Parquet file."""

    run_name: RunArgument
    lengths: Lengths = None
    """Input lengths, such as 2..100 or 2,5..50:5; by default up to twenty of the run's config."""
    memory: Memories = None
    """Slots, such as 80 or 50..200:50,growing; by default half to ten times training's, growing."""
    batches: int = 1
    """Batches of every length and memory."""
    selection: Selection = None
    inference: InferenceOption = "network"
    trust_code: TrustCode = False

    def run(self) -> int:
        """Evaluate every pair of length and memory, and draw the map."""
        from constrained_dnc.evaluation import frontier  # noqa: PLC0415 - slow to import

        run = open_model(self.run_name, self.trust_code)
        lengths = parse_lengths(self.lengths) if self.lengths else frontier.default_lengths(run)
        memories = frontier.default_memories(run)
        if self.memory is not None:
            memories = parse_memories(self.memory)
        folder = Path() if run.is_pretrained else run.folder
        with ProgressBar("percent") as bar:
            table = frontier.map_frontier(
                run,
                lengths,
                memories,
                self.batches,
                folder,
                _show(bar),
                self.selection,
                self.inference,
            )
        print(f"frontier: {frontier.draw_frontier(run, table, folder)}")
        return 0


@dataclass(frozen=True)
class Predict:
    """Answer problems with a trained model."""

    run_name: RunArgument
    texts: Annotated[tuple[str, ...], tyro.conf.Positional, option(metavar="[TEXT ...]")] = ()
    """Problems, such as 31410 or "3 1 4 1 0"; without any, the lines of standard input."""
    memory: Memory = None
    selection: Selection = None
    inference: InferenceOption = "network"
    backend: Backend = "auto"
    json: Flag = False
    """Print problems and answers as one JSON list."""
    trust_code: TrustCode = False

    def run(self) -> int:
        """Print every problem, its solution and the model's answer."""
        memory = None if self.memory is None else read_memory_size(self.memory)
        texts = [text for text in self.texts or _input_lines() if text.strip()]
        if not texts:
            raise SettingError("no problem: add one as text, such as '3 1 4 1 0', or pipe lines in")
        from constrained_dnc.evaluation.prediction import predict  # noqa: PLC0415 - slow to import

        run = open_model(self.run_name, self.trust_code)
        problems = [read_problem(run.task, text) for text in texts]
        answers = predict(
            run,
            [run.task.format_problem(problem) for problem in problems],
            memory=memory,
            selection=self.selection,
            inference=self.inference,
            backend=self.backend,
        )
        _note_lengths(run, problems)
        (_print_json if self.json else _print_answers)(run, problems, answers)
        return 0


def _input_lines() -> list[str]:
    """The lines of standard input, if it is not a terminal."""
    if sys.stdin is None or sys.stdin.isatty():
        return []
    try:
        return sys.stdin.read().splitlines()
    except UnicodeDecodeError as error:
        raise SettingError("standard input is not text in UTF-8") from error


def _note_lengths(run: Run, problems: Sequence[Problem]) -> None:
    """Say which problems the model was not trained for."""
    training = run.config.training
    lengths = sorted({run.task.length_of(problem) for problem in problems})
    others = [n for n in lengths if not training.min_length <= n <= training.max_length]
    if others:
        trained = f"{training.min_length} to {training.max_length}"
        print_stderr(f"note: trained on lengths {trained}; not on {', '.join(map(str, others))}")


def _print_json(run: Run, problems: Sequence[Problem], answers: Sequence[Answer]) -> None:
    task = run.task
    rows = [
        {"problem": task.format_problem(problem), "right": task.solve(problem), "model": answer}
        for problem, answer in zip(problems, answers, strict=True)
    ]
    print(json.dumps(rows, default=str))


def _print_answers(run: Run, problems: Sequence[Problem], answers: Sequence[Answer]) -> None:
    task = run.task
    for place, (problem, answer) in enumerate(zip(problems, answers, strict=True)):
        print("\n" * (place > 0) + f"problem  {task.format_problem(problem)}")
        print(f"right    {task.format_answer(task.solve(problem))}")
        print(f"model    {task.format_answer(answer)}")


@dataclass(frozen=True)
class Replay:
    """Recompute updates that were skipped and name the first quantity that is not finite."""

    run_name: Annotated[Path, tyro.conf.Positional, option("A run directory.", "RUN")]
    iteration: Annotated[int | None, option()] = None
    """Which of the kept iterations; by default all of them."""
    trust_code: TrustCode = False

    def run(self) -> int:
        """Print a line for every update."""
        from constrained_dnc.training.disk import kept_iterations  # noqa: PLC0415
        from constrained_dnc.training.replay import replay  # noqa: PLC0415 - slow to import

        run = open_model(self.run_name, self.trust_code)
        iterations = kept_iterations(run.folder) if self.iteration is None else [self.iteration]
        for iteration in iterations:
            print(replay(run, iteration), flush=True)
        if not iterations:
            print("no update was skipped")
        return 0
