"""The arrays behind the analyses, from the parameters of a run."""

from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest

from constrained_dnc import build_dnc, get_task
from constrained_dnc.evaluation.analyses import analyse_run, analyse_states
from constrained_dnc.evaluation.states import drift
from constrained_dnc.training.batches import evaluation_batch
from constrained_dnc.training.run import Run, write_selected
from tiny_runs import tiny_config

CLIP = 0.25


def make_run(folder: Path, approach: str = "compr", task: str = "copy", scale: float = 4.0) -> Run:
    """A run with random parameters, large enough for states beyond the clip."""
    config = tiny_config(task, approach)
    config = replace(config, model=replace(config.model, clip_value=CLIP))
    network = build_dnc(config.approach, get_task(task), config.model, key=jax.random.key(0))
    parameters, others = eqx.partition(network, eqx.is_inexact_array)
    parameters = jax.tree.map(lambda leaf: scale * leaf, parameters)
    write_selected(folder, config, "unseen", eqx.combine(parameters, others), 1, 0.5)
    return Run(folder, config, "pure", threads=1)


@pytest.mark.parametrize("approach", ["stateful-baseline", "compr"])
def test_carried_states_before_compression_and_modes(tmp_path: Path, approach: str) -> None:
    run = make_run(tmp_path, approach)
    arrays = analyse_run(run, ["score", "unseen"])
    assert arrays["selection"] == "unseen"  # nothing was selected by score
    batch = evaluation_batch(run.task, run.config.evaluation, 3, 0)  # the unseen length
    unrolled = run.selected("unseen").model.unroll(batch.inputs, internals=True)
    before, carried = (
        np.asarray(states)
        for states in (unrolled.internals.uncompressed_cell_state, unrolled.cell_states)
    )
    assert np.abs(before).max() > CLIP >= np.abs(carried).max()  # the clip does something
    states = before if approach == "compr" else carried
    expected = analyse_states(states, run.task.encoding_steps(3), batch.num_steps)
    assert arrays["encoding_steps"] == run.task.encoding_steps(3)
    np.testing.assert_allclose(arrays["curvature"], expected["curvature"], rtol=1e-4)
    np.testing.assert_allclose(
        np.abs(arrays["states"]), np.abs(expected["states"]), rtol=1e-3, atol=1e-4
    )
    model = run.selected("unseen").model
    expected_drift = drift(model, run.task, (1, 2), (3, 4)).relative  # 4: the longest evaluated
    np.testing.assert_array_equal(arrays["drift_lengths"], (3, 4))
    np.testing.assert_allclose(arrays["drift_by_length"], expected_drift, rtol=1e-4)
    assert arrays["drift"] == arrays["drift_by_length"][0, 1]
    encoding = run.task.encoding_steps(2)  # the longest training length
    decoding = run.task.num_steps(2) - encoding
    samples, reads = run.config.evaluation.batch_size, run.config.model.num_reads
    assert arrays["write_mode_encoding"].sum() == encoding * samples
    assert arrays["write_mode_decoding"].sum() == decoding * samples
    assert arrays["read_mode_encoding"].sum() == encoding * samples * reads
    assert arrays["read_mode_decoding"].sum() == decoding * samples * reads


def test_modes_of_search_leave_out_the_query_and_the_padding(tmp_path: Path) -> None:
    run = make_run(tmp_path, task="search")
    arrays = analyse_run(run)
    problems = evaluation_batch(run.task, run.config.evaluation, 2, 0).problems
    hits = sum(problem.data.count(problem.query) for problem in problems)
    reads = run.config.model.num_reads
    assert arrays["write_mode_encoding"].sum() == 3 * len(problems)  # two numerals and the flag
    # One step per position of the query, and one for the end signal.
    assert arrays["write_mode_decoding"].sum() == hits + len(problems)
    assert arrays["read_mode_decoding"].sum() == (hits + len(problems)) * reads


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize(
    ("approach", "scale"), [("stateless-baseline", 1.0), ("compr", float("nan"))]
)
def test_without_finite_states_there_are_modes_only(
    tmp_path: Path, approach: str, scale: float
) -> None:
    arrays = analyse_run(make_run(tmp_path, approach, scale=scale))
    modes, phases = ("read_mode", "write_mode"), ("decoding", "encoding")
    expected = [f"{mode}_{phase}" for mode in modes for phase in phases]
    assert sorted(arrays) == sorted([*expected, "iteration", "selection"])
