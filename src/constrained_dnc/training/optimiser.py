"""The update of the parameters: optimiser, schedule of its learning rate, and a guard.

The guard keeps non-finite values out of the parameters and the optimiser's state.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from constrained_dnc.config import TrainingConfig
from constrained_dnc.errors import (
    SettingError,
    first_line,
    one_of,
    require_integer,
    require_number,
)
from constrained_dnc.parts import PARTS, SCHEDULE, find_part, parse_part, refuse_text
from constrained_dnc.plugins import is_import_path, load_function

OPTIMISER = "training.optimiser"
FIELDS = {"beta_1": "b1", "beta_2": "b2", "epsilon": "eps", "weight_decay": "weight_decay"}
"""Settings of the config, and their names in optax."""

Rate: TypeAlias = float | Callable[[Any], Any]
"""A learning rate, or a function of the number of updates so far, skipped ones not counted."""
Update: TypeAlias = Callable[[Any, Any, Any, Any], tuple[Any, Any, Any, Any]]


@lru_cache(maxsize=8)
def guarded_update(optimiser: optax.GradientTransformation) -> Update:
    """A function of model, optimiser state, gradient and loss that updates the parameters.

    It returns the new model, the new optimiser state, the norm of the gradient, and whether all of
    them are finite; if not, model and state are the old ones. Buffers are not donated: the selected
    model may be the current one, and the backend may hold views of it.
    """

    @jax.jit
    def update(parameters: Any, state: Any, gradient: Any, loss: Any) -> Any:
        norm = optax.tree.norm(gradient)
        changes, new_state = optimiser.update(gradient, state, parameters)
        updated = optax.apply_updates(parameters, changes), new_state
        # a finite gradient is not enough: the step itself, or its square, can overflow
        is_finite = jnp.isfinite(norm) & jnp.isfinite(loss)
        for leaf in jax.tree.leaves(updated):
            if jnp.issubdtype(leaf.dtype, jnp.inexact):
                is_finite &= jnp.isfinite(leaf).all()
        kept = jax.tree.map(
            lambda new, old: jnp.where(is_finite, new, old), updated, (parameters, state)
        )
        return *kept, norm, is_finite

    def update_model(model: Any, state: Any, gradient: Any, loss: Any) -> Any:
        parameters, rest = eqx.partition(model, eqx.is_inexact_array)
        parameters, *others = update(parameters, state, gradient, loss)
        return eqx.combine(parameters, rest), *others

    return update_model


def make_optimiser(config: TrainingConfig) -> optax.GradientTransformation:
    """Clipping by the global norm, then the optimiser of the config.

    Args:
        config: Names the optimiser, its settings, its schedule and the largest norm.
    """
    part = parse_part(config.optimiser, OPTIMISER)
    kind = part.kind
    settings: dict[str, Any] = dict(part.settings)
    function, rate = _find_optimiser(kind), make_schedule(config)
    refuse_text(kind, function, settings)
    settings = _fields_for(kind, function, settings, config) | settings
    try:
        return _clipped(function, rate, config.clip_norm, tuple(settings.items()))
    except Exception as error:  # of optax or the user's code
        raise _unusable(OPTIMISER, config.optimiser, error) from error


def _fields_for(
    kind: str, function: Callable[..., Any], settings: dict[str, Any], config: TrainingConfig
) -> dict[str, float]:
    """The fields of the config that an optimiser takes; others must have their defaults."""
    parameters = inspect.signature(function).parameters
    fields: dict[str, float] = {}
    for field, name in FIELDS.items():
        value, is_known = getattr(config, field), name in parameters
        if is_known and (kind in ("adam", "adamw") or field == "weight_decay"):
            fields[name] = value
        elif value != getattr(TrainingConfig, field):
            instead = f"; use {kind},{name}={value}" if is_known else ""
            raise SettingError(f"training.{field} has no effect on {kind}{instead}")
        if name in settings and value != getattr(TrainingConfig, field):
            raise SettingError(
                f"training.{field} and the setting {name} of {OPTIMISER} {config.optimiser} "
                "are the same setting; give only one of them"
            )
    return fields


def make_schedule(config: TrainingConfig) -> Rate:
    """The learning rate of the config: a number, or a function of the number of updates so far.

    Args:
        config: Names the schedule; the built-in ones end after its number of iterations.
    """
    part = parse_part(config.schedule, SCHEDULE)
    function, settings = find_part(SCHEDULE, part.kind), dict(part.settings)
    if part.kind in PARTS[SCHEDULE]:
        rate: Rate = function(config.learning_rate, config.iterations, **settings)
        return rate
    refuse_text(part.kind, function, settings)
    schedule = partial(function, **settings)
    try:
        shape = jax.eval_shape(lambda count: jnp.asarray(schedule(count)), jnp.int32(0)).shape
    except Exception as error:
        raise _unusable(SCHEDULE, config.schedule, error) from error
    if shape:
        raise SettingError(f"{SCHEDULE} {config.schedule} must return one number")
    return schedule


def constant(rate: float, iterations: int) -> Rate:
    """The largest rate throughout."""
    return rate


def linear(rate: float, iterations: int, final: float) -> Rate:
    """Along a line from `rate` to `final` times it."""
    require_number("linear.final", final, 0.0, 1.0)
    return optax.linear_schedule(rate, final * rate, iterations)


def cosine(rate: float, iterations: int, final: float) -> Rate:
    """Along half a cosine from `rate` to `final` times it."""
    require_number("cosine.final", final, 0.0, 1.0)
    return optax.cosine_decay_schedule(rate, iterations, alpha=final)


def warmup_cosine(rate: float, iterations: int, final: float, warmup: int | None = None) -> Rate:
    """Along a line from 0 to `rate` for `warmup` iterations, by default a tenth, then a cosine."""
    require_number("warmup-cosine.final", final, 0.0, 1.0)
    if warmup is None:
        warmup = max(1, iterations // 10)
    else:
        require_integer("warmup-cosine.warmup", warmup, 1, iterations - 1)
    return optax.warmup_cosine_decay_schedule(0.0, rate, warmup, iterations, final * rate)


def _unusable(setting: str, text: str, error: Exception) -> SettingError:
    return SettingError(f"{setting} {text} cannot be used ({first_line(error)})")


def _find_optimiser(kind: str) -> Callable[..., Any]:
    """A function of optax whose first argument is the learning rate, or a user-defined one."""
    if is_import_path(kind):
        return load_function(OPTIMISER, kind)
    if not _takes_rate(kind):
        names = [name for name in dir(optax) if _takes_rate(name)]
        raise SettingError(OPTIMISER, kind, f"{one_of(names, kind)}, or file.py:function")
    return getattr(optax, kind)


def _takes_rate(name: str) -> bool:
    function = getattr(optax, name, None)
    if not inspect.isfunction(function) or name.startswith(("_", "scale_by")):
        return False
    names = list(inspect.signature(function).parameters)
    return names[:1] == ["learning_rate"] and "linesearch" not in names  # it needs the loss itself


@lru_cache(maxsize=8)  # equal settings share one compiled update
def _clipped(
    function: Callable[..., Any], rate: Rate, clip_norm: float, settings: tuple[Any, ...]
) -> optax.GradientTransformation:
    optimiser = function(rate, **dict(settings))
    clipped = optax.chain(optax.clip_by_global_norm(clip_norm), optimiser)
    like = jnp.zeros((2, 2), jnp.float32)
    jax.eval_shape(lambda leaf: clipped.update(leaf, clipped.init(leaf), leaf), like)
    return clipped
