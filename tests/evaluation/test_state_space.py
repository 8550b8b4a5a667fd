"""PCA, curvature and t-SNE on paths whose answers are known."""

import numpy as np
import pytest

from constrained_dnc.evaluation.analyses import (
    analyse_states,
    curvature,
    embed,
    reduce_states,
)

RNG = np.random.default_rng(0)


def circle(points: int, around: int) -> np.ndarray:
    angle = 2 * np.pi * np.arange(points) / around
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)[:, None]


def test_a_straight_line_has_no_curvature_whatever_its_pace() -> None:
    pace = np.cumsum([0.0, 1, 3, 0.5, 2])
    line = pace[:, None, None] * RNG.normal(size=(1, 4, 6))
    assert curvature(line) == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("around", [2, 3, 4, 12, 100])
def test_a_circle_in_closed_form(around: int) -> None:
    # Each step turns by 2 pi / n; the chord between the unit vectors is 2 sin(pi / n).
    assert curvature(circle(30, around)) == pytest.approx(2 * np.sin(np.pi / around))


def test_curvature_by_a_loop() -> None:
    states = RNG.normal(size=(9, 5, 3))
    changes = []
    for sample in range(5):
        steps = [states[t + 1, sample] - states[t, sample] for t in range(8)]
        units = [step / np.sqrt(step @ step) for step in steps]
        changes += [np.linalg.norm(units[t + 1] - units[t]) for t in range(7)]
    assert curvature(states) == pytest.approx(np.mean(changes))


def test_a_pause_does_not_count() -> None:
    path = circle(30, 12)
    paused = np.concatenate([path[:15], path[14:15], path[14:15], path[15:]])
    assert curvature(paused) == pytest.approx(curvature(path))


@pytest.mark.parametrize("steps", [1, 2, 8])
def test_a_state_that_never_moves_has_curvature_zero(steps: int) -> None:
    assert curvature(np.ones((steps, 3, 4))) == 0


def test_pca_keeps_the_distances_of_a_flat_set() -> None:
    plane = RNG.normal(size=(12, 8, 3)) @ RNG.normal(size=(3, 128))
    reduced, explained = reduce_states(plane)
    assert reduced.shape == (12, 8, 20)
    assert reduced.dtype == np.float32
    assert explained == pytest.approx(1)
    flat, small = plane.reshape(-1, 128), reduced.reshape(-1, 20)
    np.testing.assert_allclose(
        np.linalg.norm(flat[:, None] - flat, axis=-1),
        np.linalg.norm(small[:, None] - small, axis=-1),
        atol=1e-4,
    )


def test_explained_variance_by_singular_values() -> None:
    states = RNG.normal(size=(10, 6, 40))
    flat = states.reshape(60, 40)
    variance = np.linalg.svd(flat - flat.mean(0), compute_uv=False) ** 2
    assert reduce_states(states)[1] == pytest.approx(variance[:20].sum() / variance.sum())


def test_fewer_dimensions_when_there_are_fewer() -> None:
    assert reduce_states(RNG.normal(size=(3, 2, 128)))[0].shape == (3, 2, 6)
    assert reduce_states(RNG.normal(size=(30, 2, 7)))[0].shape == (30, 2, 7)
    still, explained = reduce_states(np.ones((4, 3, 128)))
    assert (still.shape, explained) == ((4, 3, 12), 1.0)


def test_tsne_keeps_clusters_apart_and_is_repeatable() -> None:
    centres = 50 * np.eye(2, 5)
    states = np.repeat(centres[:, None], 20, axis=1) + RNG.normal(size=(2, 20, 5))
    first, second = embed(states), embed(states)
    np.testing.assert_array_equal(first, second)
    assert first.shape == (2, 20, 2)
    apart = np.linalg.norm(first[0].mean(0) - first[1].mean(0))
    assert apart > 2 * max(first[0].std(), first[1].std())


def test_padding_after_the_end_of_a_sample_counts_for_nothing() -> None:
    rng = np.random.default_rng(5)
    states = rng.normal(size=(12, 3, 6))
    ends = np.array([12, 7, 9])
    other = states.copy()
    for sample, end in enumerate(ends):
        other[end:, sample] = 1e3 * rng.normal(size=(12 - end, 6))
    first, second = (analyse_states(s, 5, ends) for s in (states, other))
    for name in ("curvature", "explained_variance"):
        np.testing.assert_allclose(first[name], second[name], rtol=1e-5)
    alone = [curvature(first["states"][:end, [s]]) for s, end in enumerate(ends)]
    np.testing.assert_allclose(first["curvature"], np.average(alone, weights=ends - 2), rtol=1e-5)
