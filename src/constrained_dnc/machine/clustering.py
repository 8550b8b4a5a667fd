"""Clusters that nest: k-means to a fine partition, then Ward's merging to any smaller number."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import sklearn.cluster
from jaxtyping import Float, Int
from scipy.cluster import hierarchy
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

FITTED = 6000
"""Vectors that k-means sees at most."""


@dataclass(frozen=True)
class Clusters:
    """Vectors in fine clusters, which can be merged into fewer.

    The fine ones count alike, however many vectors they hold: a state that is visited once per
    sample is not merged with its neighbour for being rare.
    """

    fine: Int[np.ndarray, "vectors"]
    merges: Float[np.ndarray, "merges 4"] | None  # of SciPy's linkage; None for a single cluster

    def labels(self, count: int) -> Int[np.ndarray, "vectors"]:
        """The cluster of every vector, in at most `count` clusters."""
        if self.merges is None or count == 1:
            return np.zeros(len(self.fine), np.int64)
        merged = hierarchy.fcluster(self.merges, count, "maxclust")
        return np.unique(merged, return_inverse=True)[1][self.fine]


def cluster(vectors: Float[np.ndarray, "vectors size"], count: int, seed: int) -> Clusters:
    """At most `count` fine clusters and the order in which they merge."""
    chosen = vectors[np.random.default_rng(seed).permutation(len(vectors))[:FITTED]]
    distinct = len(np.unique(chosen, axis=0)) if vectors.shape[1] else 1
    if distinct == 1:
        return Clusters(np.zeros(len(vectors), np.int64), None)
    with threadpool_limits(1), warnings.catch_warnings():  # on busy cores threads would wait
        warnings.simplefilter("ignore", ConvergenceWarning)  # near-duplicates: fewer clusters
        means = sklearn.cluster.KMeans(min(count, distinct), n_init=1, random_state=seed)
        fine = means.fit(chosen).predict(vectors)
    return merging(vectors, np.unique(fine, return_inverse=True)[1])


def merging(
    vectors: Float[np.ndarray, "vectors size"], fine: Int[np.ndarray, "vectors"]
) -> Clusters:
    """Fine clusters and the order in which they merge."""
    points = means_of(vectors, fine)
    return Clusters(fine, hierarchy.ward(points) if len(points) > 1 else None)


def means_of(
    vectors: Float[np.ndarray, "vectors size"], labels: Int[np.ndarray, "vectors"]
) -> Float[np.ndarray, "count size"]:
    """The mean vector of each label."""
    sums = np.zeros((labels.max() + 1, vectors.shape[1]), np.float64)
    np.add.at(sums, labels, vectors)
    return (sums / np.bincount(labels)[:, np.newaxis]).astype(np.float32)


def squared_distances(
    points: Float[np.ndarray, "count size"], vectors: Float[np.ndarray, "vectors size"]
) -> Float[np.ndarray, "vectors count"]:
    """The squared distance of every vector to every point."""
    return np.stack([((vectors - point) ** 2).sum(axis=1) for point in points], axis=1)
