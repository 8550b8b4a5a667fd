"""Commands about one run: train, evaluate, predict, replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from constrained_dnc.approaches import APPROACHES, Approach
from constrained_dnc.cli.parsing import parse
from constrained_dnc.cli.progress import Ticker
from constrained_dnc.config import (
    PRESETS,
    Config,
    EvaluationConfig,
    TrainingConfig,
    make_config,
)
from constrained_dnc.errors import BadSetting
from constrained_dnc.model.build import ModelConfig
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.compilation import use_compilation_cache
from constrained_dnc.training.loop import train as train_run

DIVERGED = 3


@dataclass(frozen=True)
class _Train:
    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """A task: its name, package.module:Class or file.py:Class."""
    approach: Annotated[Approach, tyro.conf.AvoidSubcommands]
    seed: int = 0
    """Fixes the first parameters and every batch."""
    run_dir: Path | None = None
    """Where the run lives; by default runs/TASK-APPROACH-SEED."""
    backend: Literal["auto", "fused", "pure"] = "auto"
    """What computes: C++ where it can (auto), C++ (fused) or JAX (pure)."""
    threads: int | None = None
    """Threads of the fused backend; by default all cores."""
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)


def train(arguments: list[str]) -> int:
    """Train one model; the same command goes on where a run was stopped.

    --approach NAME   which approach, by default compr+reg (`cdnc approaches` lists them)
    --preset NAME     which defaults: smoke (seconds), quick (minutes), paper (default)

    Everything else below is a field of the config, with the value that the preset gives it.
    """
    preset, arguments = _take(arguments, "--preset", "paper")
    name, arguments = _take(arguments, "--approach", "compr+reg")
    base = make_config("sort", name, preset=preset)
    default = _Train(
        tyro.MISSING,
        base.approach,
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
    use_compilation_cache()
    with Ticker("iteration") as ticker:
        run = train_run(
            config, folder, backend=asked.backend, threads=asked.threads, observer=ticker
        )
    status = run.status
    print(
        f"{status.state} after iteration {status.iteration}: {status.reason}; "
        f"selected iteration {status.best_iteration['unseen']}, "
        f"skipped updates {status.skipped_updates}"
    )
    return DIVERGED if status.state == "diverged" else 0


def _take(arguments: list[str], option: str, default: str) -> tuple[str, list[str]]:
    """The value of an option and the other arguments; the last one counts."""
    value, rest, coming = default, [], False
    for argument in arguments:
        if coming:
            value, coming = argument, False
        elif argument == option:
            coming = True
        elif argument.startswith(f"{option}="):
            value = argument.partition("=")[2]
        else:
            rest.append(argument)
    if coming:
        accepted = PRESETS if option == "--preset" else APPROACHES
        raise BadSetting(option, "", f"a value, one of {', '.join(accepted)}")
    return value, rest
