"""Selection against a direct computation."""

import json
import math
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from constrained_dnc.training.selection import Selection, SpikeFilteredSelection

LOSSES = st.lists(
    st.one_of(st.floats(0, 10), st.sampled_from([1.0, 2.0, math.inf, math.nan])), max_size=30
)


def direct(losses, window):
    """All means that count, then the first smallest one."""
    losses = [loss if math.isfinite(loss) else math.inf for loss in losses]
    if len(losses) >= window:
        means = {
            i + 1: math.fsum(losses[i + 1 - window : i + 1]) / window
            for i in range(window - 1, len(losses))
        }
    else:
        means = {i + 1: math.fsum(losses[: i + 1]) / (i + 1) for i in range(len(losses))}
    return min(means.items(), key=lambda entry: (entry[1], entry[0]), default=(None, math.inf))


@given(LOSSES, st.integers(1, 8))
def test_selects_the_first_lowest_running_mean(losses, window):
    selection = Selection(window)
    for iteration, loss in enumerate(losses, 1):
        selection.add(iteration, loss)
    assert (selection.best_iteration, selection.best_mean) == direct(losses, window)


MEASURED = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]),
        st.one_of(st.floats(1e-6, 10), st.sampled_from([0.0, 1.0, math.inf, math.nan])),
    ),
    max_size=30,
)


def outside_spikes(measured, window):
    """(iteration, score) of the measurements outside spikes, from the definition."""
    known = [(i, *entry) for i, entry in enumerate(measured, 1) if math.isfinite(entry[1])]
    return [
        (iteration, score)
        for place, (iteration, score, loss) in enumerate(known)
        if loss
        <= 3
        * np.median(
            [entry[2] for entry in known[max(0, place + 1 - window) :][: min(place + 1, window)]]
        )
    ]


@given(MEASURED, st.integers(1, 8))
def test_selects_the_first_highest_mean_of_scores_outside_spikes(measured, window):
    selection = SpikeFilteredSelection(window)
    for iteration, entry in enumerate(measured, 1):
        selection.add(iteration, *entry)
    counted = outside_spikes(measured, window)
    place, error = direct([1 - score for _, score in counted], window)
    assert selection.best_iteration == (None if place is None else counted[place - 1][0])
    assert selection.best_mean == 1 - error


@pytest.mark.parametrize("kind", [Selection, SpikeFilteredSelection])
@given(measured=MEASURED, window=st.integers(1, 8), cut=st.integers(0, 30))
def test_resumes_from_json(kind, measured, window, cut):
    straight, resumed = kind(window), kind(window)
    for iteration, (score, loss) in enumerate(measured, 1):
        if iteration == cut:
            text = json.dumps(resumed.to_values(), allow_nan=False)
            resumed = kind(window)
            resumed.restore(json.loads(text))
        values = (loss,) if kind is Selection else (score, loss)
        assert straight.add(iteration, *values) == resumed.add(iteration, *values)
        assert straight.mean == resumed.mean
    assert straight.to_values() == resumed.to_values()


def test_a_recorded_training_with_spikes():
    """40 000 iterations of sort with the stateful baseline, measured every 10th.

    The paper's rule selects from the middle of spikes and stays with parameters that have not
    even learnt the training lengths; the rule `score` does neither.
    """
    with np.load(Path(__file__).parents[1] / "data" / "selection_series.npz") as series:
        iterations, unseen, seen, scores = (
            series[name].tolist()
            for name in ("iteration", "unseen_loss", "seen_loss", "unseen_score")
        )
    window = 500
    by_loss, by_score = Selection(window), SpikeFilteredSelection(window)
    selected_by_loss, selected_by_score, spikes = [], [], []
    for place, iteration in enumerate(iterations):
        if seen[place] > 3 * np.median(seen[max(0, place + 1 - window) : place + 1]):
            spikes.append(iteration)
        if by_loss.add(iteration, unseen[place]):
            selected_by_loss.append(iteration)
        if by_score.add(iteration, scores[place], seen[place]):
            selected_by_score.append(iteration)
    assert {3680, 5440, 5480, 7270} <= set(selected_by_loss) & set(spikes)
    assert not set(selected_by_score) & set(spikes)
    assert (by_loss.best_iteration, by_score.best_iteration) == (8640, 38410)
    loss_at = dict(zip(iterations, seen, strict=True))
    assert loss_at[8640] > 100 * loss_at[38410]
