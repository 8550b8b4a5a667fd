"""Tables of scores against the answers of `predict`, and everything around them."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.evaluation import lengths
from constrained_dnc.evaluation.lengths import evaluate, predict
from constrained_dnc.model.backend import PureBackend, choose_backend
from constrained_dnc.study.disk import SCHEMA
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.loop import train
from constrained_dnc.training.run import load_run, write_config
from constrained_dnc.training.streams import evaluation_batch
from tiny_runs import tiny_config


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(tiny_config(), tmp_path_factory.mktemp("runs") / "copy", threads=1)


def test_arrays_are_lists_too_and_what_is_no_list_is_refused(run):
    asked = {"lengths": np.arange(2, 4), "memory_sizes": np.array([4, 9]), "store": False}
    found = [(row["memory_size"], row["length"]) for row in evaluate(run, **asked).to_pylist()]
    assert found == [(4, 2), (4, 3), (9, 2), (9, 3)]
    for name, wrong in (("lengths", []), ("memory_sizes", []), ("memory_sizes", "growing")):
        with pytest.raises(SettingError, match=f"{name} is .*accepted: a list of at least one"):
            evaluate(run, **{name: wrong}, store=False)


def test_more_rows_than_anybody_can_read_are_refused(run, monkeypatch):
    monkeypatch.setattr(lengths, "MOST_ROWS", 5)
    with pytest.raises(SettingError, match="accepted: at most 5 pairs of them"):
        evaluate(run, lengths=[2, 3], memory_sizes=[4, 5, 6], store=False)


def test_only_longer_inputs_are_given_up(run):
    asked = {"lengths": [9, 12, 1, 2], "memory_sizes": ["growing"], "store": False}
    found = evaluate(run, **asked).to_pylist()
    assert found[0]["score"] < 0.5  # nothing was learnt
    assert [row["length"] for row in found] == [9, 1, 2]


def test_scores_are_those_of_the_predictions(run):
    """Accuracy by hand: the share of right numerals in what `predict` answers."""
    table = evaluate(run, lengths=[2, 3], memory_sizes=[4, 9], batches=1).to_pylist()
    assert [(row["memory_size"], row["length"]) for row in table] == [
        (4, 2),
        (4, 3),
        (9, 2),
        (9, 3),
    ]
    for row in table:
        batch = evaluation_batch(run.task, run.config, row["length"], 0)
        right, whole = [], []
        for problem in batch.problems:
            text = run.task.format_problem(problem)
            answer = predict(run, text, memory_size=row["memory_size"])
            right += [a == b for a, b in zip(answer, problem, strict=True)]
            whole.append(answer == problem)
        assert row["score"] == pytest.approx(np.mean(right), abs=1e-12)
        assert row["sequence_accuracy"] == pytest.approx(np.mean(whole), abs=1e-12)


def test_table_says_where_every_number_comes_from(run):
    table = evaluate(run)
    assert {name for name in SCHEMA.names if table[name].null_count} == {"recall"}
    rows = table.to_pylist()
    assert [row["length"] for row in rows] == [1, 2, 3, 4]
    for row in rows:
        assert row["run_id"] == run.config.run_id
        assert (row["task"], row["approach"], row["seed"]) == ("copy", "compr", 0)
        assert (row["memory_size"], row["batches"], row["batch_size"]) == (4, 2, 4)
        assert (row["score_kind"], row["selection"]) == ("accuracy", "unseen")
        assert row["iteration"] == run.selected("unseen").iteration
        assert (row["iterations"], row["status"]) == (40, "finished")
        assert (row["skipped_updates"], row["recall"]) == (0, None)
    stored = pq.read_table(run.folder / "evaluation-unseen-4.parquet")
    assert stored.equals(table)


def test_another_memory_size_has_lengths_and_a_file_of_its_own(run):
    table = evaluate(run, memory_sizes=[10], selection="seen")
    assert table["length"].to_pylist() == [2, 5]
    assert set(table["batches"].to_pylist()) == {1}
    assert set(table["iteration"].to_pylist()) == {run.selected("seen").iteration}
    assert pq.read_table(run.folder / "evaluation-seen-10.parquet").equals(table)


def test_evaluation_is_repeatable_and_the_same_from_a_path(run):
    assert evaluate(run).equals(evaluate(str(run.folder)))


def test_recall_of_search(tmp_path):
    run = train(tiny_config("search", iterations=4), tmp_path / "run", threads=1)
    (row,) = evaluate(run, lengths=[3]).to_pylist()
    assert row["score_kind"] == "hit rate"
    assert 0 <= row["recall"] <= 1


def test_progress_ends_at_the_whole(run):
    seen = []
    evaluate(run, progress=lambda done, total, planned: seen.append((done, total, planned.length)))
    assert [length for *_, length in seen] == [1, 2, 3, 4, 4]
    assert [done for done, *_ in seen] == sorted(done for done, *_ in seen)
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1]


def test_many_lengths_are_few_compilations(run, monkeypatch):
    """With the pure backend the number of steps is rounded up."""
    from constrained_dnc.model import backend

    shapes = set()
    compiled = backend._pure_forward

    def spy(model, inputs):
        shapes.add(inputs.shape)
        return compiled(model, inputs)

    monkeypatch.setattr(backend, "_pure_forward", spy)
    monkeypatch.setattr(lengths, "evaluation_backend", lambda run, *_: PureBackend("squared error"))
    pure = evaluate(run, lengths=range(3, 8), batches=1)
    assert {shape[0] for shape in shapes} == {8, 12, 16}
    monkeypatch.undo()
    default = evaluate(run, lengths=range(3, 8), batches=1)
    np.testing.assert_allclose(pure["score"], default["score"], atol=1e-12)


def test_rounding_up_the_steps_changes_nothing(run):
    model = run.model
    pure = PureBackend("squared error")
    inputs = np.random.default_rng(0).normal(size=(7, 3, 2)).astype(np.float32)
    padded = pure.forward(model, inputs)
    plain = model.unroll(inputs)
    np.testing.assert_allclose(padded.outputs, plain.outputs, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(padded.cell_states, plain.cell_states, rtol=1e-5, atol=1e-6)


def test_predict_reads_and_answers_in_plain_values(run):
    answer = predict(run, "3 1 2 4", memory_size=7)
    assert len(answer) == 4
    task, model = get_task("copy"), run.model.with_memory_size(7)
    batch = task.batch_of([(3, 1, 2, 4)])
    backend = choose_backend("auto", model, task.loss, threads=1)
    outputs = np.asarray(backend.forward(model, batch.inputs).outputs)
    assert answer == task.decode(outputs, 4)[0]


@pytest.mark.parametrize("settings", [{"lengths": [0]}, {"memory_sizes": [0]}, {"batches": 0}])
def test_impossible_requests_are_refused(run, settings):
    with pytest.raises(SettingError, match=next(iter(settings)).rstrip("s")):
        evaluate(run, **settings)


def test_run_without_selected_parameters_says_so(tmp_path):
    write_config(tmp_path, tiny_config(), "fused", 1)
    with pytest.raises(RunError, match="no selected parameters yet"):
        evaluate(load_run(tmp_path))
    with pytest.raises(SettingError, match="run directory"):
        evaluate(tmp_path / "nowhere")
