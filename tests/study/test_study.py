"""Reading studies, finished and not, with whatever else lies in their folders."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.evaluation.results import COLUMNS
from constrained_dnc.report import build_report
from constrained_dnc.study import read_study
from made_up import add_rows
from synthetic import Request, row, run_folder, run_id, write_study

SMALL = Request(tasks=("sort",), approaches=("reg",), trials=2, analysis=False, extended=False)
FIRST, SECOND = (run_id("sort", "reg", seed) for seed in (0, 1))


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A study of two runs that have no results yet."""
    request = Request(tasks=("sort",), approaches=("reg",), trials=2, analysis=False, growing=True)
    write_study(tmp_path, request)
    for table in tmp_path.glob("runs/*/evaluation.parquet"):
        table.unlink()
    return tmp_path


def add(study: Path, seed: int, *rows: dict[str, object], iterations: int = 20_000) -> None:
    add_rows(study, [row | {"iterations": iterations} for row in rows])


def test_results_come_back_in_order(empty: Path) -> None:
    for seed in (1, 0):
        rows = [
            row("sort", "reg", seed, length, 0.1 * length, memory=memory)
            for memory in ("growing", "500", "50")
            for length in (5, 2)
        ]
        add(empty, seed, *rows)
    results = read_study(empty).results
    assert results.dtypes.astype(str).to_dict() == COLUMNS
    key = results[["seed", "memory", "length"]].itertuples(index=False, name=None)
    assert list(key) == [
        (seed, memory, length)
        for seed in (0, 1)
        for memory in ("50", "500", "growing")
        for length in (2, 5)
    ]
    np.testing.assert_allclose(results["score"], [0.2, 0.5] * 6)


def test_a_longer_training_replaces_a_shorter_one_but_not_its_history(empty: Path) -> None:
    for iterations in (100, 20_000):
        add(empty, 0, row("sort", "reg", 0, 2, iterations / 1e5), iterations=iterations)
    study = read_study(empty)
    assert study.results["score"].tolist() == [0.2]
    assert study.history["score"].tolist() == [0.001, 0.2]
    assert study.runs["iterations"].to_dict() == {FIRST: 20_000}


@pytest.mark.parametrize(
    "foreign",
    [
        {"run_id": "0123456789abcdef"},
        {"task": "<script>"},
        {"approach": "compr"},
        {"seed": 1},
        {"iterations": 10**9},
        {"score": 5.0},
        {},  # the same row twice
    ],
    ids=str,
)
def test_rows_that_are_not_of_the_run_do_not_count(empty: Path, caplog, foreign) -> None:
    own = row("sort", "reg", 0, 2, 0.75)
    add_rows(empty, [own])
    path = run_folder(empty, "sort", "reg", 0) / "evaluation.parquet"
    table = pd.read_parquet(path)
    pd.concat([table, table.assign(**foreign)]).to_parquet(path)
    assert read_study(empty).history["score"].tolist() == [0.75]
    assert "1 rows of it are not of this run" in caplog.text


def test_scores_that_the_study_did_not_ask_for_are_left_to_the_run(empty: Path, caplog) -> None:
    others = {"length": 101}, {"memory": "80"}, {"length": 3, "memory": "500"}
    rows = [row("sort", "reg", 0, 2, 1.0), *(row("sort", "reg", 0, 2, 1.0) | it for it in others)]
    add_rows(empty, rows)
    assert len(read_study(empty).results) == 1
    assert not caplog.text


def test_what_is_no_run_of_the_study_is_named_and_ignored(tmp_path: Path, caplog) -> None:
    path = write_study(tmp_path / "study", SMALL)
    other = write_study(tmp_path / "other", Request(("sort",), ("reg",), 1, preset="quick"))
    first = run_folder(path, "sort", "reg", 0)
    shutil.copytree(first, path / "runs" / "sort-reg-0 (copy)")
    shutil.copytree(run_folder(other, "sort", "reg", 0), path / "runs" / "a-foreign-one")
    shutil.copytree(first, path / "runs" / "damaged")
    (path / "runs" / "damaged" / "config.json").write_text("{")
    (path / "runs" / "thesis").mkdir()
    (path / "runs" / "notes.txt").touch()
    assert list(read_study(path).members) == [FIRST, SECOND]
    words = {
        "sort-reg-0 (copy) is ignored": "is of the same trial",
        "a-foreign-one is ignored": "other settings",
        "damaged/config.json cannot be read": "it is ignored",
        "thesis is not a run directory": "it is ignored",
        "notes.txt is not a run directory": "it is ignored",
    }
    for start, end in words.items():
        assert any(start in line and end in line for line in caplog.messages), start
    assert len(caplog.messages) == len(words)


def test_a_corrupt_file_is_named_and_left_out(empty: Path, caplog) -> None:
    add(empty, 0, row("sort", "reg", 0, 2, 1.0))
    (run_folder(empty, "sort", "reg", 1) / "evaluation.parquet").write_bytes(b"not parquet")
    study = read_study(empty)
    assert len(study.results) == 1
    assert "sort-reg-1/evaluation.parquet cannot be read" in caplog.text
    assert "sort, reg: 1 of 2 trials have results." in study.missing()


def test_the_papers_rule_comes_first(empty: Path) -> None:
    rules = ("seen", "score", "unseen")
    add(empty, 0, *(row("sort", "reg", 0, 2, 0.1, selection=rule) for rule in rules))
    assert read_study(empty).selections == ("unseen", "seen", "score")


def test_missing_names_trials_memories_and_analyses(tmp_path: Path) -> None:
    request = Request(tasks=("sort",), approaches=("reg",), trials=2, analysis=False, growing=True)
    path = write_study(tmp_path, request)
    (run_folder(path, "sort", "reg", 1) / "evaluation.parquet").unlink()
    assert read_study(path).missing() == [
        "sort, reg: 1 of 2 trials have results.",
        "sort, reg: 1 of 2 trials have results with memory 500.",
        "sort, reg: 1 of 2 trials have results with memory growing.",
        "1 of 1 runs have no readable analysis; resume the study to compute it.",
    ]


def test_what_a_study_says_of_its_settings(tmp_path: Path) -> None:
    study = read_study(write_study(tmp_path, Request(growing=True, trials=1, analysis=False)))
    assert (study.memory_size, study.memories) == (50, ("50", "500", "growing"))
    assert (study.training_lengths, study.unseen_length) == ((5, 15), 30)
    assert study.config.training.learning_rate == 1e-3
    assert study.requested["copy", "compr"] == (1, 20_000)
    assert study.failures == ()


def test_brackets_in_a_path_are_only_brackets(tmp_path: Path) -> None:
    for name in ("x[12]", "x1"):
        write_study(tmp_path / name, SMALL)
    shutil.rmtree(run_folder(tmp_path / "x[12]", "sort", "reg", 1))
    assert list(read_study(tmp_path / "x[12]").runs.index) == [FIRST]


def test_a_corrupt_analysis_is_left_out_and_named(tmp_path: Path) -> None:
    path = write_study(tmp_path, replace(SMALL, analysis=True, samples=3))
    file = run_folder(path, "sort", "reg", 1) / "analyses.npz"
    file.write_bytes(file.read_bytes()[:-9])
    study = read_study(path)
    assert study.analysis(SECOND, "states") == {}
    assert list(study.analysis(FIRST, "states")) == ["states"]
    (missing,) = study.missing()
    assert missing.startswith("1 of 2 runs have no readable")


def test_a_directory_without_study_json_is_no_study_and_a_corrupt_one_is_named(empty: Path) -> None:
    path = empty / "study.json"
    for text in ("{", "3", '{"rules": 3}', '{"inferences": null}', '{"format": 2}'):
        path.write_text(text)
        with pytest.raises(RunError, match=r"study\.json cannot be read"):
            read_study(empty)
    path.unlink()
    with pytest.raises(SettingError, match=r"a directory with a study\.json"):
        read_study(empty)


def test_a_link_in_place_of_a_traceback_is_not_read(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", SMALL)
    (tmp_path / "secret").write_text("Traceback\nsecret")
    (run_folder(path, "sort", "reg", 0) / "failure.txt").symlink_to(tmp_path / "secret")
    assert read_study(path).failures == ()


@pytest.mark.parametrize("name", ["report", "report/tables", "embeddings"])
def test_a_report_writes_nothing_through_a_link(tmp_path: Path, name: str) -> None:
    path = write_study(tmp_path / "study", replace(SMALL, analysis=True, samples=3))
    (tmp_path / "mine").mkdir()
    (path / name).parent.mkdir(exist_ok=True)
    (path / name).symlink_to(tmp_path / "mine")
    with pytest.raises(RunError, match=f"{name} is a link"):
        build_report(path, figures="all")
    assert not list((tmp_path / "mine").iterdir())


def test_the_shipped_results_are_complete() -> None:
    study = read_study(Path(__file__).parents[2] / "results" / "paper-100k")
    assert set(study.members) == set(study.runs.index)
    assert study.missing() == []
    measured = study.results[study.results["batches"] > 0]
    assert measured[["score", "sequence_accuracy", "floor"]].notna().all(axis=None)
    grids = study.results.groupby(["run_id", "selection", "memory", "inference"])["length"].agg(
        tuple
    )
    assert grids.groupby("memory").nunique().eq(1).all()
    assert pd.isna(study.results[study.results["batches"] == 0]["score"]).all()
