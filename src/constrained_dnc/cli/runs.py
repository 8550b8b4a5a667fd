"""Commands about one trained model: evaluate, frontier, predict, replay."""

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
from constrained_dnc.config import parse_lengths, parse_memory_sizes
from constrained_dnc.errors import SettingError
from constrained_dnc.model.config import GROWING, read_memory_size
from constrained_dnc.published import THRESHOLD, max_length_of

if TYPE_CHECKING:
    from constrained_dnc.tasks.task import Answer, Problem
    from constrained_dnc.training.run import Run

Lengths = Annotated[str | None, option(metavar="LENGTHS")]
Memories = Annotated[str | None, option(metavar="MEMORIES")]


def open_model(name: str | Path, trust_code: bool) -> Run:
    """A run or a pretrained model; what it compiles is kept for the next time."""
    from constrained_dnc.training.compilation import use_compilation_cache  # noqa: PLC0415
    from constrained_dnc.training.run import load_run  # noqa: PLC0415 - slow to import

    use_compilation_cache()
    return load_run(name, trust_code=trust_code)


def _show(bar: ProgressBar) -> Callable[[float, float, Any], None]:
    """What `evaluate` calls with the work done, all of it and the row in hand."""
    return lambda done, total, row: bar.show(
        int(100 * done / total), 100, f"length {row.length}, memory {row.memory_size}"
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
    backend: Backend = "auto"
    threads: Threads = None
    json: Flag = False
    """Print the rows as one JSON list instead of tables."""
    trust_code: TrustCode = False

    def run(self) -> int:
        """Print before storing: what was computed is not lost on a full disk."""
        memories = None if self.memory is None else parse_memory_sizes(self.memory)
        lengths = None if self.lengths is None else parse_lengths(self.lengths)
        from constrained_dnc.evaluation.lengths import (  # noqa: PLC0415 - slow to import
            evaluate,
            make_plan,
            store_scores,
        )

        run = open_model(self.run_name, self.trust_code)
        with ProgressBar("percent") as bar:
            table = evaluate(
                run,
                lengths=lengths,
                memory_sizes=memories,
                batches=self.batches,
                selection=self.selection,
                backend=self.backend,
                threads=self.threads,
                progress=_show(bar),
                store=False,
            )
        rows = table.to_pylist()
        if self.json:
            print(json.dumps(rows))
        else:
            print_scores(rows)
            if len(rows) < len(make_plan(run, lengths, memories, self.batches)):
                print(f"{GROWING}: longer inputs were not measured, as less than half was right")
        store_scores(run, table, self.selection or run.default_rule)
        return 0


def print_scores(rows: Sequence[dict[str, Any]]) -> None:
    """The maximum lengths of every memory, then all scores, then where they come from."""
    from constrained_dnc.evaluation.memories import size_in  # noqa: PLC0415 - slow to import

    by_memory: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_memory.setdefault(str(size_in(row)), []).append(row)
    print(f"Maximum length: the longest input with at least {100 * THRESHOLD:.0f} % right")
    longest = [
        [memory, *(_max_length(part, name) for name in ("score", "sequence_accuracy"))]
        for memory, part in by_memory.items()
    ]
    print_table(["memory", f"by {rows[0]['score_kind']}", "by whole answers"], longest, left=0)
    print()
    cells = [
        [memory, row["length"], f"{100 * row['score']:.1f} %", _percent(row["sequence_accuracy"])]
        for memory, part in by_memory.items()
        for row in part
    ]
    print_table(["memory", "length", rows[0]["score_kind"], "whole answers"], cells, left=0)
    row = rows[0]
    print(
        f"\n{row['task']}, {row['approach']}, seed {row['seed']}: parameters of iteration "
        f"{row['iteration']}, selected by {row['selection']}; {row['status']} after "
        f"{row['iterations']} iterations, skipped updates {row['skipped_updates']}"
    )


def _max_length(rows: Sequence[dict[str, Any]], score: str) -> int:
    return max_length_of({row["length"]: row[score] for row in rows})


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


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
    trust_code: TrustCode = False

    def run(self) -> int:
        """Evaluate every pair of length and memory, and draw the map."""
        from constrained_dnc.evaluation import frontier  # noqa: PLC0415 - slow to import

        run = open_model(self.run_name, self.trust_code)
        lengths = parse_lengths(self.lengths) if self.lengths else frontier.default_lengths(run)
        memories = frontier.default_memory_sizes(run)
        if self.memory is not None:
            memories = parse_memory_sizes(self.memory)
        with ProgressBar("percent") as bar:
            table = frontier.map_frontier(
                run, lengths, memories, self.batches, _show(bar), selection=self.selection
            )
        print(f"frontier: {frontier.draw_frontier(run, table)}")
        return 0


@dataclass(frozen=True)
class Predict:
    """Answer problems with a trained model."""

    run_name: RunArgument
    texts: Annotated[tuple[str, ...], tyro.conf.Positional, option(metavar="[TEXT ...]")] = ()
    """Problems, such as 31410 or "3 1 4 1 0"; without any, the lines of standard input."""
    memory: Memory = None
    selection: Selection = None
    backend: Backend = "auto"
    json: Flag = False
    """Print problems and answers as one JSON list."""
    trust_code: TrustCode = False

    def run(self) -> int:
        """Print every problem, its solution and the model's answer."""
        memory = None if self.memory is None else read_memory_size(self.memory)
        texts = [text for text in self.texts or _input_lines() if text.strip()]
        if not texts:
            raise SettingError("no problem given: add text, such as '3 1 4 1 0', or pipe lines in")
        from constrained_dnc.evaluation.lengths import predict  # noqa: PLC0415 - slow to import

        run = open_model(self.run_name, self.trust_code)
        problems = [read_problem(run.task, text) for text in texts]
        answers = predict(
            run,
            [run.task.format_problem(problem) for problem in problems],
            memory_size=memory,
            selection=self.selection,
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
