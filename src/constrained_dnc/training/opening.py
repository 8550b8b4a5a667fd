"""Before the first iteration: can this folder be trained in, can its run be resumed?"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from constrained_dnc.choices import BACKEND_CHOICES, BackendChoice
from constrained_dnc.config import Config
from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.files import locked, make_folder, read_json, reason_of
from constrained_dnc.model.backend import AbstractBackend, FusedBackend, PureBackend
from constrained_dnc.model.dnc import DNC
from constrained_dnc.training.disk import CHECKPOINTS, CONFIG, LOCK, SELECTED, START, STATUS
from constrained_dnc.training.observer import Observer
from constrained_dnc.training.run import (
    ENDED,
    Run,
    backend_for,
    changed_sources,
    environment,
    open_run,
    read_status,
    replace_config,
)


def prepare_folder(folder: Path) -> None:
    """Make the folder of a run; a folder with other files in it is refused."""
    make_folder(folder, "run_dir")
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise RunError(f"{folder} cannot be read: {reason_of(error)}") from error
    others = [name for name in names if name not in (LOCK, START) and name[0] != "."]
    if others and not (folder / CONFIG).exists():
        raise SettingError(f"{folder} is neither empty nor a run directory with a {CONFIG}")


def move_aside(folder: Path, observer: Observer) -> None:
    """Rename the folder of a run unless it is in use: nothing trained is deleted."""
    if not (folder / CONFIG).exists():
        return
    with locked(folder / LOCK):
        aside = _free_name(folder)
        try:
            folder.resolve().rename(aside)
        except OSError as error:
            raise RunError(f"{folder} cannot be moved: {reason_of(error)}") from error
    observer.say(f"the run in {folder} was moved to {aside}")


def _free_name(folder: Path) -> Path:
    path, number = folder.resolve(), 1
    while (aside := path.with_name(f"{path.name}.old-{number}")).exists():
        number += 1
    return aside


def refuse_overwriting(folder: Path) -> None:
    """Refuse to train over a model that has no checkpoint to resume from."""
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


def has_ended_without_checkpoint(folder: Path, config: Config) -> bool:
    """Whether the folder holds this very run, ended, with its checkpoints deleted."""
    if not (folder / CONFIG).exists() or any((folder / name).exists() for name in CHECKPOINTS):
        return False
    stored = open_run(folder)
    is_long_enough = config.training.iterations <= stored.config.training.iterations
    is_the_same = is_long_enough and config.identity == stored.config.identity
    with suppress(RunError):
        return is_the_same and bool(stored.rules) and stored.status.state in ENDED
    return False


def refuse_changes(
    stored: Run, config: Config, backend: BackendChoice | AbstractBackend, threads: int | None
) -> None:
    """Refuse to resume with any other setting on which the parameters depend.

    More iterations are fine: the result is that of a run with as many from the start.
    """
    folder = stored.folder
    present, wanted = stored.config.identity, config.identity
    if config.training.iterations < stored.config.training.iterations:
        present["training.iterations"] = stored.config.training.iterations
        wanted["training.iterations"] = config.training.iterations
    if different := differences(present, wanted):
        raise SettingError(f"{folder} holds a run with another config: {different}")
    accepted = {stored.backend, *(["auto"] if stored.backend in BACKEND_CHOICES else [])}
    if backend_name(backend) not in accepted:
        raise SettingError(
            f"{folder} began with the backend {stored.backend} and can be resumed only with it"
        )
    if threads not in (None, stored.threads):
        raise SettingError(
            f"{folder} began with {stored.threads} threads and can be resumed only with as many"
        )
    if changed := changed_sources(stored):
        raise RunError(
            f"{changed[0]} changed since {folder} began, so the run cannot be resumed; restore the "
            "file, train in another folder, or use --restart (restart=True)"
        )


def differences(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """The fields in which two configs, as JSON values, differ.

    >>> differences({"seed": 0, "model": {"hidden_size": 8}}, {"seed": 3, "model": {}})
    'seed is 0, not 3, model.hidden_size is 8, not None'
    """
    ours, theirs = (dict(_flattened(values, "")) for values in (stored, wanted))
    return ", ".join(
        f"{name} is {ours.get(name)!r}, not {theirs.get(name)!r}"
        for name in {**ours, **theirs}
        if ours.get(name) != theirs.get(name)
    )


def _flattened(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def backend_name(backend: BackendChoice | AbstractBackend) -> str:
    """The name of a built-in backend, the qualified class name of a user-defined one."""
    if isinstance(backend, str):
        return backend
    if type(backend) in (FusedBackend, PureBackend):
        return backend.name
    return f"{type(backend).__module__}.{type(backend).__qualname__}"


def choose_training_backend(
    backend: BackendChoice | AbstractBackend,
    stored: Run | None,
    config: Config,
    model: DNC,
    threads: int,
) -> AbstractBackend:
    """The backend passed by the caller, or the one the run began with."""
    if not isinstance(backend, str):
        return backend
    chosen = backend_for(config, model, stored.backend if stored else backend, threads)
    if stored:
        chosen.reason = "as the run began"
    return chosen


def update_config(stored: Run, config: Config, observer: Observer, *, has_ended: bool) -> Config:
    """Store the settings that may change on resume; a run that has ended keeps its iterations."""
    before, now = (each.training.iterations for each in (stored.config, config))
    if has_ended:
        training = dataclasses.replace(config.training, iterations=before)
        config = dataclasses.replace(config, training=training)
    elif now > before:
        observer.say(f"extended from {before} to {now} iterations")
    if config != stored.config:
        replace_config(stored.folder, config)
    return config


def warn_of_environment(run: Run, observer: Observer) -> None:
    """Warn of other library versions or another machine than at the start of the run."""
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
    """The training time in the status file; everything else comes from the checkpoint."""
    if not (folder / STATUS).exists():
        return 0.0
    try:
        return float(read_status(folder).seconds)
    except (RunError, TypeError, ValueError) as error:
        observer.warn(f"{error}; it is rewritten, and the time spent so far is lost")
        return 0.0
