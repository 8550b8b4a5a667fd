"""The optimiser of a training."""

from __future__ import annotations

import optax

from constrained_dnc.config import TrainingConfig


def make_optimiser(config: TrainingConfig) -> optax.GradientTransformation:
    """Adam after clipping by the global norm."""
    return optax.chain(
        optax.clip_by_global_norm(config.clip_norm),
        optax.adam(config.learning_rate, b1=config.beta_1, b2=config.beta_2, eps=config.epsilon),
    )
