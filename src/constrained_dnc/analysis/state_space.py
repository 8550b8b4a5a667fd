"""Trajectories of the cell state: principal components, curvature, t-SNE."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float, Float32, Int
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

DIMENSIONS = 20
PERPLEXITY = 50
STILL = 1e-6
"""A step shorter than this fraction of the largest state entry is rounding noise, not movement."""


def analyse_states(
    cell_states: Float[np.ndarray, "time batch cell"],
    encoding_steps: int,
    num_steps: Int[np.ndarray, "batch"] | None = None,
) -> Mapping[str, np.ndarray]:
    """Reduced states of one batch, their explained variance and curvature, for storage.

    States after the first `num_steps` of a sample are padding; by default there is none.
    """
    time, batch, _ = cell_states.shape
    ends = np.full(batch, time) if num_steps is None else num_steps
    is_valid = np.arange(time)[:, None] < ends
    reduced, explained = reduce_states(cell_states, is_valid)
    return {
        "states": reduced,
        "explained_variance": np.array(explained),
        "curvature": np.array(curvature(reduced, is_valid)),
        "encoding_steps": np.array(encoding_steps),
    }


def reduce_states(
    cell_states: Float[np.ndarray, "time batch cell"],
    is_valid: Bool[np.ndarray, "time batch"] | None = None,
    dimensions: int = DIMENSIONS,
) -> tuple[Float32[np.ndarray, "time batch dimensions"], float]:
    """Principal components, fitted to all states but padding, and the variance they explain.

    There are fewer dimensions if there are fewer states or cells. States that never move have no
    variance to explain; all of it (1.0) counts as explained.
    """
    time, batch, cell = cell_states.shape
    flat = cell_states.reshape(-1, cell).astype(np.float64)
    valid = flat if is_valid is None else flat[is_valid.ravel()]
    if np.ptp(valid, axis=0).max() == 0:
        return np.zeros((time, batch, min(dimensions, *valid.shape)), np.float32), 1.0
    pca = PCA(min(dimensions, *valid.shape), svd_solver="full").fit(valid)
    reduced = pca.transform(flat).reshape(time, batch, -1)
    return reduced.astype(np.float32), float(pca.explained_variance_ratio_.sum())


def curvature(
    states: Float[np.ndarray, "time batch dimensions"],
    is_valid: Bool[np.ndarray, "time batch"] | None = None,
) -> float:
    """Mean change of direction between successive steps, over the sequence and the batch.

    A step without movement has no direction: changes from or to it are left out. A state that
    never moves, or moves once, has curvature 0, like a straight line.
    """
    steps = np.diff(states.astype(np.float64), axis=0)
    distance = np.linalg.norm(steps, axis=-1, keepdims=True)
    moves = distance > STILL * np.abs(states).max(initial=0.0)
    directions = np.divide(steps, distance, out=np.zeros_like(steps), where=moves)
    change = np.linalg.norm(np.diff(directions, axis=0), axis=-1)
    counted = (moves[1:] & moves[:-1])[..., 0]
    if is_valid is not None:
        counted &= is_valid[2:]
    return float(change[counted].mean()) if counted.any() else 0.0


def embed(
    states: Float[np.ndarray, "time batch dimensions"],
) -> Float32[np.ndarray, "time batch 2"]:
    """Deterministic two-dimensional t-SNE of all states of one phase.

    Perplexity 50, or less if there are too few states; random initialisation.
    """
    flat = states.reshape(-1, states.shape[-1])
    tsne = TSNE(
        perplexity=min(PERPLEXITY, (len(flat) - 1) / 3),
        learning_rate="auto",
        init="random",
        random_state=0,
    )
    # One thread is fastest for this few points, and several embeddings can run in parallel.
    with threadpool_limits(1, user_api="openmp"):
        plane: Float32[np.ndarray, "points 2"] = tsne.fit_transform(flat).astype(np.float32)
    return plane.reshape(*states.shape[:2], 2)
