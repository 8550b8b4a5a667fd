"""The model of a config: with new parameters, stored ones, or those that training starts from."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import equinox as eqx
import jax

from constrained_dnc.config import Config, SelectionRule, Start
from constrained_dnc.errors import RunError, SettingError, first_line
from constrained_dnc.files import Tensors, checksum, read_tensors, write_tensors
from constrained_dnc.model.backend import AbstractBackend, choose_backend
from constrained_dnc.model.build import build_dnc
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.leaves import fill_leaves, name_leaves, with_fields
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.batches import random_key
from constrained_dnc.training.folder import START

if TYPE_CHECKING:
    from constrained_dnc.training.run import Run


Model = TypeVar("Model")


def parameters_of(model: Model) -> Model:
    """The model without what is not trained: only its real-valued arrays."""
    return eqx.filter(model, eqx.is_inexact_array)


def with_parameters(model: Model, tensors: Tensors, prefix: str = "parameters") -> Model:
    """The model with other parameters, as `name_leaves` stored them under `prefix`."""
    return eqx.combine(fill_leaves(parameters_of(model), tensors, prefix), model)


def initial_model(config: Config) -> DNC:
    """The model before training, in single precision whatever JAX's default is."""
    task, training = get_task(config.task), config.training
    try:
        with jax.enable_x64(False):
            model = build_dnc(config.approach, task, config.model, key=random_key(config.seed))
        return with_fields(model, training_lengths=(training.min_length, training.max_length))
    except (NotImplementedError, OverflowError) as error:  # JAX draws at most 2**64 bits at once
        raise SettingError(f"model is too large ({first_line(error)})") from error


def backend_for(
    config: Config, model: DNC, choice: str = "auto", threads: int | None = None
) -> AbstractBackend:
    """The backend for a model of this config, see `choose_backend`."""
    task = get_task(config.task)
    longest = len(task.sample(0, 1, config.training.max_length).inputs)
    return choose_backend(choice, model, task.loss, threads=threads, longest=longest)


def load_model(config: Config, tensors: Tensors, path: Path) -> DNC:
    """The model of a config with the parameters of a file."""
    try:
        return with_parameters(initial_model(config), tensors)
    except RunError as error:
        raise RunError(f"{path} holds the parameters of another model: {error}") from error


def start_of(run: Run, rule: SelectionRule | None = None) -> tuple[DNC, Start]:
    """The model of a run, and the record of starting from it."""
    selected = run.selected(rule)
    digest = _digest(_tensors_of(selected.model))
    return selected.model, Start(digest, run.config.run_id, selected.rule)


def with_start(config: Config, model: DNC) -> Config:
    """The config, with the record of the model that training starts from."""
    start = Start(_digest(_tensors_of(model)))
    if config.start is None:
        return dataclasses.replace(config, start=start)
    if config.start.digest != start.digest:
        raise SettingError("config.start records parameters that are not those of the model")
    return config


def write_start(folder: Path, model: DNC) -> None:
    """Store the parameters, so that a resume does not need their origin."""
    write_tensors(folder / START, _tensors_of(model), {})


def load_start(folder: Path, config: Config, model: DNC) -> DNC:
    """The model with the parameters that the run starts from, if they are those of another one."""
    if config.start is None:
        return model
    if not (folder / START).exists():
        raise SettingError("the config starts from another model; pass it as start=model")
    tensors, _ = read_tensors(folder / START)
    if _digest(tensors) != config.start.digest:
        raise RunError(f"{folder / START} holds other parameters than the run started from")
    return _fitted(model, tensors)


def start_with(model: DNC, start: DNC) -> DNC:
    """The model with the parameters of another one, which must fit."""
    return _fitted(model, _tensors_of(start))


def _fitted(model: DNC, tensors: Tensors) -> DNC:
    try:
        return with_parameters(model, tensors)
    except RunError as error:
        raise SettingError(f"the model to start from does not fit the config: {error}") from error


def _tensors_of(model: DNC) -> Tensors:
    return name_leaves(parameters_of(model), "parameters")


def _digest(tensors: Tensors) -> str:
    return checksum(tensors, {})[:16]
