"""Checkpoints: two alternating files, corrupt ones, those of other runs."""

import math
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from constrained_dnc.config import RULES
from constrained_dnc.errors import RunError
from constrained_dnc.training.checkpoint import COUNTS, Progress, load_checkpoint, save_checkpoint
from constrained_dnc.training.folder import CHECKPOINTS
from constrained_dnc.training.selection import new_rules
from tiny_runs import tiny_config

CONFIG = tiny_config()


def progress_at(iteration: int) -> Progress:
    rules = new_rules(CONFIG.training.window)
    rules["unseen"].selection.add(iteration, 0.1 * iteration)
    rules["unseen"].selection.add(iteration, math.inf)
    rules["unseen"].model = {"w": jnp.ones(3)}
    return Progress(
        model={"w": jnp.full(3, float(iteration))},
        optimiser=({"count": jnp.asarray(iteration)},),
        rules=rules,
        iteration=iteration,
        skipped_updates=2,
        skipped_in_a_row=1,
        sums={"loss": [0.1 + 0.2, 2.0]},
    )


def save(folder, *iterations, config=CONFIG):
    folder.mkdir(exist_ok=True)
    for iteration in iterations:
        save_checkpoint(folder, config, progress_at(iteration))


def load(folder, config=CONFIG, warn=pytest.fail):
    fresh = Progress(
        {"w": jnp.zeros(3)}, ({"count": jnp.asarray(0)},), new_rules(CONFIG.training.window)
    )
    return fresh if load_checkpoint(folder, config, fresh, warn) else None


def test_everything_comes_back(tmp_path):
    save(tmp_path, 5)
    loaded, original = load(tmp_path), progress_at(5)
    np.testing.assert_array_equal(loaded.model["w"], original.model["w"])
    np.testing.assert_array_equal(loaded.optimiser[0]["count"], 5)
    np.testing.assert_array_equal(loaded.rules["unseen"].model["w"], np.ones(3))
    assert loaded.rules["seen"].model is None
    for name in COUNTS:
        assert getattr(loaded, name) == getattr(original, name)
    for rule in RULES:
        values = [each.rules[rule].selection.to_values() for each in (loaded, original)]
        assert values[0] == values[1]


def test_an_optimisers_state_of_any_type_comes_back(tmp_path):
    def state(number):
        return {"key": jax.random.key(number), "mean": jnp.full(3, number / 3, jnp.bfloat16)}

    saved, loaded = (
        Progress({"w": jnp.zeros(3)}, state(number), new_rules(4)) for number in (7, 0)
    )
    save_checkpoint(tmp_path, CONFIG, saved)
    assert load_checkpoint(tmp_path, CONFIG, loaded, pytest.fail)
    assert eqx.tree_equal(loaded.optimiser, saved.optimiser)


@pytest.mark.parametrize("stops", [(), (3, 7, 25), (33, 34), (40, 41)])
def test_files_do_not_depend_on_stops_and_extensions(tmp_path, stops):
    due, end = {10, 20, 30, 40}, 45
    longer = replace(CONFIG, training=replace(CONFIG.training, iterations=end))
    save(tmp_path / "a", *sorted(due | {end}), config=longer)
    save(tmp_path / "b", *sorted(due | set(stops)))
    save(tmp_path / "b", end, config=longer)
    assert load(tmp_path / "b").iteration == end
    for name in CHECKPOINTS:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    save(tmp_path, 1)
    with pytest.raises(RunError, match=f"is a checkpoint of another run, {CONFIG.run_id}"):
        load(tmp_path, replace(CONFIG, seed=9))
