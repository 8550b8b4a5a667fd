"""Digital parts in the folder of a run, and digital inference of runs."""

from dataclasses import replace

import equinox as eqx
import numpy as np
import pytest

from constrained_dnc.errors import RunError
from constrained_dnc.evaluation.digital import Digital, Measured, digital_of, stored_digital
from constrained_dnc.evaluation.prediction import predict
from constrained_dnc.evaluation.results import read_results_file
from constrained_dnc.evaluation.scoring import evaluate
from constrained_dnc.training.folder import DIGITAL
from constrained_dnc.training.loop import train
from tiny_runs import tiny_config

TRIED = (Measured("soft", None, 0.5, 0.25), Measured("one-hot", 3, 0.5, float("nan")))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(tiny_config(), tmp_path_factory.mktemp("runs") / "copy", threads=1)


@pytest.fixture
def calibrations(run, monkeypatch):
    """What `calibrate` is called with; its answer is made up."""
    states = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
    calls = []

    def calibrate(model, task, **options):
        calls.append(options["lengths"])
        return Digital("one-hot", states, 2, TRIED)

    monkeypatch.setattr("constrained_dnc.evaluation.digital.calibrate", calibrate)
    (run.folder / DIGITAL[run.default_rule]).unlink(missing_ok=True)
    return calls


def test_a_calibration_is_stored_and_read_again(run, calibrations):
    first = digital_of(run, run.selected())
    again = digital_of(run, run.selected())
    assert calibrations == [(1, 2)]  # the training lengths
    np.testing.assert_array_equal(first.states, again.states)
    assert (again.writes, again.state_count) == ("one-hot", 2)
    assert str(again.tried) == str(TRIED)


@pytest.mark.parametrize("harm", ["other parameters", "corrupt", "killed"])
def test_a_calibration_that_cannot_be_used_is_made_again(run, calibrations, harm):
    digital_of(run, run.selected())
    path, selected = run.folder / DIGITAL[run.default_rule], run.selected()
    if harm == "other parameters":
        model = selected.model
        moved = eqx.tree_at(lambda dnc: dnc.output_bias, model, model.output_bias + 1)
        selected = replace(selected, load=lambda: moved)
    elif harm == "corrupt":
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    else:
        path.rename(path.with_name(f".{path.name}.0a1b2c3d.unfinished"))
    assert stored_digital(run, selected) is None
    digital_of(run, selected)
    assert len(calibrations) == 2
    assert stored_digital(run, selected) is not None


def test_a_full_disk_costs_nothing_but_the_file(run, calibrations, monkeypatch):
    def full(path, *_):
        raise RunError(f"{path} cannot be written: No space left on device")

    monkeypatch.setattr("constrained_dnc.evaluation.digital.write_tensors", full)
    assert digital_of(run, run.selected()).writes == "one-hot"
    assert not (run.folder / DIGITAL[run.default_rule]).exists()


@pytest.mark.parametrize("memory", [4, 9, "growing"])
def test_digital_scores_are_those_of_the_digital_model(run, calibrations, memory):
    """By hand: the share of right numerals in the answers of the digital model."""
    network = evaluate(run, lengths=[2], memories=[memory])
    table = evaluate(run, lengths=[2], memories=[memory], inference="digital")
    digital = digital_of(run, run.selected()).apply(run.model)
    other = evaluate(
        digital, run.task, lengths=[2], memories=[memory], settings=run.config.evaluation
    )
    assert table["score"][0] == pytest.approx(other["score"][0])
    assert set(table["state_count"]) == {2.0}
    stored = read_results_file(run.folder / "evaluation.parquet")
    stored = stored[stored["memory"] == str(memory)].set_index("inference")
    assert stored.loc["network", "score"] == network["score"][0]
    assert stored.loc["digital", "score"] == table["score"][0]


def test_predict_answers_as_the_digital_model(run, calibrations):
    digital = digital_of(run, run.selected()).apply(run.model)
    problems = [(3, 1), (4, 4), (0, 2)]
    assert predict(run, problems, inference="digital") == predict(digital, problems, task="copy")
