"""A run on disk: its config, status, metrics and selected parameters."""

from __future__ import annotations

import dataclasses
import math
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, get_args

import equinox as eqx
import jax

from constrained_dnc import zoo
from constrained_dnc.choices import PAPER_RULE, RULES, SelectionRule
from constrained_dnc.config import Config, as_dict
from constrained_dnc.cores import MAX_THREADS
from constrained_dnc.errors import (
    RunError,
    SettingError,
    one_of,
    require_integer,
    require_path,
)
from constrained_dnc.files import (
    Fields,
    Tensors,
    checksum_of,
    is_count,
    is_locked,
    read_file,
    read_json,
    read_tensors,
    require_fields,
    write_json,
    write_tensors,
)
from constrained_dnc.model import fused
from constrained_dnc.model.backend import AbstractBackend, choose_backend
from constrained_dnc.model.build import build_dnc
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.leaves import fill_leaves, name_leaves
from constrained_dnc.plugins import fingerprints
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.tasks.task import AbstractTask
from constrained_dnc.training.checkpoint import different_fields, newest_values
from constrained_dnc.training.disk import CONFIG, LOCK, METRICS, SELECTED, STATUS
from constrained_dnc.training.metrics import parse_lines, warn_of_damage
from constrained_dnc.training.observer import logger
from constrained_dnc.training.room import check_memory_for_parameters

PACKAGES = ("constrained-dnc", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy")

State = Literal["training", "finished", "stopped", "diverged", "failed", "interrupted"]
ENDED = ("finished", "diverged")
"""States of a run that has nothing left to train."""


@dataclass(frozen=True)
class Status:
    """How far a run is, and why it ended."""

    state: State
    reason: str
    iteration: int
    iterations: int
    skipped_updates: int
    best_iteration: dict[SelectionRule, int | None]
    running_mean: dict[SelectionRule, float | None]  # of the loss or score, at the best iteration
    seconds: float  # spent in training, all processes together
    updated: str


@dataclass(frozen=True)
class Selected:
    """A trained model and where it comes from."""

    model: DNC
    iteration: int
    running_mean: float | None  # of the loss or score that selected it
    rule: SelectionRule


@dataclass(frozen=True)
class Run:
    """A run directory, opened for reading; make one with `train` or `load_run`."""

    folder: Path
    config: Config
    backend: str
    threads: int

    @property
    def task(self) -> AbstractTask:
        return get_task(self.config.task)

    @property
    def status(self) -> Status:
        """The last status on disk; a run whose process is gone is `interrupted`."""
        status = read_status(self.folder, self.config.run_id)
        if status.state == "training" and not is_locked(self.folder / LOCK):
            status = read_status(self.folder, self.config.run_id)  # it may have just ended
        if status.state == "training" and not is_locked(self.folder / LOCK):
            return dataclasses.replace(status, state="interrupted", reason="the process is gone")
        return status

    def checked_status(self) -> Status:
        """The status, with the counts of the checkpoint: that one has a checksum."""
        status, about = self.status, self._newest_values()
        if about is None:
            if not self.is_pretrained:
                logger.warning("%s has no checkpoint: its status cannot be checked", self.folder)
            return status
        iteration, skipped = about["iteration"], about["skipped_updates"]
        if status.state == "failed":  # it may have come further than its checkpoint
            return status
        if status.state in (*ENDED, "stopped") and status.iteration != iteration:
            raise RunError(
                f"{self.folder / STATUS} is of iteration {status.iteration}, the newest whole "
                f"checkpoint of iteration {iteration}; `cdnc train` with the same settings "
                "repairs it"
            )
        return dataclasses.replace(status, iteration=iteration, skipped_updates=skipped)

    def _newest_values(self) -> dict[str, Any] | None:
        """What the newest checkpoint says, which is this run's; None when there is none at all."""
        about = newest_values(self.folder)
        computed_by = {"backend": self.backend, "threads": self.threads}
        if about and (fields := different_fields(self.config, computed_by, about)):
            problem = f"the newest checkpoint of {self.folder} belongs to another config"
            raise RunError(f"{problem}; different: {', '.join(fields)}")
        return about

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl; damaged ones and a torn last one are left out."""
        path = self.folder / METRICS
        about = self._newest_values() or {}
        content = read_file(path)
        covered, checksum = about.get("metrics_bytes", 0), about.get("metrics_checksum")
        warn_of_damage(path, content, covered, checksum, logger.warning)
        return parse_lines(content)[0]

    @property
    def model(self) -> DNC:
        """The model with the selected parameters."""
        return self.selected().model

    @property
    def default_rule(self) -> SelectionRule:
        """The paper's rule; for a pretrained model, the one that all of them come with."""
        return zoo.RULE if self.is_pretrained else PAPER_RULE

    @property
    def is_pretrained(self) -> bool:
        """Whether it is a model of the zoo, which is only ever read."""
        return self.folder.is_relative_to(zoo.MODELS)

    @property
    def products(self) -> Path:
        """Where tables and pictures made from the run go: here, if it is a pretrained model."""
        if not self.is_pretrained:
            return self.folder
        return Path("runs", f"zoo-{self.task.name}-{self.config.approach.name}")

    def selected(self, rule: SelectionRule | None = None) -> Selected:
        """The parameters that a rule selected; training/selection.py says how."""
        path, tensors, about = self.read_selected(rule)
        try:
            model = load_model(self.config, tensors, "parameters")
        except RunError as error:
            raise RunError(f"{path} has the parameters of another model: {error}") from error
        return Selected(model, about["iteration"], about["running_mean"], about["selection"])

    def read_selected(
        self, rule: SelectionRule | None = None
    ) -> tuple[Path, Tensors, dict[str, Any]]:
        """The file of selected parameters, which is this run's and that rule's, and its content."""
        rule = self.default_rule if rule is None else rule
        if rule not in RULES:
            raise SettingError("selection", rule, one_of(RULES))
        path = self.folder / SELECTED[rule]
        if self.is_pretrained and not path.exists():
            there = [name for name in RULES if (self.folder / SELECTED[name]).exists()]
            accepted = f"{' or '.join(there)}: no others come with this pretrained model"
            raise SettingError("selection", rule, accepted)
        if not path.exists():
            raise RunError(f"{self.folder} has no selected parameters yet")
        tensors, about = read_tensors(path)
        require_fields(path, about, _ABOUT_SELECTED)
        if about["selection"] != rule:
            selection = about["selection"]
            raise RunError(f"{path} has the parameters of another rule: {selection!r}")
        require_own(path, about, self.config.run_id)
        return path, tensors, about


def require_own(path: Path, about: Mapping[str, Any], run_id: str) -> None:
    """Refuse a file that says that it is another run's; earlier versions do not say."""
    if about.get("run_id", run_id) != run_id:
        raise RunError(f"{path} is of another run: {about['run_id']!r:.60}, not {run_id}")


def read_status(folder: Path, run_id: str | None = None) -> Status:
    """The status as it was written; a key, type or value that does not fit is refused.

    With a run id, so is the status of another run.
    """
    path = folder / STATUS
    values = read_json(path)
    if run_id is not None:
        require_own(path, values, run_id)
    values.pop("run_id", None)
    unknown = {name: _never for name in values if name not in _FITS}
    require_fields(path, values, {**unknown, **_FITS})
    return Status(**values)


def _never(value: Any) -> bool:
    return False


def _is_finite(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


def _by_rule(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def all_fit(value: Any) -> bool:
        if not isinstance(value, dict) or not value.keys() <= set(RULES):
            return False
        return all(entry is None or fits(entry) for entry in value.values())

    return all_fit


_FITS: Fields = {  # which values a field of a status can have
    "state": lambda value: value in get_args(State),
    "reason": lambda value: isinstance(value, str),
    "iteration": is_count,
    "iterations": is_count,
    "skipped_updates": is_count,
    "best_iteration": _by_rule(is_count),
    "running_mean": _by_rule(_is_finite),
    "seconds": _is_finite,
    "updated": lambda value: isinstance(value, str),
}


_ABOUT_SELECTED: Fields = {
    "iteration": is_count,
    "running_mean": lambda value: value is None or _is_finite(value),
    "selection": lambda value: isinstance(value, str),
}


def load_run(folder: str | Path, *, trust_code: bool = False) -> Run:
    """Open a run directory, or a pretrained model by its name, zoo:TASK/APPROACH.

    A run with a task or controller of your own names a file that would be executed: that needs
    `trust_code`.
    """
    run = open_run(folder)
    if run.config.user_code and not trust_code:
        raise RunError(
            f"{run.folder / CONFIG} names code, {' and '.join(run.config.user_code)}: it is run "
            "only if you trust it and say so, with --trust-code or load_run(..., trust_code=True)"
        )
    for sentence in changed_sources(run):
        logger.warning(sentence)
    return run


def open_run(folder: str | Path) -> Run:
    """The same for callers who were given the run's config, and so may run the code it names."""
    require_path("run", folder)
    folder = zoo.find(folder).folder if zoo.is_name(folder) else Path(folder)
    try:
        is_run = (folder / CONFIG).is_file()
    except OSError:  # too long for a name
        is_run = False
    if not is_run:
        raise SettingError("run", str(folder), f"a run directory, with a {CONFIG}")
    path = folder / CONFIG
    stored = read_json(path)
    try:
        run = Run(folder, Config.from_dict(stored["config"]), stored["backend"], stored["threads"])
        require_integer("threads", run.threads, 1, MAX_THREADS)
    except KeyError as error:
        raise RunError(f"{path} cannot be read: {error} is missing") from error
    except (SettingError, RecursionError) as error:
        raise RunError(f"{path} cannot be read: {error}") from error
    known = {"versions", "platform", "sources"} & stored.keys()
    require_fields(path, stored, dict.fromkeys(known, _is_mapping))
    _refuse_changed_config(run, stored)
    return run


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


def changed_sources(run: Run) -> list[str]:
    """One sentence for every file of your own that is not what it was when the run began."""
    if not run.config.user_code:
        return []
    then = read_json(run.folder / CONFIG).get("sources", {})
    now = fingerprints("run", run.config.user_code)
    changed = [path for path, digest in now.items() if then.get(path, digest) != digest]
    return [
        f"{path} changed since {run.folder} began: scores may not mean the same" for path in changed
    ]


def _refuse_changed_config(run: Run, stored: dict[str, Any]) -> None:
    """A run is what it was when it began; a checkpoint knows in which field it no longer is."""
    checksum = stored.get("checksum", checksum_of(stored))  # absent in files of earlier versions
    if stored.get("run_id") == run.config.run_id and checksum == checksum_of(stored):
        return
    reason = "its checksum does not match"
    with suppress(RunError):
        about = newest_values(run.folder) or {"config": as_dict(run.config)}
        computed_by = {"backend": run.backend, "threads": run.threads}
        if fields := different_fields(run.config, computed_by, about):
            reason = f"{', '.join(fields)} (there and in the checkpoint)"
    raise RunError(f"{run.folder / CONFIG} was changed after the run began: {reason}")


def load_pretrained(
    task: str, approach: str, selection: SelectionRule | None = None
) -> tuple[DNC, AbstractTask]:
    """A model of the zoo and the task it was trained on; `cdnc zoo` lists them.

    All come with the parameters of the rule `score`, some also with those of another that reach
    further.
    """
    run = load_run(f"{zoo.PREFIX}{task}/{approach}")
    return run.selected(selection).model, run.task


def initial_model(config: Config) -> DNC:
    """The model before training, in single precision whatever JAX's default is."""
    task = get_task(config.task)
    check_memory_for_parameters(config, task)
    with jax.enable_x64(False):
        return build_dnc(config.approach, task, config.model, key=jax.random.key(config.seed))


def backend_for(
    config: Config, model: DNC, choice: str = "auto", threads: int | None = None
) -> AbstractBackend:
    """The backend for a model of a config; `choose_backend` says more."""
    return choose_backend(choice, model, get_task(config.task).loss, threads=threads)


def load_model(config: Config, tensors: Any, prefix: str) -> DNC:
    """The model of a config with stored parameters."""
    parameters, rest = eqx.partition(initial_model(config), eqx.is_inexact_array)
    return eqx.combine(fill_leaves(parameters, tensors, prefix), rest)


def write_config(folder: Path, config: Config, backend: str, threads: int) -> None:
    """Say what the run is made from: no times, so that equal runs have equal files."""
    stored = {
        "run_id": config.run_id,
        "config": as_dict(config),
        "backend": backend,
        "threads": threads,
        **environment(),
    }
    if config.user_code:
        stored["sources"] = fingerprints("task", config.user_code)
    write_json(folder / CONFIG, {**stored, "checksum": checksum_of(stored)})


def replace_config(folder: Path, config: Config) -> None:
    """Change what the run is made from, but not the environment in which it began."""
    changed = {"run_id": config.run_id, "config": as_dict(config)}
    stored = read_json(folder / CONFIG) | changed
    write_json(folder / CONFIG, {**stored, "checksum": checksum_of(stored)})


def environment() -> dict[str, Any]:
    """What else the last bits of a result depend on."""
    return {
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in PACKAGES},
        },
        "platform": {
            "system": platform.platform(),
            "machine": platform.machine(),
            "device": jax.default_backend(),
            "simd": next(iter(fused.simd_levels()), None),
        },
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # used from its sources
        return None


def write_selected(
    folder: Path,
    run_id: str,
    rule: SelectionRule,
    parameters: Any,
    iteration: int | None,
    mean: float | None,
) -> None:
    """Store selected parameters, readable during training."""
    about = {"run_id": run_id, "iteration": iteration, "running_mean": mean, "selection": rule}
    write_tensors(folder / SELECTED[rule], name_leaves(parameters, "parameters"), about)
