"""Runs of the fused kernel, and how far they are from the pure model in float64."""

from __future__ import annotations

from itertools import accumulate

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from constrained_dnc.model import fused
from constrained_dnc.model.config import ModelConfig
from constrained_dnc.model.constraints import Rounding
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.dnc_memory import interface_parts
from constrained_dnc.model.leaves import with_fields

ODD = ModelConfig(memory_size=13, word_size=5, num_reads=3, hidden_size=9)

compiled = pytest.mark.skipif(
    fused.missing_reason() is not None, reason=fused.missing_reason() or "it is there"
)


KEY = jax.random.key(3)
"""Of the noise."""


def with_constraints(dnc: DNC, *constraints) -> DNC:
    return with_fields(dnc, constraints=constraints)


def rounding_margin(dnc: DNC, inputs) -> float:
    """How far the nearest value to be rounded is from a half, in steps of its grid."""
    inside = dnc.unroll(inputs, internals=True, key=KEY).internals
    cells, margin = inside.uncompressed_cell_state, 0.5
    samples = jax.vmap(lambda key: jax.random.split(key, inputs.shape[1]))(
        jax.random.split(KEY, inputs.shape[0])
    )
    for index, constraint in enumerate(dnc.constraints):
        if isinstance(constraint, Rounding):
            places = (np.clip(cells, -1, 1) + 1) * (constraint.levels - 1) / 2
            margin = min(margin, float(np.min(np.abs(places - np.floor(places) - 0.5))))

        def carry(cell, key, constraint=constraint, index=index):
            return constraint.carry(cell, jax.random.fold_in(key, index))

        cells = jax.vmap(jax.vmap(carry))(cells, samples)
    return margin


def cotangents(dnc: DNC, inputs) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    time, batch, _ = inputs.shape
    cell = dnc.controller.cell_state(dnc.controller.initial_state()).shape[0]
    draws = rng.normal(size=(time, batch, dnc.output_size)), rng.normal(size=(time, batch, cell))
    return draws[0].astype(np.float32), draws[1].astype(np.float32)


@eqx.filter_jit
def pure(dnc: DNC, inputs, memory_size: int, d_outputs, d_cells):
    def total(dnc):
        run = dnc.with_memory_size(memory_size).unroll(inputs, key=KEY if dnc.uses_key else None)
        return jnp.sum(run.outputs * d_outputs) + jnp.sum(run.cell_states * d_cells), run

    gradients, run = eqx.filter_grad(total, has_aux=True)(dnc)
    return [run.outputs, run.cell_states], gradients


def by_part(gradients: DNC) -> list:
    """All gradients, those of the interface part by part: a small one must not hide in a large."""
    sizes = interface_parts(gradients.memory.num_reads, gradients.memory.word_size).values()
    ends = list(accumulate(sizes))[:-1]
    parts = [
        part
        for leaf in (gradients.interface_weight, gradients.interface_bias)
        for part in np.split(np.asarray(leaf), ends)
    ]
    rest = eqx.tree_at(
        lambda g: (g.interface_weight, g.interface_bias),
        gradients,
        (None, None),
        is_leaf=lambda leaf: leaf is None,
    )
    return [*parts, *jax.tree.leaves(rest)]


def in_float64(dnc: DNC, inputs, memory_size: int, off_by: float = 0.0, seed: int = 0):
    """Of the pure model with every parameter off by that share of itself, up or down."""
    rng = np.random.default_rng(seed)

    def widen(leaf):
        leaf = np.asarray(leaf, np.float64)
        return jnp.asarray(leaf * (1 + off_by * rng.choice([-1, 1], leaf.shape)))

    normal = jax.random.normal  # in float64 it draws other numbers
    with jax.enable_x64(True), pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            jax.random,
            "normal",
            lambda key, shape, dtype: normal(key, shape, jnp.float32).astype(dtype),
        )
        wide = jax.tree.map(widen, dnc)
        values, gradients = jax.tree.map(
            np.asarray,
            pure(wide, jnp.asarray(inputs, jnp.float64), memory_size, *cotangents(dnc, inputs)),
        )
    return values, by_part(gradients)


def run_fused(dnc: DNC, inputs, memory_size: int, threads: int = 1, simd: str | None = None):
    kernel = fused.FusedUnroll(threads, simd)
    run = kernel.forward(dnc.with_memory_size(memory_size), inputs, key=KEY, keep=True)
    gradients = kernel.backward(run, *cotangents(dnc, inputs))
    return [run.outputs, run.cell_states], by_part(gradients)


def errors(ours, exact) -> np.ndarray:
    """Of every array, relative to its largest entry."""
    return np.array(
        [
            np.max(np.abs(np.asarray(a, np.float64) - b), initial=0.0)
            / (np.max(np.abs(b), initial=0.0) or 1.0)
            for a, b in zip(ours, exact, strict=True)
        ]
    )


def assert_agrees(dnc: DNC, inputs, memory_size: int, threads: int = 1, simd: str | None = None):
    """At most 1e-5 (values) and 1e-4 (gradients) off, or three times what is unavoidable:

    what pure float32 is off by, or how far rounded parameters alone move the exact result.
    A gradient among much larger ones may be off by their rounding, as in the parity check.
    """
    ours, exact = (
        run_fused(dnc, inputs, memory_size, threads, simd),
        in_float64(dnc, inputs, memory_size),
    )
    limits = (1e-5, 1e-4)
    off = [errors(a, b) for a, b in zip(ours, exact, strict=True)]
    if all(np.all(error <= limit) for error, limit in zip(off, limits, strict=True)):
        return
    values, gradients = pure(dnc, inputs, memory_size, *cotangents(dnc, inputs))
    unit_roundoff = np.finfo(np.float32).eps / 2
    unavoidable = [
        (values, by_part(gradients)),
        *(in_float64(dnc, inputs, memory_size, unit_roundoff, seed) for seed in range(3)),
    ]
    for part, (error, limit, theirs) in enumerate(zip(off, limits, exact, strict=True)):
        scales = np.array([np.max(np.abs(array), initial=0.0) for array in theirs])
        rounding = np.finfo(np.float32).eps * scales.max() / np.where(scales == 0, 1, scales)
        others = np.max([errors(other[part], theirs) for other in unavoidable], axis=0)
        assert np.all(error <= np.maximum(limit, 3 * others) + rounding)
