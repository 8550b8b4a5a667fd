"""What a study runs, and what of it is done: all of it on layout."""

from __future__ import annotations

import itertools
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from constrained_dnc.approaches import APPROACHES, Approach
from constrained_dnc.choices import MEMORIES, PAPER_RULE, Memory, SelectionRule, extended
from constrained_dnc.config import (
    Config,
    Parts,
    get_preset,
    with_absolute_paths,
    with_min_iterations,
    without_iterations,
)
from constrained_dnc.errors import (
    RunError,
    SettingError,
    require_integer,
)
from constrained_dnc.files import locked, make_folder
from constrained_dnc.plugins import fingerprints
from constrained_dnc.study import layout
from constrained_dnc.study.layout import STUDY
from constrained_dnc.sweep.approaches import find_approaches
from constrained_dnc.tasks.registry import get_task, task_names
from constrained_dnc.training.disk import SELECTED
from constrained_dnc.training.observer import logger
from constrained_dnc.training.run import environment

MAX_ATTEMPTS = 3
MOST_TRIALS = 1000
EVALUATED: dict[SelectionRule, tuple[Memory, ...]] = {
    PAPER_RULE: MEMORIES,
    "score": MEMORIES,
    "seen": ("trained",),
}
"""By selection rule, the memories that a run is evaluated with."""


@dataclass(frozen=True)
class Request:
    """What is asked of a study."""

    preset: str
    tasks: tuple[str, ...]
    approaches: tuple[str, ...]
    trials: int
    iterations: int
    own_approaches: tuple[Approach, ...] = ()
    """Those of the approaches that are a user's."""
    parts: Parts | None = None
    """The settings, if not the preset's."""

    def configs(self) -> list[Config]:
        """One config per run: trial by trial, so that early results cover everything."""
        known = APPROACHES | {approach.name: approach for approach in self.own_approaches}
        model, training, evaluation = self.parts or get_preset(self.preset).parts
        parts = model, replace(training, iterations=self.iterations), evaluation
        return [
            with_absolute_paths(Config(task, known[name], seed, *parts))
            for seed in range(self.trials)
            for task in self.tasks
            for name in self.approaches
        ]


def make_request(
    preset: str,
    tasks: Sequence[str] = (),
    approaches: Sequence[str] = (),
    trials: int | None = None,
    iterations: int | None = None,
    parts: Parts | None = None,
) -> Request:
    """Fill in what the preset's budget says and refuse what cannot be run."""
    budget = get_preset(preset)
    tasks = tuple(dict.fromkeys(tasks)) or budget.tasks
    names = [get_task(task).name for task in tasks]
    if len(set(names)) < len(names):
        raise SettingError("tasks", " ".join(tasks), "tasks with different names")
    found = find_approaches(approaches or budget.approaches)
    trials = budget.trials if trials is None else trials
    require_integer("trials", trials, 1, MOST_TRIALS)
    _, training, _ = parts or budget.parts
    return Request(
        preset,
        tasks,
        tuple(approach.name for approach in found),
        trials,
        training.iterations if iterations is None else iterations,
        tuple(approach for approach in found if approach not in APPROACHES.values()),
        parts,
    )


@dataclass(frozen=True)
class Plan:
    """The runs of a study directory."""

    folder: Path
    configs: tuple[Config, ...] = ()

    def is_done(self, config: Config) -> bool:
        """Trained at least as long as asked for, evaluated and analysed."""
        return self._done_after(config.run_id) >= config.training.iterations

    def _done_after(self, run_id: str) -> int:
        """The most iterations a run was asked for, then evaluated and analysed; 0 if it was not."""
        if not layout.analysis_file(self.folder, run_id).exists():
            return 0
        files = layout.results_of(self.folder, run_id)
        needed = self._needed(run_id)
        found = {n: layout.evaluated_in(file, run_id) for n, file in files.items()}
        return max((n for n, evaluated in found.items() if needed <= evaluated), default=0)

    def _needed(self, run_id: str) -> set[tuple[str, str]]:
        """The rules and memories that a run is evaluated with; a rule may have selected nothing.

        An earlier version may have evaluated fewer.
        """
        run = layout.run_folder(self.folder, run_id)
        selected = [r for r in EVALUATED if not run.exists() or (run / SELECTED[r]).exists()]
        return {(rule, memory) for rule in selected for memory in EVALUATED[rule]}

    def lock(self, config: Config) -> Path:
        """Held by whoever is working on the run."""
        return layout.lock_file(self.folder, config.run_id)

    def attempts(self, config: Config) -> list[str]:
        """Why earlier attempts at a run failed; those at a shorter one that ended well are over."""
        stored = layout.read_attempts(self.folder, config.run_id)
        if not stored or self._done_after(config.run_id) >= stored["iterations"]:
            return []
        reasons: list[str] = stored["reasons"]
        return reasons

    def add_attempt(self, config: Config, reason: str, trace: str = "") -> list[str]:
        """Remember that an attempt failed, with its traceback; the reasons of all so far."""
        reasons = [*self.attempts(config), reason]
        attempts = {
            "run_id": config.run_id,
            "task": get_task(config.task).name,
            "approach": config.approach.name,
            "seed": config.seed,
            "iterations": config.training.iterations,
            "reasons": reasons,
            "last_traceback": trace.splitlines(),
        }
        layout.write_attempts(self.folder, attempts)
        self.write_failures()
        return reasons

    def to_do(self) -> list[Config]:
        """The runs that are neither done nor given up."""
        return [
            config
            for config in self.configs
            if not self.is_done(config) and len(self.attempts(config)) < MAX_ATTEMPTS
        ]

    def write_failures(self) -> list[dict[str, Any]]:
        """Write down the runs that were given up, also by earlier sweeps, for the report."""
        failures = []
        for about in layout.all_attempts(self.folder):
            reasons = about.pop("reasons")
            del about["last_traceback"]
            is_done = self._done_after(about["run_id"]) >= about.pop("iterations")
            if len(reasons) >= MAX_ATTEMPTS and not is_done:
                failures.append({**about, "reason": reasons[-1], "attempts": len(reasons)})
        layout.write_failures(self.folder, failures)
        return failures


def open_study(folder: Path, request: Request, command: Sequence[str] = ()) -> Plan:
    """Create a study directory, or resume one, which may become larger and its runs longer."""
    configs = tuple(request.configs())
    lock = layout.study_lock(folder)
    if not lock.exists():
        _refuse_foreign(folder)
    make_folder(folder, "study")
    with locked(lock, wait=True):  # two sweeps may add to a study at once
        _refuse_foreign(folder)
        _add_request(folder, request, configs, command)
        _set_damaged_aside(folder)
    return Plan(folder, configs)


def _refuse_foreign(folder: Path) -> None:
    """A folder of something else is left alone."""
    others = list(folder.glob("[!.]*")) if folder.is_dir() else []
    if set(others) - {layout.study_lock(folder)} and not layout.is_study(folder):
        raise SettingError("study", str(folder), f"a new or empty folder, or one with a {STUDY}")


def _add_request(
    folder: Path, request: Request, configs: Sequence[Config], command: Sequence[str]
) -> None:
    """Write what is asked for now beside all that was asked for before."""
    stored = layout.read_request(folder) if layout.is_study(folder) else {}
    settings = _settings(configs[0])
    own = _own_code(configs)
    if stored:
        _refuse_changes(folder, stored, {"preset": request.preset}, {"settings": settings, **own})
    memory_size = configs[0].model.memory_size
    asked = {
        "tasks": [get_task(task).name for task in request.tasks],
        "approaches": list(request.approaches),
        "trials": request.trials,
        "iterations": request.iterations,
    }
    requests = [part for part in stored.get("requests", []) if part != asked] + [asked]
    layout.write_request(
        folder,
        {
            "preset": request.preset,
            "tasks": _union(part["tasks"] for part in requests),
            "approaches": _union(part["approaches"] for part in requests),
            "trials": max(part["trials"] for part in requests),
            "iterations": max(part["iterations"] for part in requests),
            "requests": requests,
            "memory_size": memory_size,
            "extended_memory_size": extended(memory_size),
            "settings": settings,
            **{part: {**stored.get(part, {}), **now} for part, now in own.items() if now},
            **environment(),
            "command": shlex.join(["cdnc", *command]),
            "created": stored.get("created", time.strftime("%Y-%m-%d %H:%M")),
        },
    )


def reopen_study(folder: Path) -> Plan:
    """All that was ever asked of a study, with its settings.

    Code of your own is not imported unasked: a study with such code needs its command again.
    """
    stored = layout.read_request(folder)
    if not all(stored.get(name) for name in ("preset", "requests", "settings", "iterations")):
        raise SettingError("study", str(folder), f"one whose {STUDY} says what was asked for")
    known = all(
        set(asked["tasks"]) <= set(task_names()) and set(asked["approaches"]) <= set(APPROACHES)
        for asked in stored["requests"]
    )
    if stored.get("own_tasks") or stored.get("own_approaches") or not known:
        accepted = "one without code of your own; with it, its whole command is needed again"
        raise SettingError("study", str(folder), accepted)
    try:
        configs = _configs_of(stored)
    except SettingError as error:
        raise RunError(f"{folder / STUDY} cannot be read: {error}") from error
    with locked(layout.study_lock(folder), wait=True):
        _set_damaged_aside(folder)
    return Plan(folder, configs)


def _configs_of(stored: dict[str, Any]) -> tuple[Config, ...]:
    """All runs that a study.json asks for, as long as the longest request wants them."""
    parts: dict[str, dict[str, Any]] = {"training": {}}
    for name, value in stored["settings"].items():
        part, _, setting = name.partition(".")
        parts.setdefault(part, {})[setting] = value
    parts["training"]["iterations"] = stored["iterations"]
    any_run = {"task": "copy", "approach": asdict(APPROACHES["compr"]), "seed": 0}
    base = Config.from_dict({**any_run, **parts})
    configs: dict[str, Config] = {}
    for asked in stored["requests"]:
        request = make_request(
            stored["preset"],
            asked["tasks"],
            asked["approaches"],
            asked["trials"],
            asked["iterations"] or stored["iterations"],
            (base.model, base.training, base.evaluation),
        )
        for config in request.configs():
            longest = configs.get(config.run_id, config).training.iterations
            configs[config.run_id] = with_min_iterations(config, longest)
    return tuple(sorted(configs.values(), key=lambda config: config.seed))


def _set_damaged_aside(folder: Path) -> None:
    for sentence in layout.quarantine_corrupt_files(folder):
        logger.warning(sentence)


def _union(lists: Iterable[list[str]]) -> list[str]:
    return list(dict.fromkeys(itertools.chain(*lists)))


def _settings(config: Config) -> dict[str, Any]:
    """What all runs of a study share, by name; they need not be equally long."""
    values = without_iterations(asdict(config))
    return {
        f"{part}.{name}": value
        for part in ("model", "training", "evaluation")
        for name, value in values[part].items()
    }


def _own_code(configs: Iterable[Config]) -> dict[str, dict[str, Any]]:
    """What a study knows about a user's tasks and approaches, by name, and files, by path."""
    approaches = {config.approach.name: asdict(config.approach) for config in configs}
    names = {name: None for config in configs for name in config.user_code}
    tasks = {config.task for config in configs} & names.keys()
    return {
        "own_tasks": {get_task(task).name: task for task in sorted(tasks)},
        "own_approaches": {n: a for n, a in approaches.items() if n not in APPROACHES},
        "sources": fingerprints("task", names),
    }


def _refuse_changes(
    folder: Path, stored: dict[str, Any], single: dict[str, Any], parts: dict[str, dict[str, Any]]
) -> None:
    """One study, one set of settings: results of different ones must not meet in a table.

    Tasks, approaches and files of your own may be added, but not changed.
    """
    changed = {name: (value, stored.get(name)) for name, value in single.items()}
    for part, values in parts.items():
        found = stored.get(part, {})
        for name, value in values.items():
            is_new = part != "settings" and name not in found
            changed[name] = value, (value if is_new else found.get(name))
    for name, (ours, theirs) in changed.items():
        if ours != theirs:
            accepted = f"{theirs!r}, as in the study in {folder}; another needs another --study"
            raise SettingError(name, ours, accepted)
