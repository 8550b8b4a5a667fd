"""A trace agrees with `unroll` and `predict`."""

import io
import re
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from constrained_dnc import SettingError, predict
from constrained_dnc.evaluation.prediction import compare
from constrained_dnc.evaluation.trained import trained_model
from constrained_dnc.explorer import figures, open_model, traces, views
from constrained_dnc.machine.extraction import extract_machine
from constrained_dnc.training.loop import train
from tiny_runs import tiny_config

PROBLEM = "3 1 4 1 0"  # one length: compiled once for each memory
DOCUMENT = Path(__file__).parents[2] / "docs" / "explorer.md"


def test_the_internals_are_those_of_unroll(runs):
    model = open_model(runs["compr+reg"])
    made = traces.trace(model, PROBLEM, 9)
    network = model.model.with_memory_size(9)
    expected = network.unroll(made.batch.inputs, internals=True)
    np.testing.assert_allclose(made.outputs, expected.outputs, rtol=1e-5, atol=1e-6)
    link = expected.internals.memory.link
    for mine, theirs in zip(
        jax.tree.leaves(made.internals), jax.tree.leaves(expected.internals), strict=True
    ):
        if theirs.shape != link.shape:
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    for step in (1, 6, 12):  # rebuilt from the write weights
        rebuilt = figures.link_at(made.internals, step)
        np.testing.assert_allclose(rebuilt, link[step - 1, 0], atol=1e-6)


def test_a_growing_memory(runs):
    model = open_model(runs["compr+reg"])
    made = traces.trace(model, PROBLEM, "growing")
    predicted = predict(runs["compr+reg"], PROBLEM, memory="growing")
    assert [entry.answer for entry in made.entries] == [str(entry) for entry in predicted]
    assert made.slots > 4  # more than in training: the problem is longer
    weights = made.internals.memory.write_weights[:, 0]
    assert weights.shape[-1] == made.slots
    unrolled = traces.with_memory(model, "growing").unroll(made.batch.inputs, internals=True)
    room = unrolled.internals.memory.write_weights[:, 0]
    assert room.shape[-1] > made.slots  # of which nothing is shown or saved
    np.testing.assert_allclose(weights, room[:, : made.slots], rtol=1e-5, atol=1e-6)
    assert not np.any(room[:, made.slots :])
    saved = traces.arrays(made)
    assert saved["memory"].shape[1] == saved["usage"].shape[1] == made.slots
    assert saved["read_weights"].shape[2] == made.slots
    assert saved["slots"][-1] == made.slots


def test_the_answer_is_that_of_predict(runs):
    model = open_model(runs["compr+reg"])
    made = traces.trace(model, PROBLEM)
    predicted = predict(runs["compr+reg"], PROBLEM)
    assert [entry.answer for entry in made.entries] == [str(entry) for entry in predicted]
    assert [entry.right for entry in made.entries] == PROBLEM.split()
    assert made.score == np.mean([entry.is_right for entry in made.entries])
    assert made.first_result_step == 7


def test_an_answer_that_is_too_long_or_not_a_number(runs):
    task = open_model(runs["compr+reg"]).task
    entries = compare(task, (1, 2), (1, None, 0))
    assert [(entry.right, entry.answer, entry.is_right) for entry in entries] == [
        ("1", "1", True),
        ("2", "?", False),
        ("\u2013", "0", False),
    ]


def test_a_task_that_has_only_sample(tmp_path):
    path = Path(__file__).parents[2] / "examples" / "repeat_copy.py"
    train(tiny_config(f"{path}:RepeatCopy", iterations=4), tmp_path / "run")
    made = traces.trace(open_model(str(tmp_path / "run"), trust_code=True), "length 2, key 1")
    steps = int(made.batch.mask.sum())
    assert [entry.right for entry in made.entries][-1] == "0 0 0 0 1"
    assert len(made.entries) == steps  # what is not scored is no entry
    right = np.abs(made.outputs - made.batch.targets)[made.batch.mask] < 0.5
    assert [entry.is_right for entry in made.entries] == right.all(-1).tolist()
    assert views.view(made)["score"] == pytest.approx(right.mean())


def test_digital_inference(runs):
    made = traces.trace(open_model(runs["compr+reg"], inference="digital"), PROBLEM, 9)
    digital = trained_model(runs["compr+reg"], inference="digital").model.with_memory_size(9)
    expected = digital.unroll(made.batch.inputs)
    np.testing.assert_allclose(made.outputs, expected.outputs, rtol=1e-5, atol=1e-6)
    assert views.describe(made.model)["inference"] == "digital"


def test_the_state_of_the_machine_after_each_step(runs, monkeypatch):
    model = open_model(runs["compr+reg"])
    extraction = extract_machine(
        model.model, model.task, lengths=[1, 2], states=2, reads=1, commands=2
    )
    faithful = replace(extraction, is_faithful=True)
    monkeypatch.setattr(views, "_machine_of", lambda model: faithful)
    made = traces.trace(model, "3 1")
    view = views.machine_view(made)
    machine, state, path = extraction.machine, extraction.machine.start, []
    for vector in made.batch.inputs[:, 0]:
        symbol = int(np.argmin(np.abs(machine.inputs - vector).sum(1)))
        state = int(machine.next_state[state, symbol, 0])
        path.append(state)
    assert view["path"] == path
    pairs = {(before, after) for before, after, _ in view["edges"]}
    assert set(zip([machine.start, *path], path, strict=False)) <= pairs
    assert len(view["states"]) == len(machine.state_names)


def test_states_of_the_problem_and_of_companions(runs):
    made = traces.trace(open_model(runs["compr+reg"]), PROBLEM)
    paths = traces.state_paths(made, companions=3)
    assert paths.shape == (12, 4, 2)


@pytest.mark.parametrize("memory_size", [9, "growing"])
def test_the_documents_name_every_array_and_its_axes(runs, memory_size):
    made = traces.trace(open_model(runs["compr+reg"]), PROBLEM, memory_size)
    with np.load(io.BytesIO(views.data_file(made, 3))) as saved:
        dimensions = {name: saved[name].ndim for name in saved.files}
    table = re.findall(r"^\| (`.*?) \| (.*?) \|", DOCUMENT.read_text(), re.M)
    documented = {
        name: axes.count(",") + 1 for names, axes in table for name in re.findall(r"`(\w+)`", names)
    }
    if memory_size != "growing":
        assert documented.pop("slots") == 1
    assert documented == dimensions
    assert {len(array) for array in traces.arrays(made).values()} == {12}


@pytest.mark.parametrize(
    ("text", "memory_size", "sentence"),
    [
        ("3 1 x", None, "problem must be numerals from 0 to 4"),
        ("1 " * 251, None, "the problem has length 251; the explorer draws at most 250"),
        ("1 2", 1001, "memory must be a number of slots from 1 to 1000, or"),
    ],
)
def test_what_cannot_be_drawn_is_refused(runs, text, memory_size, sentence):
    with pytest.raises(SettingError) as refused:
        traces.trace(open_model(runs["compr+reg"]), text, memory_size)
    assert sentence in str(refused.value)
