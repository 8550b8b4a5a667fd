"""Reading study directories, whole and partial."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.study import Curves, query, read_study, write_results
from constrained_dnc.study.disk import quarantine_corrupt_files, results_table
from synthetic import Request, row, write_study

REQUEST = {"tasks": ["sort"], "approaches": ["reg"], "trials": 2, "memory_size": 50}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "study.json").write_text(json.dumps(REQUEST))
    return tmp_path


def test_scores_come_back_by_trial_and_length(directory: Path) -> None:
    for seed, scores in enumerate([[1.0, 0.5], [0.9, 0.4]]):
        rows = [
            row("sort", "reg", seed, length, s) for length, s in zip((5, 2), scores, strict=True)
        ]
        write_results(directory, f"sort-reg-{seed}", rows)
    curves = read_study(directory).curves()["sort", "reg"]
    assert curves.run_ids == ("sort-reg-0", "sort-reg-1")
    np.testing.assert_array_equal(curves.lengths, [2, 5])
    np.testing.assert_array_equal(curves.scores, [[0.5, 1.0], [0.4, 0.9]])


def test_an_unevaluated_length_is_nan_and_a_broken_score_is_zero(directory: Path) -> None:
    write_results(directory, "a", [row("sort", "reg", 0, 2, float("nan"), run_id="a")])
    rows = [row("sort", "reg", 1, length, 1.0, run_id="b") for length in (2, 3)]
    write_results(directory, "b", rows)
    scores = read_study(directory).curves()["sort", "reg"].scores
    np.testing.assert_array_equal(scores, [[0.0, np.nan], [1.0, 1.0]])


def test_rows_of_results_have_all_columns_and_no_other() -> None:
    whole = row("sort", "reg", 0, 2, 0.1, memory="trained")
    assert results_table([whole]).to_pylist() == [whole]
    for wrong in (whole | {"accuracy": 0.1}, row("sort", "reg", 0, 2, 0.1)):
        (name,) = wrong.keys() ^ whole.keys()
        with pytest.raises(ValueError, match=f"too few or too many: {name}$"):
            results_table([whole, wrong])


def test_the_papers_rule_comes_first_and_unknown_ones_last(directory: Path) -> None:
    for rule in ("seen", "a-rule", "score", "your-rule", "unseen"):
        write_results(directory, rule, [row("sort", "reg", 0, 2, 0.1, selection=rule)])
    found = read_study(directory).selections
    assert found == ("unseen", "seen", "score", "a-rule", "your-rule")


def test_selections_and_memory_sizes_are_kept_apart(directory: Path) -> None:
    rows = [
        row("sort", "reg", 0, 2, 0.1),
        row("sort", "reg", 0, 2, 0.2, selection="seen"),
        row("sort", "reg", 0, 2, 0.3, memory_size=500, memory="extended"),
        row("sort", "reg", 0, 2, 0.4, memory="growing"),
    ]
    write_results(directory, "sort-reg-0", rows)
    study = read_study(directory)
    assert study.selections == ("unseen", "seen")
    found = [
        study.curves(),
        study.curves("trained", "seen"),
        study.curves("extended"),
        study.curves("growing"),
    ]
    assert [curves["sort", "reg"].scores.item() for curves in found] == [0.1, 0.2, 0.3, 0.4]


def test_an_empty_study_says_what_is_missing(directory: Path) -> None:
    study = read_study(directory)
    assert study.curves() == {}
    assert study.missing() == ["sort, reg: 0 of 2 trials have results."]
    assert query(directory, "SELECT count(*) AS n FROM results").to_pydict() == {"n": [0]}


def test_missing_names_trials_extension_and_analyses(tmp_path: Path) -> None:
    request = Request(tasks=("sort",), approaches=("reg",), trials=2, analysis=False)
    path = write_study(tmp_path, request)
    (path / "results" / "sort-reg-1.parquet").unlink()
    assert read_study(path).missing() == [
        "sort, reg: 1 of 2 trials have results.",
        "sort, reg: 1 of 2 trials have results with extended memory.",
        "1 of 1 runs have no state-space and memory analysis.",
    ]


def test_a_question_in_sql(directory: Path) -> None:
    rows = [row("sort", "reg", 0, length, length / 10) for length in range(2, 8)]
    write_results(directory, "sort-reg-0", rows)
    table = query(directory, "SELECT max(length) AS longest FROM results WHERE score <= 0.45")
    assert table.to_pydict() == {"longest": [4]}


@pytest.mark.parametrize("sql", ["SELEC 1", "SELECT * FROM nowhere", "", "SELECT \udcff"])
def test_bad_sql_gets_one_sentence(directory: Path, sql: str) -> None:
    with pytest.raises(SettingError, match=r"sql is .*accepted: one SQL query"):
        query(directory, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "COPY results TO '{}/out.csv'",
        "EXPORT DATABASE '{}/out'",
        "ATTACH '{}/out.db'",
        "SELECT * FROM '{}/secret.csv'",
        "SELECT * FROM read_csv('{}/secret.csv')",
        "SELECT * FROM read_text('{}/secret.csv')",
        "SELECT * FROM glob('{}/*')",
        "SELECT * FROM query_table('{}/secret.csv')",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "PRAGMA profiling_output='{}/out.json'",
        "CALL enable_logging(storage='file', storage_path='{}/out')",
        "CREATE PERSISTENT SECRET a (TYPE s3, KEY_ID 'a', SECRET 'b')",
        "INSTALL httpfs",
        "LOAD '{}/out.so'",
        "SELECT * FROM python_variable",
        "SELECT 1; SELECT 2",
        "SELECT 1; COPY results TO '{}/out.csv'",
        "-- nothing",
    ],
)
def test_a_question_reads_results_and_nothing_else(directory: Path, sql: str) -> None:
    write_results(directory, "a", [row("sort", "reg", 0, 2, 1.0)])
    (directory / "secret.csv").write_text("a,b\n1,2\n")
    python_variable = pa.table({"a": [1]})  # DuckDB looks for names in its callers' frames
    before = sorted(directory.rglob("*"))
    with pytest.raises(SettingError, match=r"sql is .*accepted: one SQL query") as refused:
        query(directory, sql.format(directory))
    assert "\n" not in str(refused.value)
    assert sorted(directory.rglob("*")) == before
    assert python_variable.num_rows


@pytest.mark.parametrize("name", ["x[12]", "x?", "*", "{x1,x2}", "task=copy", "**", "x'y", "%s"])
def test_paths_are_literal(tmp_path: Path, name: str) -> None:
    """x[12] is neither x1 nor x2, and task=copy no column."""
    for study, score in (("x1", 0.1), ("x2", 0.2), ("xy", 0.3), (name, 0.9)):
        (tmp_path / study).mkdir()
        (tmp_path / study / "study.json").write_text(json.dumps(REQUEST))
        write_results(tmp_path / study, "a[b]", [row("sort", "reg", 0, 2, score)])
    study = read_study(tmp_path / name)
    assert study.curves()["sort", "reg"].scores.tolist() == [[0.9]]
    answer = query(tmp_path / name, "SELECT task, score FROM results")
    assert answer.to_pylist() == [{"task": "sort", "score": 0.9}]


def test_a_half_written_file_is_not_read(directory: Path) -> None:
    (directory / "results").mkdir()
    (directory / "results" / ".a.parquet.12345678.unfinished").write_bytes(b"PAR1")
    assert read_study(directory).runs == {}


def test_a_broken_file_gets_one_sentence(directory: Path) -> None:
    (directory / "results").mkdir()
    (directory / "results" / "a.parquet").write_bytes(b"not parquet")
    with pytest.raises(RunError, match=r"a\.parquet cannot be read"):
        read_study(directory).curves()


@pytest.mark.parametrize("name", ["task", "selection", "length", "iterations"])
def test_rows_that_do_not_say_what_they_are_of_get_one_sentence(directory: Path, name: str) -> None:
    write_results(directory, "a", [row("sort", "reg", 0, 2, 1.0) | {name: None}])
    with pytest.raises(RunError, match=rf"a\.parquet cannot be read: {name} is missing"):
        read_study(directory).curves()


@pytest.mark.parametrize("name", ["score", "sequence_accuracy", "recall"])
@pytest.mark.parametrize("value", [1e300, -0.5, 1.01])
def test_a_share_beyond_all_or_below_none_gets_one_sentence(
    directory: Path, name: str, value: float
) -> None:
    write_results(directory, "a", [row("sort", "reg", 0, 2, 1.0) | {name: value}])
    with pytest.raises(RunError, match=rf"a\.parquet cannot be read: {name} is .* from 0 to 1"):
        read_study(directory).curves()


@pytest.mark.parametrize(
    "wrong",
    [
        {"curvature": np.zeros(0)},
        {"curvature": np.array(1e300)},
        {"explained_variance": np.array("most")},
        {"states": np.array(1.0)},
        {"states": np.full((4, 2, 3), np.nan)},
        {"encoding_steps": np.array(-1)},
        {"encoding_steps": np.array(99)},
        {"read_mode_decoding": np.zeros(3, np.int64)},
    ],
)
def test_an_analysis_of_another_form_is_told_and_made_again(
    tmp_path: Path, wrong: dict[str, np.ndarray]
) -> None:
    request = Request(tasks=("sort",), approaches=("reg",), trials=1, samples=2, extended=False)
    path = write_study(tmp_path, request)
    file = path / "analysis" / "sort-reg-0.npz"
    with np.load(file) as stored:
        np.savez(file, allow_pickle=False, **{**stored, **wrong})
    study, (name,) = read_study(path), wrong
    assert study.analysis("sort-reg-0", "states", "curvature") == {}
    assert any(f"{file} cannot be read: {name} is " in sentence for sentence in study.missing())
    (sentence,) = quarantine_corrupt_files(path)
    assert f"{name} is " in sentence
    assert not file.exists()


def test_a_directory_without_study_json_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"study is .*accepted: a directory"):
        read_study(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tasks": "sort"}, "tasks is 'sort'"),
        ({"tasks": [3]}, r"tasks is \[3\]"),
        ({"trials": "2"}, "trials is '2'"),
        ({"trials": 2.5}, "trials is 2.5"),
        ({"memory_size": True}, "memory_size is True"),
        ({"memory_size": 0}, "memory_size is 0"),
        ({"extended_memory_size": 0}, "extended_memory_size is 0"),
        ({"extended_memory_size": -1}, "extended_memory_size is -1"),
        ({"settings": []}, r"settings is \[\]"),
        ({"settings": {"training.max_length": "x"}}, "settings is"),
        ({"settings": {"a": {"b": 1}}}, "settings is"),
        ({"requests": {}}, r"requests is \{\}"),
        ({"requests": [3]}, r"requests is \[3\]"),
        ({"requests": [{"tasks": []}]}, "approaches is missing"),
        ({"versions": 3}, "versions is 3"),
        ({"own_tasks": 3}, "own_tasks is 3"),
        ({"own_approaches": []}, r"own_approaches is \[\]"),
        ({"sources": "x"}, "sources is 'x'"),
        ({"approaches": ["\ud800"]}, "approaches is"),
        ({"iterations": 1e9}, "iterations is 1000000000.0"),
    ],
)
def test_a_study_that_does_not_fit_gets_one_sentence(
    directory: Path, change: dict[str, object], said: str
) -> None:
    (directory / "study.json").write_text(json.dumps(REQUEST | change))
    with pytest.raises(RunError, match=f"study.json cannot be read: {said}"):
        read_study(directory)


@pytest.mark.parametrize("name", ["study.json", "failures.json"])
@pytest.mark.parametrize("text", ["{", "3", '{"trials": NaN}', "[" * 100_000, "[[]]", "\xff"])
def test_damaged_json_gets_one_sentence(directory: Path, name: str, text: str) -> None:
    (directory / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(RunError, match=f"{name} cannot be read: "):
        read_study(directory)


def test_brackets_in_a_path_are_only_brackets(tmp_path: Path) -> None:
    for name, score in (("x[12]", 0.25), ("x1", 1.0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "study.json").write_text(json.dumps(REQUEST))
        write_results(tmp_path / name, "a", [row("sort", "reg", 0, 2, score)])
    found = query(tmp_path / "x[12]", "SELECT score FROM results")
    assert found.to_pydict() == {"score": [0.25]}


def test_a_damaged_analysis_is_left_out_and_named(tmp_path: Path) -> None:
    request = Request(tasks=("sort",), approaches=("reg",), trials=2, extended=False, samples=3)
    path = write_study(tmp_path, request)
    file = path / "analysis" / "sort-reg-1.npz"
    file.write_bytes(file.read_bytes()[:-9])
    study = read_study(path)
    assert study.analysis("sort-reg-1", "states") == {}
    assert list(study.analysis("sort-reg-0", "states")) == ["states"]
    (missing,) = study.missing()
    assert missing.startswith(f"{file} cannot be read: ")
    assert missing.endswith("left out; `cdnc reproduce` makes it again.")


@pytest.mark.parametrize(
    ("scores", "ends"),
    [
        ([0.4], (0.4, 0.4, 0.4)),
        ([0.2, 1.0], (0.2, 0.6, 1.0)),
        ([0.9, 0.1, 0.5, 0.7], (0.1, 0.6, 0.9)),
        ([0.5, 0.1, 0.4, 0.2, 0.3], (0.2, 0.3, 0.4)),
    ],
)
def test_a_band_holds_the_middle_half_of_the_trials_or_all_of_a_few(scores, ends):
    names = tuple(map(str, range(len(scores))))
    curves = Curves("sort", "reg", "accuracy", names, np.array([7]), np.array(scores)[:, None])
    np.testing.assert_allclose(curves.band[:, 0], ends)
