"""Commands about one run: train, evaluate, frontier, predict, replay."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from constrained_dnc.approaches import APPROACHES, Approach
from constrained_dnc.choices import PAPER_RULE, BackendChoice, SelectionRule
from constrained_dnc.cli.parsing import MEMORY_SIZE, parse, value_of
from constrained_dnc.cli.progress import Ticker
from constrained_dnc.config import (
    PRESETS,
    Config,
    EvaluationConfig,
    TrainingConfig,
    make_config,
    parse_lengths,
    parse_memories,
)
from constrained_dnc.errors import RunError, SettingError, one_of
from constrained_dnc.model.config import GROWING, ModelConfig, read_memory_size
from constrained_dnc.plugins import is_import_path
from constrained_dnc.tasks.registry import get_task

if TYPE_CHECKING:
    import pandas as pd

    from constrained_dnc.training.run import Run

DIVERGED = 3
_PRESETS = "Which defaults, and how long they take on one core: "
_PRESETS += ", ".join(f"{preset.name} ({preset.run_takes})" for preset in PRESETS.values())


@dataclass(frozen=True)
class _Train:
    task: Annotated[
        str,
        tyro.conf.Positional,
        tyro.conf.arg(metavar="TASK", help_behavior_hint="(required)"),
    ]
    """A task: its name, package.module:Class or file.py:Class."""
    approach: Annotated[Approach, tyro.conf.AvoidSubcommands, tyro.conf.FlagConversionOff]
    """A combination of your own; give it a name of its own."""
    preset: Annotated[str, tyro.conf.arg(metavar="NAME", help=_PRESETS)] = "paper"
    approach_name: Annotated[str, tyro.conf.arg(name="approach", metavar="NAME")] = "compr+reg"
    """Which approach; `cdnc approaches` lists them. One of your own: file.py:NAME."""
    seed: int = 0
    """Fixes the first parameters and every batch."""
    run_dir: Path | None = None
    """The run directory; by default runs/TASK-APPROACH-SEED."""
    backend: BackendChoice = "auto"
    """What computes: C++ where possible (auto), C++ (fused) or JAX (pure)."""
    threads: int | None = None
    """Threads of the fused backend; by default all cores."""
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)


def train(arguments: list[str]) -> int:
    """Train one model; the same command resumes a run that was stopped.

    Groups of options are parts of the config, with the values that preset and approach give them.
    """
    if value_of(arguments, "--model.memory-size", "") == GROWING:
        accepted = "a number of slots: a memory can grow only once its model is trained"
        raise SettingError("model.memory_size", GROWING, accepted)
    preset = value_of(arguments, "--preset", _Train.preset)
    name = value_of(arguments, "--approach", _Train.approach_name)
    base = make_config("sort", _approach_named(name), preset=preset)
    default = _Train(
        task="",  # refused by the config
        approach=base.approach,
        preset=preset,
        approach_name=name,
        model=base.model,
        training=base.training,
        evaluation=base.evaluation,
    )
    asked = parse(_Train, arguments, "cdnc train", train.__doc__, default)
    config = Config(
        asked.task, asked.approach, asked.seed, asked.model, asked.training, asked.evaluation
    )
    task_name = get_task(config.task).name
    folder = asked.run_dir or Path("runs", f"{task_name}-{config.approach.name}-{config.seed}")
    with Ticker("iteration") as ticker:
        from constrained_dnc.training.compilation import use_compilation_cache  # noqa: PLC0415
        from constrained_dnc.training.loop import train as train_run  # noqa: PLC0415 - slow
        from constrained_dnc.training.run import open_run  # noqa: PLC0415

        use_compilation_cache()
        try:
            run = train_run(
                config, folder, backend=asked.backend, threads=asked.threads, observer=ticker
            )
        except (KeyboardInterrupt, SystemExit):
            if not _has_ended(config, folder):
                raise
            run = open_run(folder)  # the signal came too late to stop anything
    status = run.status
    print(
        f"{status.state} after iteration {status.iteration}: {status.reason}; "
        f"selected iteration {status.best_iteration[PAPER_RULE]}, "
        f"skipped updates {status.skipped_updates}"
    )
    return DIVERGED if status.state == "diverged" else 0


def _approach_named(word: str) -> Approach:
    if word in APPROACHES:
        return APPROACHES[word]
    if not word.endswith(".py") and not is_import_path(word):
        accepted = f"{one_of(APPROACHES, word)}, or file.py:NAME for one of your own"
        raise SettingError("approach", word, accepted)
    from constrained_dnc.sweep.approach_names import find_approaches  # noqa: PLC0415 - slow to import

    found = find_approaches([word])
    if len(found) > 1:
        names = ", ".join(approach.name for approach in found)
        raise SettingError("approach", word, f"one of those that it stands for: {names}")
    return found[0]


def _has_ended(config: Config, folder: Path) -> bool:
    """Whether a run is as long as asked for, or has diverged."""
    from constrained_dnc.training.run import ENDED, open_run  # noqa: PLC0415

    try:
        status = open_run(folder).status
    except (SettingError, RunError):
        return False
    return status.state in ENDED and status.iterations >= config.training.iterations


@dataclass(frozen=True)
class _Evaluate:
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run directory, also one in training, or a pretrained model such as zoo:sort/compr+reg."""
    lengths: str | None = None
    """Input lengths, such as 2..100 or 2,5..50:5; by default those of the run's config."""
    memory_size: str | None = None
    """Memory sizes, such as 80 or 50..200:50,growing; by default that of training. All others use
    the lengths for extended memory."""
    batches: int | None = None
    """Batches of every length; by default those of the run's config."""
    selection: SelectionRule | None = None
    """Parameters selected by the loss on unseen (default) or seen lengths, or by the score (default
    for a pretrained model)."""
    backend: BackendChoice = "auto"
    """What computes: C++ where possible (auto), C++ (fused) or JAX (pure)."""
    threads: int | None = None
    """Threads of the fused backend; by default all cores."""
    json: bool = False
    """Print the rows as one JSON list instead of a table."""
    trust_code: bool = False
    """Run the code that the run's config names: a task or controller of your own."""


def evaluate(arguments: list[str]) -> int:
    """Score the selected parameters of a run for every length, into a Parquet file."""
    asked = parse(_Evaluate, arguments, "cdnc evaluate", evaluate.__doc__)
    sizes = None if asked.memory_size is None else parse_memories(asked.memory_size)
    lengths = None if asked.lengths is None else parse_lengths(asked.lengths)
    from constrained_dnc.evaluation.scoring import evaluate as evaluate_run  # noqa: PLC0415 - slow to import
    from constrained_dnc.training.compilation import use_compilation_cache  # noqa: PLC0415
    from constrained_dnc.training.run import load_run  # noqa: PLC0415

    use_compilation_cache()
    run = load_run(asked.run, trust_code=asked.trust_code)
    with Ticker("percent") as ticker:
        table = evaluate_run(
            run,
            lengths=lengths,
            memories=sizes,
            batches=asked.batches,
            selection=asked.selection,
            backend=asked.backend,
            threads=asked.threads,
            progress=lambda done, total, row: ticker.show(
                int(100 * done / total), 100, f"length {row.length}, memory size {row.memory}"
            ),
        )
    if asked.json:
        print(table.to_json(orient="records"))
    else:
        _print_scores(run, table)
    return 0


def _print_scores(run: Run, table: pd.DataFrame) -> None:
    print(f"{'memory size':>11}  {'length':>6}  {run.task.score_kind:>8}  whole sequence")
    for row in table[table["batches"] > 0].to_dict("records"):
        print(
            f"{row['memory']:>11}  {row['length']:6}  {100 * row['score']:6.1f} %  "
            f"{100 * row['sequence_accuracy']:12.1f} %"
        )
    for memory in table[table["batches"] == 0]["memory"].unique():
        print(f"{memory:>11}  longer inputs not measured: the score is next to the floor")
    row = table.to_dict("records")[0]
    print(
        f"{row['task']}, {row['approach']}, seed {row['seed']}: parameters of iteration "
        f"{row['iteration']} (selection by rule {row['selection']}; {row['status']} after "
        f"{row['iterations']}, skipped updates {row['skipped_updates']})"
    )


@dataclass(frozen=True)
class _Frontier:
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run directory, or a pretrained model such as zoo:sort/compr+reg."""
    lengths: str | None = None
    """Input lengths, such as 2..100 or 2,5..50:5; by default spread over those of the config."""
    memory_size: str | None = None
    """Memory sizes, such as 80 or 50..200:50,growing; by default from half to ten times that of
    training, and growing."""
    batches: int = 1
    """Batches of every length and memory size."""
    trust_code: bool = False
    """Run the code that the run's config names: a task or controller of your own."""


def frontier(arguments: list[str]) -> int:
    """Map a run's score over input length and memory size: a heat map and a Parquet file."""
    asked = parse(_Frontier, arguments, "cdnc frontier", frontier.__doc__)
    from constrained_dnc.evaluation import frontier as mapping  # noqa: PLC0415 - slow to import
    from constrained_dnc.training.run import load_run  # noqa: PLC0415

    run = load_run(asked.run, trust_code=asked.trust_code)
    lengths = (
        mapping.default_lengths(run) if asked.lengths is None else parse_lengths(asked.lengths)
    )
    memory_sizes = (
        mapping.default_memories(run)
        if asked.memory_size is None
        else parse_memories(asked.memory_size)
    )
    folder = Path() if run.is_pretrained else run.folder
    with Ticker("evaluated") as ticker:
        table = mapping.map_frontier(
            run,
            lengths,
            memory_sizes,
            asked.batches,
            folder,
            lambda done, total, planned: ticker.show(
                100 * done / total, 100.0, f"{planned.memory} slots, length {planned.length}"
            ),
        )
    print(f"frontier: {mapping.draw_frontier(run, table, folder)}")
    return 0


@dataclass(frozen=True)
class _Predict:
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run directory, also one in training, or a pretrained model such as zoo:sort/compr+reg."""
    texts: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="[TEXT ...]", help_behavior_hint=""),
    ] = ()
    """Problems, such as "3 1 4 1 0"; without any, the lines of standard input."""
    memory_size: Annotated[str | None, MEMORY_SIZE] = None
    """Slots of the memory, by default those of training; or growing, with the input."""
    selection: SelectionRule | None = None
    """Parameters selected by the loss on unseen (default) or seen lengths, or by the score (default
    for a pretrained model)."""
    backend: BackendChoice = "auto"
    """What computes: C++ where possible (auto), C++ (fused) or JAX (pure)."""
    json: bool = False
    """Print problems and answers as one JSON list."""
    trust_code: bool = False
    """Run the code that the run's config names: a task or controller of your own."""


def predict(arguments: list[str]) -> int:
    """Answer problems with a trained model."""
    asked = parse(_Predict, arguments, "cdnc predict", predict.__doc__)
    memory_size = None if asked.memory_size is None else read_memory_size(asked.memory_size)
    texts = [text for text in asked.texts or _lines() if text.strip()]
    if not texts:
        raise SettingError("problem", "", "text, or lines on standard input, such as '3 1 4 1 0'")
    from constrained_dnc.evaluation.prediction import predict as predict_all  # noqa: PLC0415 - slow
    from constrained_dnc.training.compilation import use_compilation_cache  # noqa: PLC0415
    from constrained_dnc.training.run import load_run  # noqa: PLC0415

    use_compilation_cache()
    run = load_run(asked.run, trust_code=asked.trust_code)
    task = run.task
    problems = [task.parse(text) for text in texts]
    answers = predict_all(
        run,
        texts,
        memory=memory_size,
        selection=asked.selection,
        backend=asked.backend,
    )
    pairs = list(zip(problems, answers, strict=True))
    if asked.json:
        rows = [
            {"problem": task.format_problem(problem), "right": task.solve(problem), "model": answer}
            for problem, answer in pairs
        ]
        print(json.dumps(rows, default=str))
        return 0
    for place, (problem, answer) in enumerate(pairs):
        if place:
            print()
        print(f"problem  {task.format_problem(problem)}")
        print(f"right    {task.format_answer(task.solve(problem))}")
        print(f"model    {task.format_answer(answer)}")
    return 0


def _lines() -> list[str]:
    """The text of standard input; a terminal is not waited for."""
    if sys.stdin is None or sys.stdin.isatty():
        return []
    try:
        return sys.stdin.read().splitlines()
    except UnicodeDecodeError as error:
        raise SettingError("standard input", error.object[:20], "text in UTF-8") from error


@dataclass(frozen=True)
class _Replay:
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run directory."""
    iteration: int | None = None
    """Which of the kept iterations; by default all of them."""
    trust_code: bool = False
    """Run the code that the run's config names: a task or controller of your own."""


def replay(arguments: list[str]) -> int:
    """Recompute updates that were skipped and name the first quantity that is not finite."""
    asked = parse(_Replay, arguments, "cdnc replay", replay.__doc__)
    from constrained_dnc.training.compilation import use_compilation_cache  # noqa: PLC0415 - slow to import
    from constrained_dnc.training.disk import kept_iterations  # noqa: PLC0415
    from constrained_dnc.training.replay import replay as replay_update  # noqa: PLC0415
    from constrained_dnc.training.run import load_run  # noqa: PLC0415

    use_compilation_cache()
    run = load_run(asked.run, trust_code=asked.trust_code)
    iterations = kept_iterations(run.folder) if asked.iteration is None else [asked.iteration]
    for iteration in iterations:
        print(replay_update(run, iteration), flush=True)
    if not iterations:
        print("no update was skipped")
    return 0
