"""Which runs a study has, and which of them are done."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from constrained_dnc.approaches import APPROACHES, Approach
from constrained_dnc.choices import (
    INFERENCES,
    PAPER_RULE,
    RULES,
    Inference,
    SelectionRule,
    extended,
)
from constrained_dnc.config import (
    Config,
    Parts,
    as_dict,
    get_preset,
    with_absolute_paths,
    with_min_iterations,
)
from constrained_dnc.errors import RunError, SettingError, one_of, require_integer
from constrained_dnc.evaluation.scoring import Planned, make_plan
from constrained_dnc.files import locked, make_folder, read_json, remove_unfinished, write_json
from constrained_dnc.model.config import GROWING, MemorySize
from constrained_dnc.plugins import fingerprints, is_remembered
from constrained_dnc.study import layout
from constrained_dnc.study.layout import STUDY
from constrained_dnc.sweep.approach_names import find_approaches
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.disk import SELECTED
from constrained_dnc.training.observer import logger
from constrained_dnc.training.run import environment

MOST_TRIALS = 1000
MAY_CHANGE = {
    "training": {"iterations", "log_every", "entropy_every", "checkpoint_every"},
    "evaluation": {
        "lengths",
        "batches",
        "extension_lengths",
        "extension_batches",
        "batch_size",
    },
}
"""Settings that a resumed study may change: no parameters depend on them."""


def memories_of(config: Config, rule: SelectionRule = PAPER_RULE) -> list[MemorySize]:
    """The memories that a run is evaluated with; for `seen`, only that of training."""
    slots = config.model.memory_size
    if rule == "seen":
        return [slots]
    return [slots, extended(slots), *([GROWING] if config.approach.can_grow else [])]


@dataclass(frozen=True)
class Request:
    """What `cdnc study` is to run."""

    preset: str
    tasks: tuple[str, ...]
    approaches: tuple[Approach, ...]
    trials: int
    iterations: int
    parts: Parts
    rules: tuple[SelectionRule, ...] = RULES
    """The selection rules whose parameters are evaluated."""
    analyses: bool = True
    """Whether states and memory modes are analysed."""
    inferences: tuple[Inference, ...] = ("network",)
    """How models run when they are evaluated."""

    def configs(self) -> list[Config]:
        """The configs of all runs, trial by trial, so that early results cover everything."""
        model, training, evaluation = self.parts
        parts = model, replace(training, iterations=self.iterations), evaluation
        return [
            with_absolute_paths(Config(task, approach, seed, *parts))
            for seed in range(self.trials)
            for task in self.tasks
            for approach in self.approaches
        ]


def make_request(
    preset: str,
    tasks: Sequence[str] = (),
    approaches: Sequence[str | Approach] = (),
    trials: int | None = None,
    iterations: int | None = None,
    parts: Parts | None = None,
    rules: Sequence[str] = (),
    analyses: bool = True,
    inferences: Sequence[Inference] = ("network",),
) -> Request:
    """Complete a request from the budget of its preset, and check it."""
    budget = get_preset(preset)
    tasks = tuple(dict.fromkeys(tasks)) or budget.tasks
    names = [get_task(task).name for task in tasks]
    if len(set(names)) < len(names):
        raise SettingError(f"two of the tasks have one name: {' '.join(names)}")
    trials = budget.trials if trials is None else trials
    require_integer("trials", trials, 1, MOST_TRIALS)
    for rule in rules:
        if rule not in RULES:
            raise SettingError("rules", rule, one_of(RULES, rule))
    parts = parts or budget.parts
    return Request(
        preset,
        tasks,
        find_approaches(approaches or budget.approaches),
        trials,
        parts[1].iterations if iterations is None else iterations,
        parts,
        tuple(rule for rule in RULES if rule in (rules or RULES)),
        analyses,
        tuple(each for each in INFERENCES if each in inferences),
    )


@dataclass(frozen=True)
class Plan:
    """The runs of a study directory, and how each is evaluated and analysed."""

    folder: Path
    configs: tuple[Config, ...] = ()
    rules: tuple[SelectionRule, ...] = RULES
    analyses: bool = True
    inferences: tuple[Inference, ...] = ("network",)

    def is_done(self, config: Config) -> bool:
        """Trained at least as long as requested, evaluated at all lengths, and analysed."""
        run_id = config.run_id
        if self.analyses and not layout.analysis_file(self.folder, run_id).exists():
            return False
        files = (self.folder / layout.RESULTS).glob(f"{run_id}-*.parquet")
        iterations = [file.stem.rpartition("-")[2] for file in files]
        longest = max((int(number) for number in iterations if number.isdecimal()), default=0)
        if longest < config.training.iterations:
            return False
        stored = _stored_batches(
            layout.results_file(self.folder, run_id, longest), config.evaluation.batch_size
        )
        return all(
            stored.get((rule, inference, str(row.memory), row.length)) in (0, row.batches)
            for rule, row in self.rows_of(config)  # 0: given up
            for inference in self.inferences
        )

    def rules_of(self, config: Config) -> list[SelectionRule]:
        """The rules to evaluate; one selects no parameters if no update was ever finite."""
        run = layout.run_folder(self.folder, config.run_id)
        return [rule for rule in self.rules if not run.exists() or (run / SELECTED[rule]).exists()]

    def rows_of(self, config: Config) -> list[tuple[SelectionRule, Planned]]:
        """The rows that the results of a run need, each with its rule."""
        evaluation, slots = config.evaluation, config.model.memory_size
        return [
            (rule, row)
            for rule in self.rules_of(config)
            for row in make_plan(evaluation, slots, memories=memories_of(config, rule))
        ]

    def lock(self, config: Config) -> Path:
        """The lock that the worker of a run holds."""
        return layout.lock_file(self.folder, config.run_id)

    def to_do(self) -> list[Config]:
        """The runs that are not done; those that failed before are tried again."""
        return [config for config in self.configs if not self.is_done(config)]


def _stored_batches(path: Path, batch_size: int) -> dict[tuple[str, str, str, int], int]:
    """How many batches of this size a file has, by rule, inference, memory and length."""
    key = ["selection", "inference", "memory", "length"]
    try:
        rows = pd.read_parquet(path, columns=[*key, "batches", "batch_size"])
    except Exception:  # a corrupt file: of many kinds
        return {}
    batches: dict[Any, int] = (
        rows[rows["batch_size"] == batch_size].set_index(key)["batches"].to_dict()
    )
    return batches


def open_study(folder: Path, request: Request, command: Sequence[str] = ()) -> Plan:
    """Create a study directory, or resume one with the same, more or longer runs."""
    configs = tuple(request.configs())
    plan = Plan(folder, configs, request.rules, request.analyses, request.inferences)
    part = {
        "tasks": [get_task(task).name for task in request.tasks],
        "approaches": [approach.name for approach in request.approaches],
        "trials": request.trials,
        "iterations": request.iterations,
    }
    add_to_study(plan, [part], request.preset, command)
    return plan


def add_to_study(
    plan: Plan, requests: Sequence[Mapping[str, Any]], preset: str, command: Sequence[str]
) -> None:
    """Add the runs of a plan and the requests they belong to, to a new or existing study."""
    folder = plan.folder
    others = list(folder.glob("[!.]*")) if folder.is_dir() else []
    if set(others) - {layout.study_lock(folder)} and not layout.is_study(folder):
        raise SettingError(f"{folder} is not empty and has no {STUDY}: it is not a study")
    make_folder(folder, "study")
    with locked(layout.study_lock(folder), wait=True):  # two sweeps may add to a study at once
        remove_unfinished(folder, [STUDY])
        _write_study(plan, requests, preset, command)
        _quarantine(folder)


def _write_study(
    plan: Plan, requests: Sequence[Mapping[str, Any]], preset: str, command: Sequence[str]
) -> None:
    folder, configs = plan.folder, plan.configs
    stored = read_json(folder / STUDY) if layout.is_study(folder) else {}
    plain = as_dict(configs[0])
    settings = {part: plain[part] for part in ("model", "training", "evaluation")}
    user_code = _user_code(configs)
    _refuse_changes(folder, stored, settings, user_code)
    names = {task: get_task(task).name for task in dict.fromkeys(c.task for c in configs)}
    runs = {
        config.run_id: {
            "task": names[config.task],
            "approach": config.approach.name,
            "seed": config.seed,
        }
        for config in configs
    }
    write_json(
        folder / STUDY,
        {
            "preset": stored.get("preset", preset),
            "requests": [
                *(old for old in stored.get("requests", []) if old not in requests),
                *requests,
            ],
            "rules": [r for r in RULES if r in (*stored.get("rules", ()), *plan.rules)],
            "inferences": [
                i for i in INFERENCES if i in (*stored.get("inferences", ()), *plan.inferences)
            ],
            "analyses": stored.get("analyses", False) or plan.analyses,
            "memories": [str(memory) for memory in memories_of(configs[0])],
            "settings": settings,
            "runs": {**stored.get("runs", {}), **runs},
            **{name: {**stored.get(name, {}), **now} for name, now in user_code.items()},
            **environment(),
            "command": shlex.join(["cdnc", *command]),
            "created": stored.get("created", time.strftime("%Y-%m-%d %H:%M")),
        },
    )


def reopen_study(folder: Path, *, trust_code: bool = False) -> Plan:
    """The plan of everything that was ever requested of a study, with its stored settings.

    User-defined parts are imported only with `trust_code`, or if this user has trained with them.
    """
    stored = read_json(folder / STUDY)
    try:
        configs = _stored_configs(stored)
        rules, analyses = tuple(stored["rules"]), bool(stored["analyses"])
        inferences = tuple(stored["inferences"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise RunError(f"{folder / STUDY} is corrupt: {type(error).__name__}: {error}") from error
    user_code = sorted({name for config in configs for name in config.user_code})
    if not trust_code and not is_remembered(user_code):
        raise RunError(
            f"{folder / STUDY} names user-defined code, {' and '.join(user_code)}; if you trust "
            "it, add --trust-code"
        )
    with locked(layout.study_lock(folder), wait=True):
        _quarantine(folder)
    return Plan(folder, configs, rules, analyses, inferences)


def _stored_configs(stored: Mapping[str, Any]) -> tuple[Config, ...]:
    """All runs of a study.json, each as long as its longest request."""
    configs: dict[str, Config] = {}
    for part in stored["requests"]:
        settings = {name: dict(values) for name, values in stored["settings"].items()}
        settings["training"]["iterations"] = part["iterations"]
        for seed in layout.seeds_of(part):
            for task in part["tasks"]:
                for name in part["approaches"]:
                    config = _stored_config(stored, settings, task, name, seed)
                    longest = configs.get(config.run_id, config).training.iterations
                    configs[config.run_id] = with_min_iterations(config, longest)
    return tuple(sorted(configs.values(), key=lambda config: config.seed))


def _stored_config(
    stored: Mapping[str, Any], settings: Mapping[str, Any], task: str, approach: str, seed: int
) -> Config:
    task = stored["user_tasks"].get(task, task)
    plain = stored["user_approaches"].get(approach) or as_dict(APPROACHES[approach])
    return Config.from_dict({"task": task, "approach": plain, "seed": seed, **settings})


def _user_code(configs: Sequence[Config]) -> dict[str, dict[str, Any]]:
    """User-defined tasks and approaches, by name, and fingerprints of their files, by path."""
    paths = {path: None for config in configs for path in config.user_code}
    tasks = {config.task for config in configs} & paths.keys()
    approaches = {config.approach.name: config.approach for config in configs}
    return {
        "user_tasks": {get_task(task).name: task for task in sorted(tasks)},
        "user_approaches": {
            name: as_dict(approach)
            for name, approach in approaches.items()
            if name not in APPROACHES
        },
        "sources": fingerprints("task", paths),
    }


def _refuse_changes(
    folder: Path,
    stored: Mapping[str, Any],
    settings: Mapping[str, Mapping[str, Any]],
    user_code: Mapping[str, Mapping[str, Any]],
) -> None:
    """Refuse settings that differ from those of the study: its runs must be comparable.

    User-defined tasks, approaches and files may be added, but not changed.
    """
    for part, values in (*settings.items(), *user_code.items()):
        is_setting = part in settings
        before = stored.get("settings", {}).get(part, {}) if is_setting else stored.get(part, {})
        for name, value in values.items():
            if name in MAY_CHANGE.get(part, ()) or name not in before or before[name] == value:
                continue
            setting = f"{part}.{name}" if is_setting else name
            raise SettingError(
                f"{setting} differs from that of the study in {folder} ({before[name]!r}, not "
                f"{value!r}); use another --study"
            )


def _quarantine(folder: Path) -> None:
    for sentence in layout.quarantine_corrupt_files(folder):
        logger.warning(sentence)
