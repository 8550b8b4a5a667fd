"""Which runs a study has: they are planned, extended and gathered here."""

from __future__ import annotations

import shlex
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from constrained_dnc.config import (
    INFERENCES,
    RULES,
    Config,
    Parts,
    SelectionRule,
    differences_within_study,
    get_preset,
    run_name,
    with_absolute_paths,
)
from constrained_dnc.errors import RunError, SettingError, require_integer
from constrained_dnc.files import (
    failure_named,
    locked,
    make_folder,
    refuse_link,
    remove_unfinished,
    write_json,
)
from constrained_dnc.parts import Approach
from constrained_dnc.study.approaches import find_approaches
from constrained_dnc.study.study import (
    FORMAT,
    LOCK,
    RUNS,
    STUDY,
    Study,
    Trial,
    find_runs,
    read_study,
    trial_of,
)
from constrained_dnc.study.trial import Wanted, is_done
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.folder import COMPLETING, ENDED
from constrained_dnc.training.folder import LOCK as TRAINING
from constrained_dnc.training.loggers import logger
from constrained_dnc.training.run import (
    Run,
    changed_sources,
    load_run,
    plan_run,
    replace_config,
)


@dataclass(frozen=True)
class Plan:
    """Runs of a study that are to be completed, and what is wanted of each."""

    folder: Path
    runs: tuple[Run, ...]
    wanted: Wanted

    def to_do(self) -> list[Run]:
        """The runs that are not done, including those that failed before."""
        return [run for run in self.runs if not is_done(run.folder, self.wanted)]


def requested_configs(
    preset: str,
    tasks: Sequence[str] = (),
    approaches: Sequence[str | Approach] = (),
    trials: int | None = None,
    *,
    first_seed: int = 0,
    parts: Parts | None = None,
) -> tuple[Config, ...]:
    """The configs of tasks x approaches x trials, trial by trial, so that early results cover all.

    Args:
        preset: Provides what is not given.
        tasks: Names or import paths.
        approaches: Approaches, or names of built-in and user-defined ones.
        trials: How many seeds each task and approach has.
        first_seed: The first of them.
        parts: The settings of all runs.
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
    configs = (
        Config(task, approach, seed, *(parts or budget.parts)) for seed, task, approach in cases
    )
    return tuple(map(with_absolute_paths, configs))


def open_study(
    folder: Path,
    configs: Sequence[Config],
    wanted: Wanted | None = None,
    *,
    preset: str = "",
    command: Sequence[str] = (),
    gathered: Mapping[str, Path] | None = None,
) -> Plan:
    """Make a study, or add runs to one and extend those it has; returns the plan of `configs`.

    Args:
        folder: The folder of the study.
        configs: Of the runs that it is to have.
        wanted: What is wanted of every run; the study also remembers what was wanted before.
        preset: The preset that the settings come from.
        command: The command line.
        gathered: By run id, the folders of runs that are copied instead of trained.
    """
    path, wanted = folder / STUDY, wanted or Wanted()
    others = list(folder.glob("[!.]*")) if folder.is_dir() else []
    if set(others) - {folder / LOCK} and not path.is_file():
        raise SettingError(f"{folder} is not empty and has no {STUDY}: it is not a study")
    make_folder(folder, "study")
    refuse_link(folder / RUNS)
    with locked(folder / LOCK, wait=True):  # two commands may add to a study at once
        remove_unfinished(folder, [STUDY])
        study = read_study(folder) if path.is_file() else None
        planned = planned_runs(folder, study, configs)
        stored = study.stored if study else {}
        before = study.wanted if study else wanted
        rules, inferences = {*before.rules, *wanted.rules}, {*before.inferences, *wanted.inferences}
        write_json(
            path,
            {
                "format": FORMAT,
                "preset": stored.get("preset", preset),
                "rules": [rule for rule in RULES if rule in rules],
                "inferences": [inference for inference in INFERENCES if inference in inferences],
                "analyses": before.analyses or wanted.analyses,
                "command": shlex.join(["cdnc", *command]),
                "created": stored.get("created", time.strftime("%F %H:%M")),
            },
        )
        for run, config in planned.values():
            if run is None:
                _add(folder / RUNS, config, (gathered or {}).get(config.run_id))
            elif config != run.config:
                refuse_link(run.folder)
                replace_config(run.folder, config)
    runs = {run.config.run_id: run for run in find_runs(folder)}
    return Plan(folder, tuple(runs[config.run_id] for config in configs), wanted)


def reopen_study(folder: Path, *, trust_code: bool = False) -> Plan:
    """The plan of all runs of a study.

    User-defined parts are imported only with `trust_code`, or if this user has trained with them.
    """
    study = read_study(folder)
    runs = [load_run(run.folder, trust_code=trust_code) for run in study.members.values()]
    return Plan(folder, tuple(runs), study.wanted)


Planned = tuple[Run | None, Config]
"""A run that is there, if any, and the config that it is to have."""


def planned_runs(
    folder: Path, study: Study | None, configs: Sequence[Config]
) -> dict[Trial, Planned]:
    """The runs that a study has and is to have; what cannot stand beside each other is refused.

    Args:
        folder: The folder of the study.
        study: The study, if there is one already.
        configs: Of the runs that it is to have.
    """
    evaluation = configs[0].evaluation
    there = {trial_of(run): run for run in study.members.values()} if study else {}
    planned: dict[Trial, Planned] = {
        trial: (run, replace(run.config, evaluation=evaluation)) for trial, run in there.items()
    }
    _refuse_changes(folder, there.values(), configs)
    shorter: Counter[int] = Counter()
    for config in configs:
        trial = get_task(config.task).name, config.approach.name, config.seed
        run = planned.get(trial, (None, config))[0]
        if run is not None:
            if run.config.run_id != config.run_id:
                raise SettingError(
                    f"{run.folder} starts from other parameters than the run of the same task, "
                    "approach and seed that is to be added; use another --study"
                )
            before = run.config.training.iterations
            shorter[before] += before > config.training.iterations
        planned[trial] = run, config
    if budgets := " and ".join(f"{n} runs of {of} iterations" for of, n in (+shorter).items()):
        raise SettingError(
            f"{folder} has {budgets}, not {configs[0].training.iterations}; use another --study "
            f"for less, or cdnc study --study {folder} alone to complete them"
        )
    return planned


def _refuse_changes(folder: Path, there: Iterable[Run], configs: Sequence[Config]) -> None:
    """Refuse settings, tasks, approaches and files that differ from those of a study."""
    tasks = {get_task(config.task).name: config.task for config in configs}
    approaches = {config.approach.name: config.approach for config in configs}
    code = {name for config in configs for name in config.user_code}
    for run in there:
        if different := differences_within_study(run.config, configs[0]):
            raise SettingError(f"{folder} has runs with other settings: {different}; {_ELSEWHERE}")
        name = run.config.approach.name
        if approaches.get(name, run.config.approach) != run.config.approach:
            raise SettingError(f"{folder} has another approach called {name}; {_ELSEWHERE}")
        if tasks.get(run.task_name, run.config.task) != run.config.task:
            raise SettingError(f"{folder} has another task called {run.task_name}; {_ELSEWHERE}")
        if code.intersection(run.config.user_code) and (changed := changed_sources(run)):
            raise SettingError(
                f"{changed[0]} changed since runs of {folder} were planned with it; restore it and "
                "put new classes in a new file, or use another --study"
            )


_ELSEWHERE = "use another --study"


def _add(runs: Path, config: Config, origin: Path | None) -> None:
    """Add a run to be trained, or a copy of a trained one without its locks and links."""
    target = runs / run_name(config)
    if target.exists():
        raise RunError(f"{target} is in the way of a run of that name: remove it, or restore it")
    unfinished = runs / f".{target.name}.unfinished"
    with failure_named(target, "made"):
        shutil.rmtree(unfinished, ignore_errors=True)
        if origin is None:
            plan_run(unfinished, config)
        else:
            shutil.copytree(origin, unfinished, ignore=_locks_and_links)
            replace_config(unfinished, config)
        unfinished.rename(target)


def _locks_and_links(folder: str, names: list[str]) -> list[str]:
    return [TRAINING, COMPLETING, *(name for name in names if Path(folder, name).is_symlink())]


def gather(
    folders: Sequence[str | Path],
    study: Path,
    *,
    rules: Sequence[SelectionRule] = (),
    analyses: bool = True,
    command: Sequence[str] = (),
    trust_code: bool = False,
) -> Plan:
    """Make a study of copies of trained runs, or add them to one.

    Runs that have not ended are left out with a warning. By default the rules are those with
    selected parameters in all runs. Lengths and batches of evaluation are those of the study, or of
    the first run.
    """
    runs = _ended([load_run(folder, trust_code=trust_code) for folder in folders])
    first = runs[0]
    trials: dict[Trial, Run] = {}
    for run in runs:
        if different := differences_within_study(run.config, first.config):
            raise SettingError(f"{run.folder} cannot be compared with {first.folder}: {different}")
        other = trials.setdefault(trial_of(run), run)
        if other is not run:
            raise SettingError(f"{run.folder} and {other.folder} are of the same trial: use one")
    available = [rule for rule in RULES if all(rule in run.rules for run in runs)]
    chosen = tuple(rule for rule in RULES if rule in (rules or available))
    if not chosen:
        raise SettingError("no selection rule has selected parameters in all runs; choose --rules")
    there = find_runs(study) if (study / STUDY).is_file() else []
    evaluation = (there or runs)[0].config.evaluation
    return open_study(
        study,
        [replace(run.config, evaluation=evaluation) for run in runs],
        Wanted(chosen, analyses=analyses),
        command=command,
        gathered={run.config.run_id: run.folder for run in runs},
    )


def _ended(runs: Sequence[Run]) -> list[Run]:
    ended = []
    for run in runs:
        status = run.status
        if status.state in ENDED:
            ended.append(run)
        else:
            where = f"{status.state} at iteration {status.iteration} of {status.iterations}"
            logger.warning("%s is left out: %s", run.folder, where)
    if not ended:
        raise SettingError("none of the runs has ended")
    return ended
