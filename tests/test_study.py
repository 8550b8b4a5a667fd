"""Reading study directories, finished and not."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.evaluation.results import COLUMNS, results_frame
from constrained_dnc.study import read_study, write_results
from synthetic import Request, row, write_study

SMALL = Request(tasks=("sort",), approaches=("reg",), trials=2, samples=3, extended=False)


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A study of two runs that have no results yet."""
    write_study(tmp_path, SMALL)
    shutil.rmtree(tmp_path / "results")
    shutil.rmtree(tmp_path / "analysis")
    return tmp_path


def add(study: Path, seed: int, *rows: dict[str, object], iterations: int = 20_000) -> None:
    rows = tuple(row | {"iterations": iterations} for row in rows)
    write_results(study, f"sort-reg-{seed}", iterations, results_frame(rows))


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
    assert study.runs["iterations"].to_dict() == {"sort-reg-0": 20_000}


def test_only_results_of_the_studys_own_runs_count(empty: Path, caplog) -> None:
    add(empty, 0, row("sort", "reg", 0, 2, 1.0))
    own = empty / "results" / "sort-reg-0-20000.parquet"
    copies = [
        "sort-reg-0-20000 (conflicted copy).parquet",
        "0123456789abcdef-20000.parquet",
        "sort-reg-1-20000.parquet",  # a run of the study, with the results of another
    ]
    for copy in copies:
        shutil.copy(own, own.with_name(copy))
    assert len(read_study(empty).results) == 1
    for copy in copies:
        assert f"{copy} is ignored" in caplog.text


def test_a_corrupt_file_is_named_and_left_out(empty: Path, caplog) -> None:
    add(empty, 0, row("sort", "reg", 0, 2, 1.0))
    (empty / "results" / "sort-reg-1-20000.parquet").write_bytes(b"not parquet")
    study = read_study(empty)
    assert len(study.results) == 1
    assert "sort-reg-1-20000.parquet cannot be read" in caplog.text
    assert "sort, reg: 1 of 2 trials have results." in study.missing()


def test_the_papers_rule_comes_first(empty: Path) -> None:
    rules = ("seen", "score", "unseen")
    add(empty, 0, *(row("sort", "reg", 0, 2, 0.1, selection=rule) for rule in rules))
    assert read_study(empty).selections == ("unseen", "seen", "score")


def test_an_empty_study_says_what_is_missing(empty: Path) -> None:
    study = read_study(empty)
    assert study.results.empty
    assert study.selections == ()
    assert study.missing() == ["sort, reg: 0 of 2 trials have results."]


def test_missing_names_trials_memories_and_analyses(tmp_path: Path) -> None:
    request = Request(tasks=("sort",), approaches=("reg",), trials=2, analysis=False, growing=True)
    path = write_study(tmp_path, request)
    (path / "results" / "sort-reg-1-20000.parquet").unlink()
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
    assert study.settings["training.learning_rate"] == 1e-3
    assert study.requested["copy", "compr"] == (1, 20_000)


def test_brackets_in_a_path_are_only_brackets(tmp_path: Path) -> None:
    for name, score in (("x[12]", 0.25), ("x1", 1.0)):
        write_study(tmp_path / name, SMALL)
        shutil.rmtree(tmp_path / name / "results")
        add(tmp_path / name, 0, row("sort", "reg", 0, 2, score))
    assert read_study(tmp_path / "x[12]").results["score"].tolist() == [0.25]


def test_a_corrupt_analysis_is_left_out_and_named(tmp_path: Path) -> None:
    path = write_study(tmp_path, SMALL)
    file = path / "analysis" / "sort-reg-1.npz"
    file.write_bytes(file.read_bytes()[:-9])
    study = read_study(path)
    assert study.analysis("sort-reg-1", "states") == {}
    assert list(study.analysis("sort-reg-0", "states")) == ["states"]
    (missing,) = study.missing()
    assert missing.startswith("1 of 2 runs have no readable")


def test_a_directory_without_study_json_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"a directory with a study\.json"):
        read_study(tmp_path)


def test_a_corrupt_study_json_gets_one_sentence(empty: Path) -> None:
    path = empty / "study.json"
    content = json.loads(path.read_text())
    changes = {"requests": [{"tasks": "sort"}]}, {"memories": []}, {"settings": {}}, {"runs": 3}
    for text in ("{", "3", *(json.dumps(content | change) for change in changes)):
        path.write_text(text)
        with pytest.raises(RunError, match=r"study\.json cannot be read"):
            read_study(empty)


def test_the_shipped_results_are_complete() -> None:
    study = read_study(Path(__file__).parents[1] / "results" / "paper-100k")
    assert set(study.request["runs"]) == set(study.runs.index)
    measured = study.results[study.results["batches"] > 0]
    assert measured[["score", "sequence_accuracy", "floor"]].notna().all(axis=None)
    grids = study.results.groupby(["run_id", "selection", "memory", "inference"])["length"].agg(
        tuple
    )
    assert grids.groupby("memory").nunique().eq(1).all()
    assert pd.isna(study.results[study.results["batches"] == 0]["score"]).all()
