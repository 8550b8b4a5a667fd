"""Whether a run fits into the memory of this machine, before XLA or the system ends the process."""

from __future__ import annotations

import math
import os

import equinox as eqx
import jax

from constrained_dnc.config import Config
from constrained_dnc.errors import SettingError
from constrained_dnc.model.build import build_dnc
from constrained_dnc.tasks.task import AbstractTask

SURELY_FITS = 10**7
"""Weights of a layer; the parameters of larger models are counted before they are made."""
COPIES = 4
"""Of the parameters while training: themselves, their gradient and Adam's two means of it."""


def check_memory_for_parameters(config: Config, task: AbstractTask) -> None:
    """Refuse a model that cannot be trained here."""
    size = config.model
    if size.hidden_size * (size.hidden_size + size.num_reads * size.word_size) <= SURELY_FITS:
        return
    try:
        model = eqx.filter_eval_shape(
            build_dnc, config.approach, task, config.model, key=jax.random.key(0)
        )
        shapes = [leaf.shape for leaf in jax.tree.leaves(model) if hasattr(leaf, "shape")]
        floats: int | float = COPIES * sum(map(math.prod, shapes))
    except OverflowError:  # more than can be counted
        floats = math.inf
    _require(config, floats, "model.hidden_size", "model.word_size", "model.num_reads")


def check_memory_for_batches(config: Config, task: AbstractTask) -> None:
    """Refuse batches of which even the least that must be kept does not fit.

    That is, for the gradient, memory and controller after every step; in evaluation, the memory
    and its link.
    """
    model, training = config.model, config.training
    steps = task.num_steps(max(training.max_length, training.unseen_length))
    state = model.memory_size * model.word_size + model.hidden_size
    link = model.memory_size * (model.memory_size + model.word_size)
    sizes = ("model.memory_size", "model.word_size", "model.hidden_size")
    _require(config, training.batch_size * steps * state, "training.batch_size", *sizes)
    _require(config, config.evaluation.batch_size * link, "evaluation.batch_size", *sizes[:2])


def _require(config: Config, floats: int | float, *settings: str) -> None:
    """Refuse more than there is, by the setting that is most times its default."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if 4 * floats <= memory:
        return
    default = Config(config.task, config.approach)
    largest = max(settings, key=lambda name: _value(config, name) / _value(default, name))
    accepted = f"a size that can be trained with the {memory / 1e9:.0f} GB of this machine"
    raise SettingError(largest, _value(config, largest), accepted)


def _value(config: Config, setting: str) -> int:
    part, _, name = setting.partition(".")
    value: int = getattr(getattr(config, part), name)
    return value
