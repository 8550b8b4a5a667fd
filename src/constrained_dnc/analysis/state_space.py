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
# A step shorter than this share of the largest state entry is rounding noise, not movement.
STILL = 1e-6


def analyse_states(
    cell_states: Float[np.ndarray, "time batch cell"],
    encoding_steps: int,
    num_steps: Int[np.ndarray, "batch"] | None = None,
) -> Mapping[str, np.ndarray]:
    """Reduced states of one batch, their explained variance and curvature, for storage.

    `num_steps` is the number of steps of each sample, by default all: the rest is padding.
    """
    time, batch, _ = cell_states.shape
    ends = np.full(batch, time) if num_steps is None else num_steps
    is_own = np.arange(time)[:, None] < ends
    reduced, explained = reduce_states(cell_states, is_own)
    return {
        "states": reduced,
        "explained_variance": np.array(explained),
        "curvature": np.array(curvature(reduced, is_own)),
        "encoding_steps": np.array(encoding_steps),
    }


def reduce_states(
    cell_states: Float[np.ndarray, "time batch cell"],
    is_own: Bool[np.ndarray, "time batch"] | None = None,
    dimensions: int = DIMENSIONS,
) -> tuple[Float32[np.ndarray, "time batch dimensions"], float]:
    """Principal components over all own states of the batch, and their share of the variance.

    Fewer dimensions when there are fewer states or cells. States that never move have no
    variance to explain; all of it (1.0) counts as explained.
    """
    time, batch, cell = cell_states.shape
    flat = cell_states.reshape(-1, cell).astype(np.float64)
    own = flat if is_own is None else flat[is_own.ravel()]
    if np.ptp(own, axis=0).max() == 0:
        return np.zeros((time, batch, min(dimensions, *own.shape)), np.float32), 1.0
    pca = PCA(min(dimensions, *own.shape), svd_solver="full").fit(own)
    reduced = pca.transform(flat).reshape(time, batch, -1)
    return reduced.astype(np.float32), float(pca.explained_variance_ratio_.sum())


def curvature(
    states: Float[np.ndarray, "time batch dimensions"],
    is_own: Bool[np.ndarray, "time batch"] | None = None,
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
    if is_own is not None:
        counted &= is_own[2:]
    return float(change[counted].mean()) if counted.any() else 0.0


def embed(
    states: Float[np.ndarray, "time batch dimensions"],
) -> Float32[np.ndarray, "time batch 2"]:
    """t-SNE of all states of one phase to the plane, deterministic.

    Perplexity 50, less when there are too few states for it; random initialisation.
    """
    flat = states.reshape(-1, states.shape[-1])
    tsne = TSNE(
        perplexity=min(PERPLEXITY, (len(flat) - 1) / 3),
        learning_rate="auto",
        init="random",
        random_state=0,
    )
    # One thread is the fastest for so few points, and several embeddings can run side by side.
    with threadpool_limits(1, user_api="openmp"):
        plane: Float32[np.ndarray, "points 2"] = tsne.fit_transform(flat).astype(np.float32)
    return plane.reshape(*states.shape[:2], 2)
