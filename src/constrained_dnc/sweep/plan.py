"""Which runs a study has, and which of them are done."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from constrained_dnc.config import (
    INFERENCES,
    PAPER_RULE,
    RULES,
    SECTIONS,
    WITHOUT_EFFECT,
    Config,
    EvaluationConfig,
    Inference,
    Parts,
    SelectionRule,
    as_dict,
    extended,
    get_preset,
    with_absolute_paths,
    with_min_iterations,
)
from constrained_dnc.errors import SettingError, require_integer
from constrained_dnc.evaluation.scoring import Planned, make_plan
from constrained_dnc.files import (
    corruption_named,
    locked,
    make_folder,
    read_json,
    remove_unfinished,
    write_json,
)
from constrained_dnc.model.config import GROWING, MemorySize
from constrained_dnc.parts import APPROACHES, Approach
from constrained_dnc.plugins import fingerprints, require_trust
from constrained_dnc.study import layout
from constrained_dnc.study.layout import STUDY
from constrained_dnc.sweep.approach_names import find_approaches
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.folder import SELECTED
from constrained_dnc.training.run import environment

MAY_CHANGE = {
    *(f"training.{name}" for name in WITHOUT_EFFECT),
    *(f"evaluation.{field.name}" for field in fields(EvaluationConfig) if field.name != "seed"),
}
"""Settings that a resumed study may change: no parameters or samples depend on them."""


def memories_of(config: Config, rule: SelectionRule = PAPER_RULE) -> list[MemorySize]:
    """The memories that a run is evaluated with; for the rule `seen`, only the trained one."""
    slots = config.model.memory_size
    if chosen := config.evaluation.memory_sizes(slots):
        return [size for size in chosen if size != GROWING or config.approach.can_grow]
    if rule == "seen":
        return [slots]
    return [slots, extended(slots), *([GROWING] if config.approach.can_grow else [])]


@dataclass(frozen=True)
class Plan:
    """The runs of a study directory, and how each is evaluated and analysed."""

    folder: Path
    configs: tuple[Config, ...] = ()
    rules: tuple[SelectionRule, ...] = RULES
    analyses: bool = True
    inferences: tuple[Inference, ...] = ("network",)
    preset: str = ""

    def is_done(self, config: Config) -> bool:
        """Whether a run is trained as long as requested, evaluated at all lengths, and analysed."""
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
        """The rules to evaluate: a rule selects no parameters if no update was ever finite."""
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
        return self.folder / layout.LOCKS / config.run_id

    def to_do(self) -> list[Config]:
        """The runs that are not done, including those that failed before."""
        return [config for config in self.configs if not self.is_done(config)]


def _stored_batches(path: Path, batch_size: int) -> dict[tuple[str, str, str, int], int]:
    """How many batches of this size a file has, by rule, inference, memory and length."""
    key = ["selection", "inference", "memory", "length"]
    try:
        rows = pd.read_parquet(path, columns=[*key, "batches", "batch_size"])
    except Exception:  # a corrupt file can raise anything
        return {}
    batches: dict[Any, int] = (
        rows[rows["batch_size"] == batch_size].set_index(key)["batches"].to_dict()
    )
    return batches


def plan_study(
    folder: Path,
    preset: str,
    tasks: Sequence[str] = (),
    approaches: Sequence[str | Approach] = (),
    trials: int | None = None,
    *,
    first_seed: int = 0,
    parts: Parts | None = None,
    rules: Sequence[SelectionRule] = RULES,
    analyses: bool = True,
    inferences: Sequence[Inference] = ("network",),
) -> Plan:
    """The runs of a study, trial by trial, so that early results cover everything.

    The preset provides what is not given. Nothing is written before `open_study`.
    """
    budget = get_preset(preset)
    tasks = tuple(dict.fromkeys(tasks)) or budget.tasks
    names = [get_task(task).name for task in tasks]
    if len(set(names)) < len(names):
        raise SettingError(f"two tasks have the same name: {' '.join(names)}")
    trials = budget.trials if trials is None else trials
    require_integer("trials", trials, 1)
    cases = product(
        range(first_seed, first_seed + trials),
        tasks,
        find_approaches(approaches or budget.approaches),
    )
    configs = (Config(task, it, seed, *(parts or budget.parts)) for seed, task, it in cases)
    return Plan(
        folder,
        tuple(map(with_absolute_paths, configs)),
        tuple(rule for rule in RULES if rule in rules),
        analyses,
        tuple(each for each in INFERENCES if each in inferences),
        preset,
    )


def open_study(
    plan: Plan, command: Sequence[str] = (), requests: Sequence[Mapping[str, Any]] = ()
) -> Plan:
    """Create the directory of a study, or add runs to it and extend those it has.

    By default all tasks, approaches and seeds of the plan are one request.
    """
    folder, path = plan.folder, plan.folder / STUDY
    others = list(folder.glob("[!.]*")) if folder.is_dir() else []
    if set(others) - {folder / layout.LOCK} and not path.is_file():
        raise SettingError(f"{folder} is not empty and has no {STUDY}: it is not a study")
    make_folder(folder, "study")
    with locked(folder / layout.LOCK, wait=True):  # two sweeps may add to a study at once
        remove_unfinished(folder, [STUDY])
        stored = read_json(path) if path.is_file() else {}
        content = _content(plan, stored, requests or [request_of(plan.configs)], command)
        _refuse_changes(folder, stored, content)
        write_json(path, content)
        layout.quarantine_corrupt_files(folder)
    return plan


def request_of(configs: Sequence[Config]) -> dict[str, Any]:
    """The request for these runs, as study.json stores it."""
    tasks = dict.fromkeys(config.task for config in configs)
    seeds = sorted({config.seed for config in configs})
    return {
        "tasks": [get_task(task).name for task in tasks],
        "approaches": list(dict.fromkeys(config.approach.name for config in configs)),
        "trials": len(seeds),
        "seeds": seeds,
        "iterations": max(config.training.iterations for config in configs),
    }


def _content(
    plan: Plan,
    stored: Mapping[str, Any],
    requests: Sequence[Mapping[str, Any]],
    command: Sequence[str],
) -> dict[str, Any]:
    """The content of study.json after a plan is added to what is stored."""
    plain = as_dict(plan.configs[0])
    approaches = {config.approach.name: config.approach for config in plan.configs}
    code = {path: None for config in plan.configs for path in config.user_code}
    names = {task: get_task(task).name for task in dict.fromkeys(c.task for c in plan.configs)}
    now: dict[str, dict[str, Any]] = {
        "runs": {
            config.run_id: {
                "task": names[config.task],
                "approach": config.approach.name,
                "seed": config.seed,
            }
            for config in plan.configs
        },
        "user_tasks": {names[task]: task for task in sorted(names.keys() & code.keys())},
        "user_approaches": {
            name: as_dict(approach)
            for name, approach in approaches.items()
            if name not in APPROACHES
        },
        "sources": fingerprints("task", code),
    }
    earlier = [old for old in stored.get("requests", []) if old not in requests]
    rules = {*stored.get("rules", ()), *plan.rules}
    inferences = {*stored.get("inferences", ()), *plan.inferences}
    return {
        "preset": stored.get("preset", plan.preset),
        "requests": [*earlier, *requests],
        "rules": [rule for rule in RULES if rule in rules],
        "inferences": [each for each in INFERENCES if each in inferences],
        "analyses": stored.get("analyses", False) or plan.analyses,
        "memories": [str(memory) for memory in memories_of(plan.configs[0])],
        "settings": {part: plain[part] for part in SECTIONS},
        **{name: {**stored.get(name, {}), **values} for name, values in now.items()},
        **environment(),
        "command": shlex.join(["cdnc", *command]),
        "created": stored.get("created", time.strftime("%Y-%m-%d %H:%M")),
    }


def _refuse_changes(folder: Path, stored: Mapping[str, Any], content: Mapping[str, Any]) -> None:
    """Refuse settings, tasks, approaches and files that differ from the study's.

    Its runs must be comparable; what it does not have yet may be added.
    """
    for part in ("settings", "user_tasks", "user_approaches", "sources"):
        before, now = stored.get(part, {}), content[part]
        if part == "settings":
            before, now = layout.flat_settings(before), layout.flat_settings(now)
        for name, value in before.items():
            if name not in MAY_CHANGE and now.get(name, value) != value:
                if part == "sources":
                    raise SettingError(
                        f"{name} changed since runs of {folder} were trained with it; restore it "
                        "and put new classes in a new file, or use another --study"
                    )
                raise SettingError(
                    f"{name} differs from the study in {folder} ({value!r}, not {now[name]!r}); "
                    "use another --study"
                )


def reopen_study(folder: Path, *, trust_code: bool = False) -> Plan:
    """The plan of everything that was ever requested of a study, with its stored settings.

    User-defined parts are imported only with `trust_code`, or if this user has trained with them.
    """
    stored = read_json(folder / STUDY)
    with corruption_named(folder / STUDY):
        configs = _stored_configs(stored)
        rules, analyses = tuple(stored["rules"]), bool(stored["analyses"])
        inferences = tuple(stored["inferences"])
    user_code = sorted({name for config in configs for name in config.user_code})
    require_trust(folder / STUDY, user_code, stored.get("sources", {}), trust_code=trust_code)
    with locked(folder / layout.LOCK, wait=True):
        layout.quarantine_corrupt_files(folder)
    return Plan(folder, configs, rules, analyses, inferences)


def _stored_configs(stored: Mapping[str, Any]) -> tuple[Config, ...]:
    """All runs in study.json, each as long as its longest request."""
    configs: dict[str, Config] = {}
    for part in stored["requests"]:
        settings = {name: dict(values) for name, values in stored["settings"].items()}
        settings["training"]["iterations"] = part["iterations"]
        for seed, task, name in product(layout.seeds_of(part), part["tasks"], part["approaches"]):
            plain = {
                "task": stored["user_tasks"].get(task, task),
                "approach": stored["user_approaches"].get(name) or as_dict(APPROACHES[name]),
                "seed": seed,
            }
            config = Config.from_dict(plain | settings)
            longest = configs.get(config.run_id, config).training.iterations
            configs[config.run_id] = with_min_iterations(config, longest)
    return tuple(sorted(configs.values(), key=lambda config: config.seed))
