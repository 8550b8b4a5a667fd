"""Optimisers and schedules: any of optax or of a file, as optax alone would do it."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from constrained_dnc.config import Config, TrainingConfig, as_dict, make_config
from constrained_dnc.errors import SettingError
from constrained_dnc.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from constrained_dnc.training.loop import train
from constrained_dnc.training.optimiser import guarded_update, make_optimiser, make_schedule
from constrained_dnc.training.selection import new_rules
from tiny_runs import tiny_config

USER = """
import jax.numpy as jnp
import optax

def signed(learning_rate, decay=0.5):
    return optax.chain(optax.scale_by_sign(), optax.add_decayed_weights(decay),
                       optax.scale_by_learning_rate(learning_rate))

def steps(count, every=2):
    return 0.1 * 0.5 ** (count // every)

def branches(count):
    return 0.1 if count < 5 else 0.01

def vector(count):
    return jnp.ones(2) * count

def no_optimiser(learning_rate):
    return 3
"""
PARAMETERS = {"w": jnp.array([[1.0, -2.0], [0.5, 3.0]]), "b": jnp.array([0.1, 0.2])}


def gradient_at(step):
    return jax.tree.map(lambda leaf: jnp.sin(leaf * (step + 1)), PARAMETERS)


@pytest.fixture
def user_file(tmp_path):
    (tmp_path / "mine.py").write_text(USER)
    return f"{tmp_path}/mine.py"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, lambda: optax.adam(0.1)),
        ({"optimiser": "adamw"}, lambda: optax.adamw(0.1, weight_decay=0.0)),
        (
            {"optimiser": "adamw,weight_decay=0.2"},
            lambda: optax.adamw(0.1, weight_decay=0.2),
        ),
        (
            {"optimiser": "adamw", "weight_decay": 0.3, "beta_1": 0.5},
            lambda: optax.adamw(0.1, b1=0.5, weight_decay=0.3),
        ),
        (
            {"optimiser": "sgd,momentum=0.9,nesterov=True"},
            lambda: optax.sgd(0.1, 0.9, nesterov=True),
        ),
        ({"optimiser": "sgd,momentum=0.9,nesterov=false"}, lambda: optax.sgd(0.1, 0.9)),
        ({"optimiser": "rmsprop"}, lambda: optax.rmsprop(0.1)),
        ({"optimiser": "lion", "weight_decay": 0.1}, lambda: optax.lion(0.1, weight_decay=0.1)),
        ({"optimiser": "adafactor"}, lambda: optax.adafactor(0.1)),
        (
            {"optimiser": "noisy_sgd,eta=0.01,gamma=0.5,key=3"},
            lambda: optax.noisy_sgd(0.1, eta=0.01, gamma=0.5, key=3),
        ),
        (
            {"optimiser": "sgd", "schedule": "cosine", "iterations": 10},
            lambda: optax.sgd(optax.cosine_decay_schedule(0.1, 10)),
        ),
    ],
)
def test_updates_are_those_of_optax_also_after_a_checkpoint(tmp_path, settings, expected):
    """Four steps, with a checkpoint in the middle, against four steps of optax without one."""
    config = tiny_config(learning_rate=0.1, clip_norm=1.0, **settings)
    optimiser = make_optimiser(config.training)
    update, rules = guarded_update(optimiser), new_rules(4)
    ours, theirs = PARAMETERS, PARAMETERS
    state, reference = optimiser.init(ours), expected()
    their_state = reference.init(theirs)
    for step in range(4):
        ours, state, norm, is_finite = update(ours, state, gradient_at(step), 0.5)
        assert is_finite
        if step == 1:
            save_checkpoint(tmp_path, config, Progress(ours, state, rules, iteration=2))
            fresh = Progress(PARAMETERS, optimiser.init(PARAMETERS), new_rules(4))
            assert load_checkpoint(tmp_path, config, fresh, pytest.fail)
            ours, state = fresh.model, fresh.optimiser
        clipped = jax.tree.map(lambda leaf: leaf / max(float(norm), 1.0), gradient_at(step))  # noqa: B023
        changes, their_state = reference.update(clipped, their_state, theirs)
        theirs = optax.apply_updates(theirs, changes)
    for name in PARAMETERS:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=2e-5)


def test_a_user_defined_optimiser(user_file):
    config = TrainingConfig(
        learning_rate=0.1, optimiser=f"{user_file}:signed,decay=0.2", clip_norm=100.0
    )
    optimiser = make_optimiser(config)
    changes, _ = optimiser.update(gradient_at(0), optimiser.init(PARAMETERS), PARAMETERS)
    for name, leaf in PARAMETERS.items():
        expected = -0.1 * (np.sign(np.sin(leaf)) + 0.2 * np.asarray(leaf))
        np.testing.assert_allclose(changes[name], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("linear", lambda t: 0.4 * (1 - t)),
        ("linear,final=0.5", lambda t: 0.4 * (1 - 0.5 * t)),
        ("cosine", lambda t: 0.2 * (1 + math.cos(math.pi * t))),
        ("cosine,final=0.1", lambda t: 0.4 * (0.1 + 0.45 * (1 + math.cos(math.pi * t)))),
        (
            "warmup-cosine,warmup=50",
            lambda t: 0.8 * t if t < 0.5 else 0.2 * (1 + math.cos(math.pi * (2 * t - 1))),
        ),
        (
            "warmup-cosine",
            lambda t: 4 * t if t < 0.1 else 0.2 * (1 + math.cos(math.pi * (t - 0.1) / 0.9)),
        ),
    ],
)
def test_schedules(text, expected):
    schedule = make_schedule(TrainingConfig(100, learning_rate=0.4, schedule=text))
    for count in range(0, 101, 10):
        assert float(schedule(count)) == pytest.approx(expected(count / 100), abs=1e-6)


def test_a_user_defined_schedule(user_file):
    schedule = make_schedule(TrainingConfig(schedule=f"{user_file}:steps,every=3"))
    assert [float(schedule(n)) for n in (0, 2, 3, 6)] == [0.1, 0.1, 0.05, 0.025]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"optimiser": "adamm"},
            r"optimiser must be one of .*\(did you mean adam\?\), or",
        ),
        ({"optimiser": "sgd,momentun=1"}, "sgd,momentun=1 cannot be used .*'momentun'"),
        ({"optimiser": "sgd,nesterov=yes"}, "nesterov of sgd must be true or false, not 'yes'"),
        ({"optimiser": "lion,b1=high"}, "b1 of lion must be a number, not 'high'"),
        ({"optimiser": "lbfgs"}, r"optimiser must be one of (?!.*lbfgs,)"),
        ({"optimiser": "FILE:no_optimiser"}, "no_optimiser cannot be used"),
        ({"weight_decay": 0.1}, "training.weight_decay has no effect on adam$"),
        ({"optimiser": "lion", "beta_1": 0.5}, "beta_1 has no effect on lion; use lion,b1=0.5"),
        (
            {"optimiser": "adamw,weight_decay=0.1", "weight_decay": 9.0},
            "training.weight_decay and the setting weight_decay of .* are the same setting",
        ),
        ({"schedule": "cosin"}, r"schedule must be one of .*\(did you mean cosine\?\), or file.py"),
        ({"schedule": "cosine,finl=0"}, r"cosine has no setting 'finl' \(did you mean final\?\)"),
        ({"schedule": "cosine,final=2"}, "cosine.final must be a number from 0 to 1, not 2"),
        ({"schedule": "warmup-cosine,warmup=40"}, "warmup-cosine.warmup must be an integer from 1"),
        ({"schedule": "FILE:steps,every=few"}, "every of .*:steps must be a number, not 'few'"),
        ({"schedule": "FILE:branches"}, "branches cannot be used .*traced"),
        ({"schedule": "FILE:vector"}, "vector must return one number"),
    ],
)
def test_what_cannot_be_used_is_one_sentence_and_no_folder(tmp_path, user_file, settings, sentence):
    settings = {
        name: value.replace("FILE", user_file) if isinstance(value, str) else value
        for name, value in settings.items()
    }
    with pytest.raises(SettingError, match=sentence) as raised:
        train(tiny_config(**settings), tmp_path / "run")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_only_a_schedule_over_all_iterations_ties_the_run_to_their_number():
    def run_ids(**settings):
        config = make_config("sort", "compr")
        return {
            replace(config, training=TrainingConfig(n, **settings)).run_id for n in (1000, 2000)
        }

    assert len(run_ids()) == len(run_ids(optimiser="adamw")) == 1
    assert len(run_ids(schedule="cosine,final=0.1")) == 2
    assert not run_ids() & run_ids(optimiser="adamw")
    assert len(run_ids(schedule="mine.py:steps")) == 1


def test_a_run_with_a_schedule_does_not_become_longer(tmp_path):
    train(tiny_config(iterations=4, schedule="cosine"), tmp_path / "run", threads=1)
    with pytest.raises(SettingError, match=r"iterations is 4, not 6; the schedule cosine is spr"):
        train(tiny_config(iterations=6, schedule="cosine"), tmp_path / "run", threads=1)


def test_a_config_stored_without_these_settings_is_that_of_the_defaults():
    config = make_config("sort", "compr")
    values = as_dict(config)
    del values["start"]
    for name in ("optimiser", "schedule", "weight_decay", "curriculum"):
        del values["training"][name]
    assert Config.from_dict(values) == config
