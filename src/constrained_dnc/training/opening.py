"""Whether a folder can be trained in, and whether what it holds can be resumed."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from constrained_dnc.choices import BackendChoice
from constrained_dnc.config import Config, differences
from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.files import locked, make_folder, read_json, reason_of
from constrained_dnc.model.backend import AbstractBackend, FusedBackend, PureBackend
from constrained_dnc.model.dnc import DNC
from constrained_dnc.training.disk import CONFIG, LOCK, SELECTED, STATUS
from constrained_dnc.training.observer import Observer
from constrained_dnc.training.run import (
    Run,
    backend_for,
    changed_sources,
    environment,
    read_status,
    replace_config,
)


def prepare_folder(folder: Path) -> None:
    """Make the folder of a run; never write among files that are not a run's."""
    make_folder(folder, "run_dir")
    try:
        names = os.listdir(folder)
    except OSError as error:
        accepted = f"a folder that can be read ({reason_of(error)})"
        raise SettingError("run_dir", str(folder), accepted) from error
    others = [name for name in names if name != LOCK and name[0] != "."]
    if others and not (folder / CONFIG).exists():
        raise SettingError(
            "run_dir", str(folder), f"a new or empty folder, or a run's with a {CONFIG}"
        )


def move_aside(folder: Path, observer: Observer) -> None:
    """Give the folder of a run that nobody trains another name: nothing trained is deleted."""
    if not (folder / CONFIG).exists():
        return
    with locked(folder / LOCK):
        aside = _free_name(folder)
        try:
            folder.resolve().rename(aside)
        except OSError as error:
            raise RunError(f"{folder} cannot be moved: {reason_of(error)}") from error
    observer.say(f"{folder} held a run, which is now in {aside}")


def _free_name(folder: Path) -> Path:
    path, number = folder.resolve(), 1
    while (aside := path.with_name(f"{path.name}.old-{number}")).exists():
        number += 1
    return aside


def refuse_overwriting(folder: Path) -> None:
    """A trained model without a checkpoint cannot be resumed, and is not to be replaced."""
    try:
        status = read_status(folder)
        is_trained = status.iteration > 0 and status.state != "failed"
    except RunError:
        is_trained = False
    if is_trained or any((folder / name).exists() for name in SELECTED.values()):
        raise RunError(
            f"{folder} holds a trained model but no checkpoint to resume from; train in another "
            f"folder, or start over with --restart (restart=True), which moves it to "
            f"{_free_name(folder).name}"
        )


def refuse_changes(
    stored: Run, config: Config, backend: BackendChoice | AbstractBackend, threads: int | None
) -> None:
    """A run resumes with all that its parameters depend on as it was, or not at all.

    It may become longer: that is the run it would have been with as many iterations at once.
    """
    folder = stored.folder
    present, wanted = stored.config.identity, config.identity
    if config.training.iterations < stored.config.training.iterations:
        present["training.iterations"] = stored.config.training.iterations
        wanted["training.iterations"] = config.training.iterations
    if different := differences(present, wanted):
        raise SettingError(f"{folder} holds a run with another config: {different}")
    name = backend if isinstance(backend, str) else backend.name
    if class_name(backend) != stored.backend_class:
        began = stored.backend_class or stored.backend
        raise SettingError(f"{folder} began with the backend {began}, and resumes only with it")
    if name not in ("auto", stored.backend):
        raise SettingError("backend", name, f"{stored.backend}, with which {folder} began")
    if threads not in (None, stored.threads):
        raise SettingError("threads", threads, f"{stored.threads}, with which {folder} began")
    if changed := changed_sources(stored):
        raise RunError(
            f"{changed[0]} changed since {folder} began, so that its parameters would not be "
            "those of one program; restore the file, train in another folder, or use --restart "
            "(restart=True)"
        )


def class_name(backend: BackendChoice | AbstractBackend) -> str | None:
    """The qualified name of a user-defined backend's class; None for a built-in backend."""
    if isinstance(backend, str) or type(backend) in (FusedBackend, PureBackend):
        return None
    return f"{type(backend).__module__}.{type(backend).__qualname__}"


def choose_training_backend(
    backend: BackendChoice | AbstractBackend,
    stored: Run | None,
    config: Config,
    model: DNC,
    threads: int,
) -> AbstractBackend:
    """The backend that is passed or named, or that the run began with."""
    if not isinstance(backend, str):
        return backend
    if stored is None:
        return backend_for(config, model, backend, threads)
    chosen = backend_for(config, model, stored.backend, threads)
    chosen.reason = "as the run began"
    return chosen


def update_config(stored: Run, config: Config, observer: Observer, *, has_ended: bool) -> Config:
    """Store settings that may change on resume; a run that has ended does not become longer."""
    before, now = (each.training.iterations for each in (stored.config, config))
    if has_ended:
        training = dataclasses.replace(config.training, iterations=before)
        config = dataclasses.replace(config, training=training)
    elif now > before:
        observer.say(f"longer than before: {before} iterations, now {now}")
    if config != stored.config:
        replace_config(stored.folder, config)
    return config


def warn_of_environment(run: Run, observer: Observer) -> None:
    """Warn of libraries and machines that are not those with which the run began."""
    stored = read_json(run.folder / CONFIG)
    for kind, now in environment().items():
        then = stored.get(kind, {})
        changed = [
            f"{name} ({then.get(name)}, now {value})"
            for name, value in now.items()
            if then.get(name) != value
        ]
        if changed:
            observer.warn(
                f"{kind} changed since the run began; bits may differ: {', '.join(changed)}"
            )


def seconds_before(folder: Path, observer: Observer) -> float:
    """The time spent so far; everything else in the status comes from the checkpoint."""
    if not (folder / STATUS).exists():
        return 0.0
    try:
        return float(read_status(folder).seconds)
    except (RunError, TypeError, ValueError) as error:
        observer.warn(f"{error}; it is written again, and the time spent so far is lost")
        return 0.0
