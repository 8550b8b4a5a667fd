"""Checkpoints: two files in turns, damage, other configs."""

import json
import math
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from constrained_dnc.choices import RULES
from constrained_dnc.errors import RunError
from constrained_dnc.files import read_tensors, write_tensors
from constrained_dnc.training.checkpoint import Checkpoints, Progress
from constrained_dnc.training.disk import CHECKPOINTS
from constrained_dnc.training.selection import new_selections
from tiny_runs import tiny_config

CONFIG = tiny_config()


def progress_at(iteration: int) -> Progress:
    selections = new_selections(CONFIG.training.window)
    selections["unseen"].add(iteration, 0.1 * iteration)
    selections["unseen"].add(iteration, math.inf)
    return Progress(
        parameters={"w": jnp.full(3, float(iteration))},
        optimiser=({"count": jnp.asarray(iteration)},),
        selections=selections,
        selected={"unseen": {"w": jnp.ones(3)}},
        iteration=iteration,
        skipped_updates=2,
        skipped_in_a_row=1,
        metrics_bytes=77,
        metrics_checksum="abc",
        sums={"loss": [0.1 + 0.2, 2.0]},
    )


def saved(folder, *iterations):
    checkpoints = Checkpoints(folder, CONFIG, "fused", 2)
    for iteration in iterations:
        checkpoints.save(progress_at(iteration))
    return checkpoints


def load(folder, config=CONFIG, warnings=None, threads=2):
    warnings = [] if warnings is None else warnings
    return Checkpoints(folder, config, "fused", threads).load(progress_at(0), warnings.append)


def test_everything_comes_back(tmp_path):
    saved(tmp_path, 5)
    found, original = load(tmp_path), progress_at(5)
    np.testing.assert_array_equal(found.parameters["w"], original.parameters["w"])
    np.testing.assert_array_equal(found.optimiser[0]["count"], 5)
    np.testing.assert_array_equal(found.selected["unseen"]["w"], np.ones(3))
    assert list(found.selected) == ["unseen"]
    for name in (
        "iteration",
        "skipped_updates",
        "skipped_in_a_row",
        "metrics_bytes",
        "metrics_checksum",
        "sums",
    ):
        assert getattr(found, name) == getattr(original, name)
    for rule in RULES:
        assert found.selections[rule].to_values() == original.selections[rule].to_values()


def test_no_checkpoint_is_no_progress(tmp_path):
    assert load(tmp_path) is None


@pytest.mark.parametrize("stops", [(), (13,), (3, 7, 25), (33, 34), (10, 20, 31), (40, 41)])
def test_files_take_turns_however_often_a_run_is_stopped(tmp_path, stops):
    due, end = {10, 20, 30, 40}, 45
    for folder, iterations in (("a", due | {end}), ("b", due | {end} | set(stops))):
        (tmp_path / folder).mkdir()
        saved(tmp_path / folder, *sorted(iterations))
        assert load(tmp_path / folder).iteration == end
    for name in CHECKPOINTS:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_longer_run_has_the_checkpoints_it_would_have_had(tmp_path):
    longer = replace(CONFIG, training=replace(CONFIG.training, iterations=45))
    for folder, first in (("a", longer), ("b", CONFIG)):
        (tmp_path / folder).mkdir()
        Checkpoints(tmp_path / folder, first, "fused", 2).save(progress_at(40))
        Checkpoints(tmp_path / folder, longer, "fused", 2).save(progress_at(45))
    for name in CHECKPOINTS:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_checkpoint_of_other_threads_is_refused(tmp_path):
    saved(tmp_path, 1)
    with pytest.raises(RunError, match=r"different: threads \(3 and 2\)"):
        load(tmp_path, threads=3)


def as_before(about):
    """What a checkpoint said before it knew of threads and checksums."""
    config = json.loads(CONFIG.to_json())
    dropped = ("backend", "threads", "metrics_checksum", "config")
    return {name: value for name, value in about.items() if name not in dropped} | {
        "config": config
    }


def test_a_checkpoint_without_threads_and_checksum_is_read(tmp_path):
    saved(tmp_path, 1)
    tensors, about = read_tensors(tmp_path / CHECKPOINTS[0])
    write_tensors(tmp_path / CHECKPOINTS[0], tensors, as_before(about))
    found = load(tmp_path, threads=3)
    assert (found.iteration, found.metrics_checksum) == (1, None)


@pytest.mark.parametrize(
    "change",
    [
        {"sums": None, "selections": 3},
        {"iteration": "1"},
        {"config": []},
        {"config": {"training": 3}},
        {"selections": {"unseen": {}}},
    ],
)
def test_strange_values_in_a_checkpoint_are_one_sentence(tmp_path, change):
    saved(tmp_path, 1)
    tensors, about = read_tensors(tmp_path / CHECKPOINTS[0])
    write_tensors(tmp_path / CHECKPOINTS[0], tensors, about | change)
    with pytest.raises(RunError, match="checkpoint"):
        load(tmp_path)


def damage(path, how):
    content = bytearray(path.read_bytes())
    if how == "flip":
        content[len(content) // 2] ^= 0xFF
    path.write_bytes(content if how == "flip" else content[: len(content) // 2])


@pytest.mark.parametrize("how", ["flip", "truncate"])
def test_damaged_newest_costs_a_warning_and_is_the_next_to_be_overwritten(tmp_path, how):
    saved(tmp_path, 10, 20)
    damage(tmp_path / CHECKPOINTS[1], how)
    warnings = []
    checkpoints = Checkpoints(tmp_path, CONFIG, "fused", 2)
    assert checkpoints.load(progress_at(0), warnings.append).iteration == 10
    assert len(warnings) == 1
    assert CHECKPOINTS[1] in warnings[0]
    checkpoints.save(progress_at(20))
    assert load(tmp_path, warnings=warnings).iteration == 20
    assert len(warnings) == 1


@pytest.mark.parametrize("how", ["flip", "truncate"])
def test_two_damaged_ones_are_an_error_and_stay(tmp_path, how):
    saved(tmp_path, 10, 20)
    for name in CHECKPOINTS:
        damage(tmp_path / name, how)
    before = [(tmp_path / name).read_bytes() for name in CHECKPOINTS]
    with pytest.raises(RunError, match=r"nothing was changed.*-a\..*-b\."):
        load(tmp_path)
    assert [(tmp_path / name).read_bytes() for name in CHECKPOINTS] == before


def test_checkpoint_of_another_config_is_refused_with_the_fields(tmp_path):
    saved(tmp_path, 1)
    other = replace(CONFIG, seed=9, training=replace(CONFIG.training, learning_rate=0.5))
    with pytest.raises(RunError, match=r"seed \(9 and 0\), training.learning_rate \(0.5 and"):
        load(tmp_path, other)


def test_another_kind_of_file_is_no_checkpoint(tmp_path):
    write_tensors(tmp_path / CHECKPOINTS[0], {"parameters/w": np.ones(3)}, {"iteration": 7})
    with pytest.raises(RunError, match="is not a checkpoint"):
        load(tmp_path)
