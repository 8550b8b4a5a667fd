"""What a study runs, and what of it is done: all of it on disk."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from constrained_dnc.approaches import APPROACHES, PAPER_APPROACHES, get_approach
from constrained_dnc.config import PRESETS, Config, make_config
from constrained_dnc.errors import BadSetting, one_of, require_whole
from constrained_dnc.tasks.registry import BUILT_IN, get_task
from constrained_dnc.training.files import read_json, write_atomically, write_json
from constrained_dnc.training.run import surroundings

STUDY, RUNS, RESULTS, ANALYSIS, ATTEMPTS = "study.json", "runs", "results", "analysis", "attempts"
FAILURES = "failures.json"
MAX_ATTEMPTS = 3
EXTENSION = 10
"""How many times larger the extended memory is."""

BUDGETS: dict[str, tuple[tuple[str, ...], tuple[str, ...], int]] = {
    "smoke": (("copy",), ("stateful-baseline", "compr+reg"), 1),
    "quick": (("copy", "sort"), PAPER_APPROACHES, 3),
    "paper": (tuple(BUILT_IN), PAPER_APPROACHES, 10),
}
"""Tasks, approaches and trials of a study that asks for nothing else."""


@dataclass(frozen=True)
class Request:
    """What is asked of a study."""

    preset: str
    tasks: tuple[str, ...]
    approaches: tuple[str, ...]
    trials: int
    iterations: int

    def configs(self) -> list[Config]:
        """One config per run: trial by trial, so that early results cover everything."""
        configs = []
        for seed in range(self.trials):
            for task in self.tasks:
                for approach in self.approaches:
                    config = make_config(task, approach, seed=seed, preset=self.preset)
                    training = replace(config.training, iterations=self.iterations)
                    configs.append(replace(config, training=training))
        return configs


def make_request(
    preset: str,
    tasks: Sequence[str] = (),
    approaches: Sequence[str] = (),
    trials: int | None = None,
    iterations: int | None = None,
) -> Request:
    """Fill in what the preset's budget says and refuse what cannot be run."""
    if preset not in BUDGETS:
        raise BadSetting("preset", preset, one_of(BUDGETS))
    usual_tasks, usual_approaches, usual_trials = BUDGETS[preset]
    if tuple(approaches) == ("all",):
        approaches = tuple(APPROACHES)
    for task in tasks:
        get_task(task)
    for approach in approaches:
        get_approach(approach)
    trials = usual_trials if trials is None else trials
    require_whole("trials", trials, 1)
    usual_iterations = PRESETS[preset][1].iterations
    return Request(
        preset,
        tuple(dict.fromkeys(tasks)) or usual_tasks,
        tuple(dict.fromkeys(approaches)) or usual_approaches,
        trials,
        usual_iterations if iterations is None else iterations,
    )


@dataclass(frozen=True)
class Plan:
    """The runs of a study directory."""

    folder: Path
    configs: tuple[Config, ...]

    def is_done(self, config: Config) -> bool:
        """Trained, evaluated and analysed."""
        name = config.run_id
        return (self.folder / RESULTS / f"{name}.parquet").exists() and (
            self.folder / ANALYSIS / f"{name}.npz"
        ).exists()

    def attempts(self, config: Config) -> list[str]:
        """Why earlier attempts at a run failed."""
        path = self.folder / ATTEMPTS / f"{config.run_id}.json"
        reasons: list[str] = read_json(path)["reasons"] if path.exists() else []
        return reasons

    def add_attempt(self, config: Config, reason: str) -> list[str]:
        """Remember that an attempt failed; all of them so far."""
        reasons = [*self.attempts(config), reason]
        path = self.folder / ATTEMPTS / f"{config.run_id}.json"
        path.parent.mkdir(exist_ok=True)
        write_json(path, {"reasons": reasons})
        return reasons

    def to_do(self) -> list[Config]:
        """The runs that are neither done nor given up."""
        return [
            config
            for config in self.configs
            if not self.is_done(config) and len(self.attempts(config)) < MAX_ATTEMPTS
        ]

    def write_failures(self) -> list[dict[str, Any]]:
        """Write down the runs that were given up, for the report."""
        failures = [
            {
                "run_id": config.run_id,
                "task": config.task,
                "approach": config.approach.name,
                "seed": config.seed,
                "reason": reasons[-1],
                "attempts": len(reasons),
            }
            for config in self.configs
            if not self.is_done(config) and (reasons := self.attempts(config))
        ]
        write_atomically(self.folder / FAILURES, json.dumps(failures, indent=1).encode())
        return failures


def open_study(folder: Path, request: Request, command: Sequence[str] = ()) -> Plan:
    """Create a study directory, or go on with one; a larger study may take over a smaller one."""
    path = folder / STUDY
    if path.exists():
        stored = read_json(path)
        for name in ("preset", "iterations"):
            if stored.get(name) != getattr(request, name):
                raise BadSetting(
                    name,
                    getattr(request, name),
                    f"{stored.get(name)!r}, as the study in {folder} has it; "
                    "another study needs another --study",
                )
    elif folder.exists() and any(folder.iterdir()):
        raise BadSetting("study", str(folder), f"a new or empty folder, or one with a {STUDY}")
    folder.mkdir(parents=True, exist_ok=True)
    configs = tuple(request.configs())
    memory_size = configs[0].model.memory_size
    created = read_json(path)["created"] if path.exists() else time.strftime("%Y-%m-%d %H:%M")
    write_json(
        path,
        {
            "preset": request.preset,
            "tasks": [get_task(task).name for task in request.tasks],
            "approaches": list(request.approaches),
            "trials": request.trials,
            "iterations": request.iterations,
            "memory_size": memory_size,
            "extended_memory_size": EXTENSION * memory_size,
            **surroundings(),
            "command": shlex.join(["cdnc", *command]),
            "created": created,
        },
    )
    return Plan(folder, configs)
