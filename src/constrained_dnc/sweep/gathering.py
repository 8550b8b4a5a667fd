"""A study made from runs that were trained one by one, for example by a job array."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from constrained_dnc.config import RULES, Config, SelectionRule, differences_within_study
from constrained_dnc.errors import SettingError
from constrained_dnc.files import make_folder
from constrained_dnc.study import layout
from constrained_dnc.sweep.plan import Plan, open_study, request_of
from constrained_dnc.training.folder import ENDED
from constrained_dnc.training.loggers import logger
from constrained_dnc.training.run import Run, load_run


def gather(
    folders: Sequence[str | Path],
    study: Path,
    *,
    rules: Sequence[SelectionRule] = (),
    analyses: bool = True,
    command: Sequence[str] = (),
    trust_code: bool = False,
) -> Plan:
    """Make a study from run directories, or add them to one; it holds links to them.

    Runs that have not ended are left out with a warning. By default the rules are those with
    selected parameters in all runs. Lengths and batches of evaluation are those of the first run.
    """
    runs = _ended([load_run(folder, trust_code=trust_code) for folder in folders])
    first = runs[0]
    for run in runs[1:]:
        if different := differences_within_study(run.config, first.config):
            raise SettingError(f"{run.folder} cannot be compared with {first.folder}: {different}")
    available = [rule for rule in RULES if all(rule in run.rules for run in runs)]
    chosen = tuple(rule for rule in RULES if rule in (rules or available))
    if not chosen:
        raise SettingError("no selection rule has selected parameters in all runs; choose --rules")
    configs = [replace(run.config, evaluation=first.config.evaluation) for run in runs]
    plan = Plan(study, tuple(configs), chosen, analyses)
    links = _links(study, runs)
    open_study(plan, command, _requests(configs))
    make_folder(study / layout.RUNS)
    for link, target in links.items():
        link.symlink_to(os.path.relpath(target, link.parent.resolve()))
    return plan


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


def _links(study: Path, runs: Sequence[Run]) -> dict[Path, Path]:
    """The links to make, with their targets; a run in two folders is refused."""
    links: dict[Path, Path] = {}
    for run in runs:
        link, target = layout.run_folder(study, run.config.run_id), run.folder.resolve()
        known = link.resolve() if link.exists() else links.get(link, target)
        if known != target:
            raise SettingError(f"{run.folder} and {known} are the same run: use one of them")
        links[link] = target
    return {link: target for link, target in links.items() if not link.exists()}


def _requests(configs: Sequence[Config]) -> list[dict[str, Any]]:
    """A request for every task and approach."""
    groups: dict[tuple[str, str], list[Config]] = {}
    for config in configs:
        groups.setdefault((config.task, config.approach.name), []).append(config)
    return [request_of(group) for group in groups.values()]
