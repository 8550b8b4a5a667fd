"""The model of a config: with new parameters, with stored ones, or with those it starts from."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax

from constrained_dnc.config import Config, SelectionRule, Start
from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.files import Tensors, checksum, read_tensors, write_tensors
from constrained_dnc.model.backend import AbstractBackend, choose_backend
from constrained_dnc.model.build import build_dnc
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.leaves import fill_leaves, name_leaves
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.folder import START

if TYPE_CHECKING:
    from constrained_dnc.training.run import Run


def initial_model(config: Config) -> DNC:
    """The model before training, in single precision whatever JAX's default is."""
    task = get_task(config.task)
    with jax.enable_x64(False):
        return build_dnc(config.approach, task, config.model, key=jax.random.key(config.seed))


def backend_for(
    config: Config, model: DNC, choice: str = "auto", threads: int | None = None
) -> AbstractBackend:
    """The backend for a model of this config, see `choose_backend`."""
    return choose_backend(choice, model, get_task(config.task).loss, threads=threads)


def load_model(config: Config, tensors: Tensors, path: Path) -> DNC:
    """The model of a config with the parameters of a file."""
    parameters, static = eqx.partition(initial_model(config), eqx.is_inexact_array)
    try:
        return eqx.combine(fill_leaves(parameters, tensors, "parameters"), static)
    except RunError as error:
        raise RunError(f"{path} holds the parameters of another model: {error}") from error


def start_of(run: Run, rule: SelectionRule | None = None) -> tuple[DNC, Start]:
    """The model of a run, and the record of starting from it."""
    selected = run.selected(rule)
    digest = _digest(_tensors_of(selected.model))
    return selected.model, Start(digest, run.config.run_id, selected.rule)


def with_start(config: Config, model: DNC) -> Config:
    """The config, with the model that training starts from; refused if it does not fit."""
    tensors = _tensors_of(model)
    _fill(eqx.filter(initial_model(config), eqx.is_inexact_array), tensors)
    start = Start(_digest(tensors))
    if config.start is None:
        return dataclasses.replace(config, start=start)
    if config.start.digest != start.digest:
        raise SettingError("config.start records parameters that are not those of the model")
    return config


def write_start(folder: Path, model: DNC) -> None:
    """Store the parameters, so that a resume does not need their origin."""
    write_tensors(folder / START, _tensors_of(model), {})


def initial_parameters(folder: Path, config: Config, parameters: Any) -> Any:
    """The parameters of the first iteration: new ones, or those that the run starts from."""
    if config.start is None:
        return parameters
    if not (folder / START).exists():
        raise SettingError("the config starts from another model; pass it as start=model")
    tensors, _ = read_tensors(folder / START)
    if _digest(tensors) != config.start.digest:
        raise RunError(f"{folder / START} holds other parameters than the run started from")
    return _fill(parameters, tensors)


def _tensors_of(model: DNC) -> Tensors:
    return name_leaves(eqx.filter(model, eqx.is_inexact_array), "parameters")


def _digest(tensors: Tensors) -> str:
    return checksum(tensors, {})[:16]


def _fill(parameters: Any, tensors: Tensors) -> Any:
    try:
        return fill_leaves(parameters, tensors, "parameters")
    except RunError as error:
        raise SettingError(f"the model to start from does not fit the config: {error}") from error
