"""Replay names the first quantity that is not finite."""

from dataclasses import replace

import equinox as eqx
import numpy as np
import pytest

from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.files import read_tensors, write_tensors
from constrained_dnc.parts import Approach
from constrained_dnc.training.folder import kept_file, kept_iterations
from constrained_dnc.training.loop import train
from constrained_dnc.training.parameters import initial_model
from constrained_dnc.training.replay import keep_skipped_update, replay
from constrained_dnc.training.run import load_run, write_config
from tiny_runs import tiny_config

NAN_TASK = """
from constrained_dnc.tasks.numeral import Copy

class Faulty(Copy):
    name = "faulty"

    def encode(self, problems):
        batch = super().encode(problems)
        batch.inputs[1, 2, 0] = float("nan")
        return batch
"""

SHARP_CONTROLLER = '''
import jax.numpy as jnp
from constrained_dnc import AbstractController, ControllerStep

class Sharp(AbstractController):
    """Finite itself, but not its gradient: the root of 0."""

    weight: object
    hidden_size: int

    def __init__(self, input_size, hidden_size, *, key):
        self.weight = jnp.ones((hidden_size, input_size))
        self.hidden_size = hidden_size

    def initial_state(self):
        return ()

    def __call__(self, inputs, state):
        hidden = self.weight @ inputs + jnp.sqrt(jnp.maximum(0, -self.weight[0, 0] ** 2))
        return ControllerStep(hidden, state)

    def cell_state(self, state):
        return jnp.zeros(0)
'''


def kept_run(folder, config, change=lambda model: model, iteration=3):
    """A run directory with one kept update, made by hand."""
    folder.mkdir()
    write_config(folder, config, "fused", 1)
    keep_skipped_update(folder, iteration, change(initial_model(config)), 0.5, float("nan"))
    return load_run(folder, trust_code=True)


def test_a_value_of_the_batch_is_named(tmp_path):
    (tmp_path / "faulty.py").write_text(NAN_TASK)
    config = tiny_config(f"{tmp_path / 'faulty.py'}:Faulty")
    replayed = replay(kept_run(tmp_path / "run", config))
    assert "inputs of the batch are not finite at step 2, sample 3" in str(replayed)


@pytest.mark.parametrize(
    ("parameter", "value", "said"),
    [
        (lambda m: m.controller.initial_cell, np.nan, "hidden is not finite at step 1"),
        (lambda m: m.interface_bias, np.nan, "interface.read_keys is not finite at step 1"),
        (lambda m: m.output_bias, np.nan, "outputs is not finite at step 1, sample 1"),
    ],
)
def test_a_quantity_of_the_forward_pass_is_named(tmp_path, parameter, value, said):
    def spoil(model):
        return eqx.tree_at(parameter, model, parameter(model).at[0].set(value))

    assert said in str(replay(kept_run(tmp_path / "run", tiny_config(), spoil)))


def test_a_loss_is_named(tmp_path):
    """Outputs are finite, but their squares are not."""
    config = tiny_config()
    config = replace(config, model=replace(config.model, clip_value=None))

    def enlarge(model):
        return eqx.tree_at(lambda m: m.output_bias, model, model.output_bias + 1e30)

    sentence = str(replay(kept_run(tmp_path / "run", config, enlarge)))
    assert "task_loss is inf although outputs and cell states are finite" in sentence


def test_a_gradient_is_skipped_then_named(tmp_path):
    (tmp_path / "sharp.py").write_text(SHARP_CONTROLLER)
    config = replace(
        tiny_config(max_length=1, unseen_length=1, iterations=4, entropy_every=100),
        approach=Approach("sharp", f"{tmp_path / 'sharp.py'}:Sharp"),
    )
    run = train(config, tmp_path / "run")
    assert run.status.skipped_updates == 4
    assert kept_iterations(run.folder) == [1, 2, 3, 4]
    sentence = str(replay(run))
    said = "the gradient of controller.weight is not finite although the loss is"
    assert sentence == f"iteration 1, length 1: {said}"


def test_a_norm_that_overflows_is_not_blamed_on_the_backend(tmp_path):
    """Gradients of 1e20 are finite in float32, the sum of their squares is not."""
    config = tiny_config(approach="stateless-baseline", learning_rate=5e5, iterations=20)
    config = replace(config, model=replace(config.model, clip_value=None))
    run = train(config, tmp_path / "run")
    said = "every gradient is finite, but their norm is inf: the sum of squares overflows"
    assert said in [replay(run.folder, each).finding for each in kept_iterations(run.folder)]


def test_what_cannot_be_repeated_is_said(tmp_path):
    run = kept_run(tmp_path / "run", tiny_config())
    sentence = str(replay(run))
    assert "everything is finite" in sentence
    assert "backend fused" in sentence


def test_only_kept_iterations_can_be_replayed(tmp_path):
    run = kept_run(tmp_path / "run", tiny_config(), iteration=3)
    with pytest.raises(SettingError, match="iteration must be one of 3"):
        replay(run, 4)
    path = kept_file(run.folder, 3)
    write_tensors(path, {"a": np.ones(1)}, read_tensors(path)[1])
    with pytest.raises(RunError, match=f"{path} holds the parameters of another model"):
        replay(run)
    (tmp_path / "none").mkdir()
    write_config(tmp_path / "none", tiny_config(), "fused", 1)
    with pytest.raises(SettingError, match="no skipped updates to replay"):
        replay(tmp_path / "none")
