"""Vector quantisation (van den Oord et al. 2017): a state becomes the nearest of learned codes."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax import stop_gradient

from constrained_dnc import AbstractConstraint


class VQ(AbstractConstraint):
    book: jax.Array  # a row for each code
    commitment: float = eqx.field(static=True)

    def __init__(self, hidden_size, key, codes=16, commitment=0.25):
        self.book = jax.random.uniform(key, (codes, hidden_size), minval=-1, maxval=1)
        self.commitment = commitment

    def nearest(self, cell):
        return self.book[jnp.argmin(jnp.sum((self.book - cell) ** 2, axis=-1))]

    def carry(self, cell, key):  # straight-through: the gradient is that of the identity
        return cell + stop_gradient(self.nearest(cell) - cell)

    def loss(self, before, carried, num_steps):  # moves codes to states, and states to codes
        code = jax.vmap(jax.vmap(self.nearest))(before)
        to_code, to_state = before - stop_gradient(code), stop_gradient(before) - code
        valid = jnp.arange(len(before))[:, None, None] < num_steps[:, None]
        return jnp.mean(to_state**2 + self.commitment * to_code**2, axis=(0, 2), where=valid)
