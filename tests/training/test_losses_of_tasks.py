"""Training with a user-defined loss: it is minimised, selects parameters and is recorded."""

import json
from dataclasses import replace

import numpy as np
import pytest

from constrained_dnc.evaluation.scoring import evaluate
from constrained_dnc.model.losses import task_loss
from constrained_dnc.training.batches import sample_iteration
from constrained_dnc.training.loop import train
from tiny_runs import tiny_config

TASK = """
import jax
import jax.numpy as jnp
from constrained_dnc.tasks.chomsky import ReverseString


class Hinge(ReverseString):
    name = "hinge"

    def loss(self, outputs, batch):
        right = jnp.sum(outputs * batch.targets, axis=-1)
        wrong = jnp.max(outputs - 100 * batch.targets, axis=-1)
        return 7 + jnp.sum(jnp.where(batch.mask, jax.nn.relu(1 - right + wrong), 0), axis=0)
"""


def test_a_user_defined_loss_is_minimised_measured_and_recorded(tmp_path):
    (tmp_path / "hinge.py").write_text(TASK)
    config = replace(tiny_config(iterations=40, window=1), task=f"{tmp_path}/hinge.py:Hinge")
    run = train(config, tmp_path / "run", threads=1)
    text = (tmp_path / "run" / "metrics.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert all(line["loss"] == line["task_loss"] > 7 for line in lines if "loss" in line)
    assert all(line["unseen_loss"] > 7 for line in lines if "unseen_loss" in line)
    selected = run.selected("unseen")
    measured = {line["iteration"]: line for line in lines if "unseen_loss" in line}
    assert selected.iteration == min(measured, key=lambda each: measured[each]["unseen_loss"])
    batch = sample_iteration(run.task, run.config, selected.iteration).unseen
    outputs = selected.model.unroll(batch.inputs).outputs
    best = float(np.mean(task_loss(outputs, batch, run.task.loss)))
    assert best == pytest.approx(measured[selected.iteration]["unseen_loss"], rel=1e-5)
    assert evaluate(run, lengths=[2], batches=1).score.notna().all()
