"""Tables of scores, compared with the answers of `predict`."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from constrained_dnc.config import EvaluationConfig
from constrained_dnc.errors import SettingError
from constrained_dnc.evaluation import scoring
from constrained_dnc.evaluation.prediction import predict
from constrained_dnc.evaluation.results import COLUMNS, read_results_file
from constrained_dnc.evaluation.scoring import evaluate, mean_scores
from constrained_dnc.model.backend import PureBackend
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.tasks.task import Scores
from constrained_dnc.training.batches import evaluation_batch
from constrained_dnc.training.loop import train
from tiny_runs import tiny_config


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(tiny_config(), tmp_path_factory.mktemp("runs") / "copy", threads=1)


@pytest.fixture
def stored(run) -> Path:
    """Where the results of the run are stored, with none yet."""
    path = run.folder / "evaluation.parquet"
    path.unlink(missing_ok=True)
    return path


def pairs(table) -> list[tuple[str, int]]:
    return list(table[["memory", "length"]].itertuples(index=False, name=None))


def test_scores_are_those_of_the_predictions(run):
    """Accuracy by hand: the share of right numerals in what `predict` answers."""
    table = evaluate(run, lengths=[3, 2], memories=[4, 9], batches=1)
    assert pairs(table) == [("4", 2), ("4", 3), ("9", 2), ("9", 3)]
    for row in table.to_dict("records"):
        batch = evaluation_batch(run.task, run.config.evaluation, row["length"], 0)
        right, whole = [], []
        for problem in batch.problems:
            answer = predict(run, run.task.format_problem(problem), memory=int(row["memory"]))
            right += [a == b for a, b in zip(answer, problem, strict=True)]
            whole.append(answer == problem)
        assert row["score"] == pytest.approx(np.mean(right), abs=1e-12)
        assert row["sequence_accuracy"] == pytest.approx(np.mean(whole), abs=1e-12)


def test_means_are_over_samples_not_over_batches():
    batches = [Scores(np.array([1.0, 0.5, 0.0]), np.array([1.0, 0.0, 0.0]), np.array([1.0] * 3))]
    batches += [Scores(np.array([1.0]), np.array([1.0]), np.array([0.0]))]
    assert mean_scores(batches) == {"score": 0.625, "sequence_accuracy": 0.5, "recall": 0.75}


def test_table_says_where_every_number_comes_from(run, stored):
    table = evaluate(run)
    assert list(table.columns) == list(COLUMNS)
    assert table.columns[table.isna().any()].tolist() == ["recall", "state_count"]
    assert table["length"].tolist() == [1, 2, 3, 4]
    own = ["length", "score", "sequence_accuracy", "recall", "floor", "state_count"]
    shared = table.drop(columns=own)
    (row,) = shared.drop_duplicates().to_dict("records")
    assert row == {
        "run_id": run.config.run_id,
        "task": "copy",
        "approach": "compr",
        "seed": 0,
        "selection": run.default_rule,
        "iteration": run.selected().iteration,
        "iterations": 40,
        "status": "finished",
        "skipped_updates": 0,
        "memory": "4",
        "inference": "network",
        "batches": 2,
        "batch_size": 4,
        "score_kind": "accuracy",
    }
    pd.testing.assert_frame_equal(read_results_file(stored), table)
    pd.testing.assert_frame_equal(evaluate(str(run.folder)), table)


def test_another_memory_has_other_lengths(run):
    table = evaluate(run, memories=[10], selection="seen")
    assert table["length"].tolist() == [2, 5]
    assert set(table["batches"]) == {1}
    assert set(table["iteration"]) == {run.selected("seen").iteration}


def test_stored_results_are_merged_and_of_two_rows_the_more_precise_is_kept(run, stored):
    first = evaluate(run, memories=[4, 9], lengths=[1, 2, 3])
    evaluate(run, lengths=[5], selection="seen")
    evaluate(run, lengths="2,4", batches=1)
    again = evaluate(run, lengths="3", batches=3)
    table = read_results_file(stored)
    rule = run.default_rule
    assert pairs(table[table["selection"] == rule]) == [
        *(("4", length) for length in (1, 2, 3, 4)),
        *(("9", length) for length in (1, 2, 3)),
    ]
    assert len(table[table["selection"] == "seen"]) == 1
    ours = table[(table["selection"] == rule) & (table["memory"] == "4")].set_index("length")
    assert ours["batches"].tolist() == [2, 2, 3, 1]
    assert ours.loc[2, "score"] == first["score"][1]
    assert ours.loc[3, "score"] == again["score"][0]


def test_a_measured_score_stays_when_the_length_is_given_up(run, stored):
    measured = evaluate(run, lengths=[4, 9], memories=[9])
    given_up = measured.assign(batches=[1, 0], score=[0.5, np.nan])
    merged = scoring.merge(measured, given_up)
    assert merged["batches"].tolist() == [1, 1]
    assert merged["score"].tolist() == [0.5, measured["score"][1]]


def test_results_of_other_parameters_are_replaced(run, stored):
    old = evaluate(run, lengths=[1, 2, 3])
    old.assign(iteration=7).to_parquet(stored)
    evaluate(run, lengths=[4])
    assert read_results_file(stored)["length"].tolist() == [4]


def test_a_corrupt_file_of_results_is_replaced(run, stored, caplog):
    stored.write_bytes(b"PAR1 and no more")
    table = evaluate(run, lengths=[1])
    pd.testing.assert_frame_equal(read_results_file(stored), table)
    assert "evaluation.parquet cannot be read" in caplog.text


def test_stored_rows_are_not_measured_again_on_request(run, stored, monkeypatch):
    before = evaluate(run, lengths=[1, 2, 3])
    measured, score = [], scoring._score
    monkeypatch.setattr(
        scoring, "_score", lambda *args: measured.append(args[-1].length) or score(*args)
    )
    again = evaluate(run, lengths=[1, 2, 3, 4], reuse=True)
    assert measured == [4]
    pd.testing.assert_frame_equal(again[:3], before)
    evaluate(run, lengths=[1], batches=3, reuse=True)
    assert measured == [4, 1]


def test_rows_of_other_models_and_samples_are_not_mixed(run, stored, tmp_path):
    table, other = evaluate(run, lengths=[1]), EvaluationConfig(seed=7, batch_size=4, batches=2)
    for options in ({}, {"reuse": True}, {"reuse": True, "store": tmp_path / "t.parquet"}):
        with pytest.raises(SettingError, match="are for evaluation seed 0, not 7; store those"):
            evaluate(run, lengths=[1], settings=other, **options)
    with pytest.raises(SettingError, match="reuse needs a run"):
        evaluate(run.model, "copy", lengths=[1], store=stored, reuse=True)
    pd.testing.assert_frame_equal(read_results_file(stored), table)
    elsewhere = evaluate(run, lengths=[1], settings=other, store=tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(read_results_file(tmp_path / "t.parquet"), elsewhere)


def test_a_model_of_any_origin_is_evaluated_with_its_task(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = EvaluationConfig(batch_size=4)
    options = {"lengths": [1, 2], "memories": [4, 9], "batches": 2}
    table = evaluate(run.model, "copy", settings=settings, **options)
    known = evaluate(run, **options)
    np.testing.assert_array_equal(table["score"], known["score"])
    assert set(table["run_id"]) == {""}
    assert list(tmp_path.iterdir()) == []
    evaluate(run.model, get_task("copy"), lengths=[1], batches=1, store="mine/table.parquet")
    assert len(read_results_file(Path("mine/table.parquet"))) == 1
    assert predict(run.model, "3 1 2", task="copy") == predict(run, "3 1 2")
    growing = {"lengths": [2], "memories": ["growing"], "batches": 1}
    assert len(evaluate(run.model, "copy", **growing)) == 1
    with pytest.raises(SettingError, match="a model needs its task"):
        evaluate(run.model)
    with pytest.raises(SettingError, match="a run knows its task"):
        evaluate(run, "copy")


def test_a_pretrained_model_is_evaluated_without_a_trace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evaluate("zoo:copy/compr+reg", lengths=[3], batches=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("memory", [4, 9, "growing"])
def test_lengths_after_one_next_to_the_floor_are_given_up(run, monkeypatch, memory):
    """Beyond the slots, or with a growing memory beyond training lengths, of which 2 is the last.

    The model has learnt nothing: no score is far from the floor.
    """
    lengths = list(range(1, 14))
    monkeypatch.setattr(scoring, "least_score_to_go_on", lambda floor: 2.0)
    table = evaluate(run, memories=[memory], lengths=lengths, batches=1)
    assert table["length"].tolist() == lengths
    measured = table[table["batches"] > 0]
    sure = 2 if memory == "growing" else memory
    assert measured["length"].tolist() == list(range(1, sure + 1))
    assert table[table["batches"] == 0][["score", "sequence_accuracy"]].isna().all(axis=None)
    table = evaluate(run, memories=[memory], lengths=lengths, batches=1, all_lengths=True)
    assert (table["batches"] == 1).all()
    monkeypatch.setattr(scoring, "least_score_to_go_on", lambda floor: -1.0)
    assert (evaluate(run, memories=[memory], lengths=[1, 13], batches=1)["batches"] == 1).all()


def test_recall_of_search(tmp_path):
    run = train(tiny_config("search", iterations=4), tmp_path / "run", threads=1)
    (row,) = evaluate(run, lengths=[3]).to_dict("records")
    assert row["score_kind"] == "hit rate"
    assert 0 <= row["recall"] <= 1


def test_progress_goes_from_nothing_to_all_work(run):
    steps = []
    evaluate(run, progress=lambda done, total, planned: steps.append((done, total, planned.length)))
    assert [length for *_, length in steps] == [1, 2, 3, 4, 4]
    assert [done for done, *_ in steps] == sorted(done for done, *_ in steps)
    assert steps[0][0] == 0
    assert steps[-1][0] == steps[-1][1]


def test_many_lengths_are_few_compilations(run, monkeypatch):
    """With the pure backend the number of steps is rounded up."""
    from constrained_dnc.model import backend

    shapes = set()
    compiled = backend._pure_forward

    def spy(model, inputs, *others):
        shapes.add(inputs.shape)
        return compiled(model, inputs, *others)

    monkeypatch.setattr(backend, "_pure_forward", spy)
    pure = evaluate(run, lengths=range(3, 5), batches=1, backend="pure")
    assert {shape[0] for shape in shapes} == {8, 12}
    default = evaluate(run, lengths=range(3, 5), batches=1)
    np.testing.assert_allclose(pure["score"], default["score"], atol=1e-12)


def test_rounding_up_the_steps_changes_nothing(run):
    model = run.model
    pure = PureBackend("squared error")
    inputs = np.random.default_rng(0).normal(size=(7, 3, 2)).astype(np.float32)
    padded = pure.forward(model, inputs)
    plain = model.unroll(inputs)
    np.testing.assert_allclose(padded.outputs, plain.outputs, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(padded.cell_states, plain.cell_states, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "settings", [{"lengths": [0]}, {"lengths": []}, {"memories": [0]}, {"batches": 0}]
)
def test_impossible_requests_are_refused(run, settings):
    with pytest.raises(SettingError, match=r"length|memory|batches"):
        evaluate(run, **settings)
