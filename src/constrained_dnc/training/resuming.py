"""Before the first iteration: is a run new, resumed or refused, and with which parameters?"""

from __future__ import annotations

import dataclasses
import itertools
import os
from contextlib import suppress
from pathlib import Path

from constrained_dnc import zoo
from constrained_dnc.config import Config, describe_differences, differences
from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.files import (
    failure_named,
    locked,
    make_folder,
    read_json,
)
from constrained_dnc.model.backend import AbstractBackend, FusedBackend, PureBackend
from constrained_dnc.model.config import BACKEND_CHOICES, BackendChoice
from constrained_dnc.parts import depends_on_iterations
from constrained_dnc.training.folder import CHECKPOINTS, CONFIG, ENDED, LOCK, START, read_status
from constrained_dnc.training.loggers import Observer
from constrained_dnc.training.run import Run, changed_sources, environment, open_run, replace_config


def prepare_folder(folder: Path) -> None:
    """Make the folder of a run; a folder with other files in it is refused."""
    if zoo.is_name(folder) or folder.resolve().is_relative_to(zoo.MODELS.resolve()):
        accepted = "a folder, not a pretrained model; --from (start=model) starts from one"
        raise SettingError("run_dir", str(folder), accepted)
    make_folder(folder, "run_dir")
    with failure_named(folder, "read"):
        names = os.listdir(folder)
    others = [name for name in names if name not in (LOCK, START) and name[0] != "."]
    if others and not (folder / CONFIG).exists():
        raise SettingError(f"{folder} is neither empty nor a run directory with a {CONFIG}")


def move_aside(folder: Path, observer: Observer) -> None:
    """Rename the folder of a run unless it is in use: nothing trained is deleted."""
    if (folder / CONFIG).exists():
        aside = _free_name(folder)
        with locked(folder / LOCK), failure_named(folder, "moved"):
            folder.resolve().rename(aside)
        observer.say(f"the run in {folder} was moved to {aside}")


def _free_name(folder: Path) -> Path:
    path = folder.resolve()
    names = (path.with_name(f"{path.name}.old-{number}") for number in itertools.count(1))
    return next(name for name in names if not name.exists())


def has_ended_without_checkpoint(folder: Path, config: Config) -> bool:
    """Whether the folder holds this run, ended, with its checkpoints deleted."""
    if not (folder / CONFIG).exists() or any((folder / name).exists() for name in CHECKPOINTS):
        return False
    stored = open_run(folder)
    with suppress(RunError):
        status = stored.status
        has_ended = status.state == "diverged" or (
            status.state in ENDED and status.iteration >= config.training.iterations
        )
        return has_ended and bool(stored.rules) and config.run_id == stored.config.run_id
    return False


def stored_run(folder: Path) -> Run | None:
    """The run to resume in a folder; one that failed in its first iteration is started over."""
    if not (folder / CONFIG).exists():
        return None
    has_checkpoint = any((folder / name).exists() for name in CHECKPOINTS)
    with suppress(RunError):  # absent or corrupt: it is rewritten
        status = read_status(folder)
        if status.state == "failed" and status.iteration == 0 and not has_checkpoint:
            return None
    return open_run(folder)


def refuse_overwriting(run: Run) -> None:
    """Refuse to train over a model that has no checkpoint to resume from."""
    is_trained = bool(run.rules)
    with suppress(RunError):  # the metrics of deleted parameters are worth keeping
        status = read_status(run.folder)
        is_trained |= status.iteration > 0 and status.state != "failed"
    if is_trained:
        raise RunError(
            f"{run.folder} holds a trained model but no checkpoint to resume from; train in "
            "another folder, or start over with --restart (restart=True), which moves it to "
            f"{_free_name(run.folder).name}"
        )


def refuse_changes(
    stored: Run, config: Config, backend: BackendChoice | AbstractBackend, threads: int | None
) -> None:
    """Refuse to resume a run if a setting that its parameters depend on has changed.

    More iterations are fine: the result is as if the run had begun with them.
    """
    folder = stored.folder
    if different := differences(stored.config, config):
        if depends_on_iterations(config.training.schedule) and "training.iterations" in different:
            different += f"; the schedule {config.training.schedule} is spread over all iterations"
        raise SettingError(f"{folder} holds a run with another config: {different}")
    if stored.is_planned:
        return
    accepted = {stored.backend, *(["auto"] if stored.backend in BACKEND_CHOICES else [])}
    if backend_name(backend) not in accepted:
        raise SettingError(
            f"{folder} began with the backend {stored.backend} and can be resumed only with it"
        )
    if threads not in (None, stored.threads):
        raise SettingError(
            f"{folder} began with {stored.threads} threads and can be resumed only with that many"
        )
    if changed := changed_sources(stored):
        raise RunError(
            f"{changed[0]} changed since {folder} began, so the run cannot be resumed; restore the "
            "file (new classes belong in a new one), train in another folder, or use --restart "
            "(restart=True)"
        )


def backend_name(backend: BackendChoice | AbstractBackend) -> str:
    """The name of a built-in backend, the qualified class name of a user-defined one."""
    if isinstance(backend, str):
        return backend
    if type(backend) in (FusedBackend, PureBackend):
        return backend.name
    return f"{type(backend).__module__}.{type(backend).__qualname__}"


def update_config(stored: Run, config: Config, observer: Observer, *, has_ended: bool) -> Config:
    """Store the settings that may change on resume; a run that has ended keeps its iterations."""
    before, now = (settings.training.iterations for settings in (stored.config, config))
    if has_ended:
        training = dataclasses.replace(config.training, iterations=before)
        config = dataclasses.replace(config, training=training)
    elif now > before:
        observer.say(f"extended from {before} to {now} iterations")
    if config != stored.config:
        replace_config(stored.folder, config)
    return config


def warn_of_environment(run: Run, observer: Observer) -> None:
    """Warn if library versions or the machine have changed since the run began."""
    stored, now = read_json(run.folder / CONFIG), environment()
    if changed := describe_differences({kind: stored.get(kind) for kind in now}, now):
        what = "versions or machine changed since the run began"
        observer.warn(f"{what}, so its last bits may differ: {changed}")
