"""The optimiser of a training."""

from __future__ import annotations

from functools import lru_cache

import optax

from constrained_dnc.config import TrainingConfig


def make_optimiser(config: TrainingConfig) -> optax.GradientTransformation:
    """Adam after clipping by the global norm."""
    betas = config.beta_1, config.beta_2
    return _clipped_adam(config.clip_norm, config.learning_rate, *betas, config.epsilon)


@lru_cache(maxsize=8)  # equal settings share one compiled update
def _clipped_adam(
    clip_norm: float, learning_rate: float, beta_1: float, beta_2: float, epsilon: float
) -> optax.GradientTransformation:
    adam = optax.adam(learning_rate, b1=beta_1, b2=beta_2, eps=epsilon)
    return optax.chain(optax.clip_by_global_norm(clip_norm), adam)
