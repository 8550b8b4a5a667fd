"""Evaluation and prediction with a memory that grows."""

import numpy as np
import pytest

from constrained_dnc.config import parse_memories
from constrained_dnc.errors import SettingError
from constrained_dnc.evaluation.prediction import predict
from constrained_dnc.evaluation.scoring import evaluate
from constrained_dnc.evaluation.trained import trained_model
from constrained_dnc.model.growing import growing_memory
from constrained_dnc.training.batches import evaluation_batch
from constrained_dnc.training.loop import train
from tiny_runs import tiny_config


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(tiny_config(), tmp_path_factory.mktemp("runs") / "run", threads=1)


def test_a_memory_of_many_slots_can_grow_too():
    memory = growing_memory(6000)
    assert (memory.start, memory.limit) == (6000, 12000)


def test_scores_are_those_of_the_model_with_that_memory(run):
    memory = trained_model(run).memory("growing")
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
