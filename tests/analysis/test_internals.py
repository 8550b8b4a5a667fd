"""The arrays behind the analyses, from a trained run."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from constrained_dnc.analysis.internals import analyse_run
from constrained_dnc.analysis.state_space import analyse_states
from constrained_dnc.training.loop import train
from constrained_dnc.training.streams import evaluation_batch
from tiny_runs import tiny_config


def tiny_run(folder, approach="compr", task="copy"):
    return train(tiny_config(task, approach, iterations=10), folder, threads=1)


def test_states_are_those_before_compression_at_the_unseen_length(tmp_path):
    run = tiny_run(tmp_path)
    arrays = analyse_run(run)
    batch = evaluation_batch(run.task, run.config, 3, 0)
    unrolled = run.model.with_memory_size(4).unroll(batch.inputs, internals=True)
    states = np.asarray(unrolled.internals.uncompressed_cell_state)
    assert np.abs(states - np.asarray(unrolled.cell_states)).max() > 1e-3  # compression does much
    expected = analyse_states(states, run.task.encoding_steps(3), batch.num_steps)
    assert arrays["encoding_steps"] == run.task.encoding_steps(3)
    np.testing.assert_allclose(arrays["curvature"], expected["curvature"], rtol=1e-4)
    np.testing.assert_allclose(
        np.abs(arrays["states"]), np.abs(expected["states"]), rtol=1e-3, atol=1e-4
    )


def test_modes_are_counted_at_the_longest_training_length(tmp_path):
    run = tiny_run(tmp_path)
    arrays = analyse_run(run)
    encoding = run.task.encoding_steps(2)
    decoding = run.task.num_steps(2) - encoding
    samples, reads = run.config.evaluation.batch_size, run.config.model.num_reads
    assert arrays["write_mode_encoding"].sum() == encoding * samples
    assert arrays["write_mode_decoding"].sum() == decoding * samples
    assert arrays["read_mode_encoding"].sum() == encoding * samples * reads
    assert arrays["read_mode_decoding"].sum() == decoding * samples * reads


@pytest.mark.parametrize("approach", ["stateful-baseline", "reg", "compr"])
def test_states_are_those_that_are_carried(tmp_path, approach):
    config = tiny_config("copy", approach, iterations=10)
    config = replace(config, model=replace(config.model, clip_value=0.25))
    run = train(config, tmp_path, threads=1)
    batch = evaluation_batch(run.task, config, 3, 0)
    unrolled = run.model.with_memory_size(4).unroll(batch.inputs, internals=True)
    before, carried = (
        np.asarray(states)
        for states in (unrolled.internals.uncompressed_cell_state, unrolled.cell_states)
    )
    assert np.abs(before).max() > 0.25 >= np.abs(carried).max()  # the clip does something
    states = before if approach == "compr" else carried
    expected = analyse_states(states, run.task.encoding_steps(3), batch.num_steps)
    np.testing.assert_allclose(analyse_run(run)["curvature"], expected["curvature"], rtol=1e-4)


def test_modes_of_search_leave_out_the_query_and_the_padding(tmp_path):
    run = tiny_run(tmp_path, task="search")
    arrays = analyse_run(run)
    problems = evaluation_batch(run.task, run.config, 2, 0).problems
    found = sum(problem.data.count(problem.query) for problem in problems)
    reads = run.config.model.num_reads
    assert arrays["write_mode_encoding"].sum() == 3 * len(problems)  # two numerals and the flag
    # One step per position that is found, and one for the end signal.
    assert arrays["write_mode_decoding"].sum() == found + len(problems)
    assert arrays["read_mode_decoding"].sum() == (found + len(problems)) * reads


def test_a_controller_without_a_state_has_modes_only(tmp_path):
    arrays = analyse_run(tiny_run(tmp_path, "stateless-baseline"))
    assert sorted(arrays) == [
        f"{mode}_{phase}"
        for mode in ("read_mode", "write_mode")
        for phase in ("decoding", "encoding")
    ]


@pytest.mark.filterwarnings("ignore:invalid value")
def test_states_that_are_not_finite_are_left_out(tmp_path, monkeypatch):
    run = tiny_run(tmp_path)
    broken = jax.tree.map(lambda leaf: leaf * np.nan if hasattr(leaf, "dtype") else leaf, run.model)
    selected = replace(run.selected("unseen"), model=broken)
    monkeypatch.setattr(type(run), "selected", lambda run, rule=None: selected)
    arrays = analyse_run(run)
    assert "states" not in arrays
    assert arrays["write_mode_encoding"].sum() == 0
