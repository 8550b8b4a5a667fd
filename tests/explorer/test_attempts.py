"""An attempt agrees with `unroll` and `predict`."""

import io
import re
from pathlib import Path

import jax
import numpy as np
import pytest

from constrained_dnc import SettingError, predict
from constrained_dnc.explorer import attempts, figures, open_model, views

DOCUMENT = Path(__file__).parents[2] / "docs" / "explorer.md"


@pytest.mark.parametrize("memory_size", [None, 9])
def test_the_internals_are_those_of_unroll(runs, memory_size):
    model = open_model(runs["compr+reg"])
    found = attempts.attempt(model, "3 1 4 1 0", memory_size)
    expected = model.dnc.unroll(found.batch.inputs, memory_size or 4, internals=True)
    np.testing.assert_allclose(found.outputs, expected.outputs, rtol=1e-5, atol=1e-6)
    link = expected.internals.memory.link
    for mine, theirs in zip(
        jax.tree.leaves(found.internals), jax.tree.leaves(expected.internals), strict=True
    ):
        if theirs.shape != link.shape:
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    for step in (1, 6, 12):  # rebuilt from the write weights
        rebuilt = figures.link_at(found.internals, step)
        np.testing.assert_allclose(rebuilt, link[step - 1, 0], atol=1e-6)


def test_a_growing_memory(runs):
    model = open_model(runs["compr+reg"])
    found = attempts.attempt(model, "3 1 4 1 0", "growing")
    given = predict(runs["compr+reg"], "3 1 4 1 0", memory="growing")
    assert [entry.given for entry in found.entries] == [str(entry) for entry in given]
    assert found.slots > 4  # more than in training: the problem is longer
    weights = found.internals.memory.write_weights[:, 0]
    assert weights.shape[-1] == found.slots
    whole = model.dnc.unroll(found.batch.inputs, attempts._memory(model, "growing"), internals=True)
    room = whole.internals.memory.write_weights[:, 0]
    assert room.shape[-1] > found.slots  # of which nothing is shown or saved
    np.testing.assert_allclose(weights, room[:, : found.slots], rtol=1e-5, atol=1e-6)
    assert not np.any(room[:, found.slots :])
    saved = attempts.arrays(found)
    assert saved["memory"].shape[1] == saved["usage"].shape[1] == found.slots
    assert saved["read_weights"].shape[2] == found.slots
    assert saved["slots"][-1] == found.slots


def test_the_answer_is_that_of_predict(runs):
    model = open_model(runs["compr+reg"])
    found = attempts.attempt(model, "3 1 4")
    given = predict(runs["compr+reg"], "3 1 4")
    assert [entry.given for entry in found.entries] == [str(entry) for entry in given]
    assert [entry.right for entry in found.entries] == ["3", "1", "4"]
    assert found.score == np.mean([entry.is_right for entry in found.entries])
    assert found.first_result_step == 5


def test_an_answer_that_is_too_long_or_not_a_number():
    assert attempts._side_by_side((1, 2), (1, None, 0)) == [
        ("1", "1"),
        ("2", "?"),
        (attempts.NONE, "0"),
    ]


def test_states_of_the_problem_and_of_companions(runs):
    found = attempts.attempt(open_model(runs["compr+reg"]), "3 1 4")
    paths = attempts.state_paths(found, companions=3)
    assert paths.shape == (8, 4, 2)


def test_arrays_have_every_step(runs):
    found = attempts.attempt(open_model(runs["compr+reg"]), "3 1 4")
    arrays = attempts.arrays(found)
    assert {"memory", "usage", "write_weights", "read_modes", "cell_state"} <= set(arrays)
    assert {len(array) for array in arrays.values()} == {8}


@pytest.mark.parametrize("memory_size", [9, "growing"])
def test_the_documents_name_every_array_and_its_axes(runs, memory_size):
    found = attempts.attempt(open_model(runs["compr+reg"]), "3 1 4", memory_size)
    with np.load(io.BytesIO(views.data_file(found, 3))) as saved:
        dimensions = {name: saved[name].ndim for name in saved.files}
    table = re.findall(r"^\| (`.*?) \| (.*?) \|", DOCUMENT.read_text(), re.M)
    told = {
        name: axes.count(",") + 1 for names, axes in table for name in re.findall(r"`(\w+)`", names)
    }
    if memory_size != "growing":
        assert told.pop("slots") == 1
    assert told == dimensions


@pytest.mark.parametrize(
    ("text", "memory_size", "sentence"),
    [
        (
            "3 1 x",
            None,
            "problem is '3 1 x'; accepted: numerals from 0 to 4, separated by spaces, such",
        ),
        ("1 " * 251, None, "length of the problem is 251; accepted: at most 250"),
        ("1 2", 0, "memory_size is 0; accepted: a number of slots from 1 to 1000, or growing"),
        ("1 2", 1001, "memory_size is 1001; accepted: a number of slots from 1 to 1000, or"),
    ],
)
def test_what_cannot_be_drawn_is_refused(runs, text, memory_size, sentence):
    with pytest.raises(SettingError) as refused:
        attempts.attempt(open_model(runs["compr+reg"]), text, memory_size)
    assert sentence in str(refused.value)


def test_stored_scores(runs):
    scored, unscored = (open_model(runs[name]) for name in ("compr+reg", "stateless-baseline"))
    assert list(scored.scores) == ["4 slots, rule unseen"]
    assert list(scored.scores["4 slots, rule unseen"]) == [1, 2, 3, 4]
    assert unscored.scores == {}
    assert scored.state == "finished after 10 of 10 iterations"
