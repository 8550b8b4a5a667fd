"""Evaluation and prediction with a memory that grows."""

import json
import shutil

import equinox as eqx
import numpy as np
import pytest

from constrained_dnc.config import parse_memories
from constrained_dnc.errors import SettingError
from constrained_dnc.evaluation.prediction import predict
from constrained_dnc.evaluation.scoring import evaluate
from constrained_dnc.evaluation.subject import (
    free_capacity_of,
    growing_memory,
    least_free_capacity,
    subject_of,
)
from constrained_dnc.model import fused
from constrained_dnc.model.backend import choose_backend
from constrained_dnc.model.growing import Growing
from constrained_dnc.training.batches import evaluation_batch
from constrained_dnc.training.loop import train
from constrained_dnc.training.run import Run
from tiny_runs import tiny_config


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(tiny_config(), tmp_path_factory.mktemp("runs") / "run", threads=1)


def test_free_capacity_is_the_least_at_training_lengths_and_kept(run):
    batch = evaluation_batch(run.task, run.config.evaluation, 2, 0)
    inside = run.selected("seen").model.unroll(batch.inputs, internals=True).internals
    usage = np.asarray(inside.memory.usage, np.float64)
    least = min(4 - usage[step, sample].sum() for step in range(6) for sample in range(4))
    assert least - 0.001 <= free_capacity_of(run, run.selected("seen")) <= least
    path = run.folder / "free-capacity.json"
    stored = json.loads(path.read_text())
    assert stored["seen"]["iteration"] == run.selected("seen").iteration
    path.write_text(json.dumps({"seen": stored["seen"] | {"free_capacity": 3.5}}))
    assert subject_of(run, selection="seen").memory("growing").free_capacity == 3.5
    others = {"seen": stored["seen"] | {"iteration": 7, "free_capacity": 3.5}}
    for text in (json.dumps(others), "{"):  # of other parameters, or corrupt
        path.write_text(text)
        assert least - 0.001 <= free_capacity_of(run, run.selected("seen")) <= least


def test_a_run_that_cannot_be_written_to_answers_with_a_growing_memory(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    (folder / "free-capacity.json").unlink(missing_ok=True)
    (folder / "free-capacity.json").mkdir()  # so that not even root can write it
    answer = predict(str(folder), "3 1 4", memory="growing")
    assert answer == predict(run, "3 1 4", memory="growing")


@pytest.mark.skipif(fused.missing_reason() is not None, reason="needs the kernel")
@pytest.mark.parametrize("simd", fused.simd_levels())
def test_rounding_does_not_make_the_memory_grow_at_training_lengths(run, simd):
    """The very inputs that F comes from, in sums of another order."""
    selected = run.selected()
    model, memory = selected.model, subject_of(run).memory("growing")
    batch = evaluation_batch(run.task, run.config.evaluation, 2, 0)
    kernel = fused.FusedUnroll(simd=simd)
    grown = kernel.forward(model.with_memory_size(memory), batch.inputs)
    np.testing.assert_array_equal(grown.slots, 4)
    tighter = Growing(4, min(4.0, memory.free_capacity + 0.0011))
    grown = kernel.forward(model.with_memory_size(tighter), batch.inputs)
    assert grown.slots.max() == 5


def test_a_model_that_computes_nan_has_no_free_capacity(run):
    model = eqx.tree_at(lambda dnc: dnc.interface_bias, run.model, replace_fn=lambda x: x * np.nan)
    batch = run.task.sample(0, 2, 3)
    assert least_free_capacity(model, batch) == 0
    growing = model.with_memory_size(Growing(4, 0.0))
    backend = choose_backend("auto", growing, run.task.loss)
    assert backend.forward(growing, batch.inputs).outputs.shape[1] == 2


def test_a_growing_memory_is_that_of_the_parameters_that_are_evaluated(run, monkeypatch):
    """A training may select others at any moment, so they are read once."""
    read, selected = [], Run.selected
    monkeypatch.setattr(Run, "selected", lambda *args: read.append(args) or selected(*args))
    evaluate(run, memories=[4, "growing"], lengths=[1])
    predict(run, "3 1 4", memory="growing")
    assert len(read) == 2


def test_a_memory_of_many_slots_can_grow_too():
    memory = growing_memory(6000, 3.5)
    assert (memory.start, memory.limit) == (6000, 12000)


def test_scores_are_those_of_the_model_with_that_memory(run):
    memory = subject_of(run).memory("growing")
    batch = evaluation_batch(run.task, run.config.evaluation, 5, 0)
    outputs = run.model.with_memory_size(memory).unroll(batch.inputs).outputs
    table = evaluate(run, memories=["growing"], lengths=[5], batches=1)
    wanted = run.task.score(batch, np.asarray(outputs)).score.mean()
    assert table["score"][0] == pytest.approx(wanted, abs=1e-6)
    answer = predict(run, run.task.format_problem(batch.problems[0]), memory="growing")
    assert answer == run.task.decode(np.asarray(outputs), 5)[0]


def test_memory_sizes_as_text():
    assert parse_memories("growing") == ["growing"]
    assert parse_memories("80") == [80]
    for text in ("groing", "0", "1.5", "4,x"):
        with pytest.raises(SettingError, match=r"^memory must be (a number|numbers) of slots"):
            parse_memories(text)
