"""Tables: the paper's marks from the paper's numbers, gaps, CSV and LaTeX."""

import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from constrained_dnc.report import Report, published, score_tables
from constrained_dnc.report.findings import Findings
from constrained_dnc.report.tables import BOLD, DASH, make_table, max_lengths
from constrained_dnc.study import read_study
from made_up import add_rows, findings_of
from synthetic import Request, row, run_folder, write_study

# As printed in the paper.
FACTORS = {
    "50": ["2.1", "2.3", "1.5", "1.0", "1.2", "1.0", "1.0"],
    "500": ["1.7", "8.8", "10.4", "0.9", "10.0", "0.8", DASH],
}


@pytest.fixture(scope="module")
def paper_study(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """One trial per task and approach that is right exactly up to the paper's lengths."""
    request = Request(published.TASKS, trials=0, analysis=False)
    path = write_study(tmp_path_factory.mktemp("paper"), request)
    rows = [
        row(task, approach, 0, at, float(at <= end), memory=memory)
        for memory, extended in (("50", False), ("500", True))
        for (task, approach), end in published.max_lengths(extended).items()
        for at in {end, 1000} - {0}
    ]
    add_rows(path, rows)
    return Findings(read_study(path), "unseen")


@pytest.mark.parametrize("memory", ["50", "500"])
def test_the_papers_lengths_give_its_factors_and_bold_marks(
    paper_study: Findings, memory: str
) -> None:
    table = max_lengths({"unseen": paper_study}, memory)
    ours, paper = (
        (cells.xs(measure, level=1) for cells in (table.cells, table.css))
        for measure in ("unseen, entries", "paper")
    )
    (our_cells, our_css), (paper_cells, paper_css) = ours, paper
    assert our_cells["factor"].tolist() == paper_cells["factor"].tolist() == FACTORS[memory]
    assert our_cells.equals(paper_cells)
    assert our_css.equals(paper_css)
    bold = {task: set(marks.index[marks == BOLD]) for task, marks in our_css.T.items()}
    assert bold["copy"] == ({"stateless-baseline"} if memory == "50" else {"compr+reg"})
    assert bold["search"] == ({"stateful-baseline", "compr"} if memory == "50" else set())


def test_a_task_that_the_baseline_fails_has_no_factor(tmp_path: Path) -> None:
    findings = findings_of(tmp_path, "sort", {"50": {"stateful-baseline": [0], "compr": [20]}})
    cells = max_lengths({"unseen": findings}, "50").cells.loc[("sort", "unseen, entries")]
    assert cells[["stateful-baseline", "compr", "factor"]].tolist() == ["0", "20", DASH]


def test_the_rows_of_a_task(small_report: Report) -> None:
    table = max_lengths(small_report.rules, "50")
    assert table.cells.loc["sort"].index.tolist() == [
        "score, entries",
        "score, whole",
        "unseen, entries",
        "paper",
        "score at 5 to 15, %",
    ]
    assert table.cells.loc[("sort", "paper"), "compr+reg"] == "48"
    assert table.cells.loc[("sort", "paper"), "lstm-compr+reg"] == DASH


def test_the_best_is_bold_whoever_made_it_and_a_seed_that_has_not_learnt_is_named(
    tmp_path: Path,
) -> None:
    ends = {"stateful-baseline": [7, 7, 7], "mine": [30, 14, 31]}
    table = max_lengths({"unseen": findings_of(tmp_path, "sort", {"50": ends})}, "50")
    row = ("sort", "unseen, entries")
    assert table.css.loc[row, "mine"] == BOLD
    assert table.css.loc[row, "stateful-baseline"] == ""
    assert r"\bfseries 30 (30, 14, 31)" in table.to_latex()
    assert "| **30 (30, 14, 31)** |" in table.to_markdown()
    terminal = Console(width=100, file=io.StringIO(), record=True)
    terminal.print(table.to_terminal())
    assert re.search(r"\x1b\[1m *30 \(30, 14, 31\)", terminal.export_text(styles=True))
    assert table.cells.loc[("sort", "score at 5 to 15, %"), "mine"] == "100 (seed 1: 90.9)"


def test_a_study_in_another_setting_has_none_of_the_papers_numbers(tmp_path: Path) -> None:
    names = ("stateful-baseline", "compr+reg", "mine")
    request = Request(("sort",), names, trials=2, samples=2, preset="quick")
    report = Report(read_study(write_study(tmp_path, request)))
    assert report.tables["claims"] == []
    for table in (table for section in report.tables.values() for table in section):
        assert "paper" not in table.to_markdown(), table.name
        assert "factor" not in table.cells, table.name
    (tests,) = score_tables.pair_tests(report.rules, "16")
    assert len(tests.cells) == 3  # pairs, those with a user-defined approach among them
    (correlation,) = report.analysed.correlations()
    assert correlation.instances == 6


def test_average_scores_stand_beside_the_papers_and_the_floor(small_report: Report) -> None:
    table = score_tables.average_scores(small_report.rules, "50")
    assert "averaged over the 44 lengths from 2 to 45" in table.caption
    assert set(table.cells.loc[("sort", "seeds", "")]) == {"2"}
    curve = small_report.main.curves["50", "sort", "compr+reg"].loc[:, 2:45]
    median = np.median(curve.mean(axis=1))
    assert table.cells.loc[("sort", "median", "score"), "compr+reg"] == f"{100 * median:.0f}"
    assert table.cells.loc[("sort", "median", "paper"), "compr+reg"] == "99"
    assert set(table.cells.loc[("sort", "floor", "")]) == {"20"}
    assert table.css.loc[("sort", "median", "paper"), "compr+reg"] == BOLD


def test_scores_by_length_end_with_the_floor(small_report: Report) -> None:
    cells = score_tables.scores_by_length(small_report.main, "sort").cells
    assert cells.index[-1] == ("floor", "", "")
    assert cells.loc[("floor", "", ""), 100] == "20"
    score = small_report.main.curves["500", "sort", "compr+reg"][100].median()
    assert cells.loc[("compr+reg", "500 slots", "2"), 100] == f"{100 * score:.0f}"


def test_p_values_stand_beside_the_papers(small_report: Report) -> None:
    papers, others = score_tables.pair_tests(small_report.rules, "50")
    assert "2 seeds against 2 give a p of at least" in papers.caption
    pair = ("stateful-baseline", "compr+reg")
    assert papers.cells.loc[(*pair, "paper"), "sort"] == "0.001"
    assert papers.css.loc[(*pair, "paper"), "sort"] == BOLD
    assert "paper" not in others.cells.index.get_level_values(2)


def test_one_seed_against_one_is_no_test(tmp_path: Path) -> None:
    request = Request(("copy",), ("stateful-baseline", "mine"), trials=1, samples=2, analysis=False)
    report = Report(read_study(write_study(tmp_path, request)))
    assert not list(score_tables.pair_tests(report.rules, "50"))


def test_explained_variance_is_the_mean_of_the_papers_stateful_approaches(tmp_path: Path) -> None:
    names = ("stateful-baseline", "stateless-baseline", "reg", "peephole")
    path = write_study(tmp_path, Request(("logic",), names, trials=2, samples=2, extended=False))
    shares = {"stateful-baseline": 0.9, "reg": 0.8, "peephole": 0.1}
    for name, seed in ((n, s) for n in shares for s in (0, 1)):
        file = run_folder(path, "logic", name, seed) / "analyses.npz"
        np.savez(file, **{**np.load(file), "explained_variance": np.array(shares[name])})
    cells = score_tables.explained_variances(Findings(read_study(path), "unseen")).cells
    assert cells.loc["logic"].to_dict() == {"ours": "85", "instances": "4", "paper": "92"}


def test_csv_and_latex_of_every_table(small_report: Report, page: Path) -> None:
    for table in (table for section in small_report.tables.values() for table in section):
        stored = pd.read_csv(page.parent / "tables" / f"{table.name}.csv")
        assert len(stored) == len(table.cells if table.data.empty else table.data)
        text = (page.parent / "tables" / f"{table.name}.tex").read_text(encoding="utf-8")
        body = [line for line in text.splitlines() if line.endswith(r"\\")]
        assert len(body) == 1 + len(table.cells)
        columns = table.cells.index.nlevels + table.cells.shape[1]
        assert {line.count("&") for line in body} == {columns - 1}


def test_names_are_text_in_html_and_latex() -> None:
    name = "<b>\\input{x}_%"
    frame = pd.DataFrame({"task": [name], "approach": [name], "text": [name], "value": [1]})
    table = make_table("t", "t", "t", frame, ["task"], "approach")
    assert "<b>" not in table.to_html()
    body = "".join(table.to_latex().splitlines()[1:])
    assert "\\input" not in body
    assert body.count(r"\textbackslash") == 3
    assert pd.read_csv(io.StringIO(table.data.to_csv(index=False)))["task"][0] == name
