"""Tables: the paper's marks from the paper's numbers, and honest gaps."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from constrained_dnc import published
from constrained_dnc.analysis.statistics import Correlation, PairTest, all_pairs
from constrained_dnc.report import tables
from constrained_dnc.report.cells import Cell, Table, to_csv, to_latex
from constrained_dnc.report.findings import Longest, find
from constrained_dnc.report.lengths import max_length_table, max_lengths
from constrained_dnc.report.wording import DASH
from constrained_dnc.study import read_study, write_results
from synthetic import Request, write_study
from synthetic import row as result

APPROACHES, TASKS = published.APPROACHES, published.TASKS

# As printed in the paper.
FACTORS = {
    False: ["2.1", "2.3", "1.5", "1.0", "1.2", "1.0", "1.0"],
    True: ["1.7", "8.8", "10.4", "0.9", "10.0", "0.8", DASH],
}
BOLD_LENGTHS = {
    False: [
        {"compr+reg"},
        {"stateless-baseline"},
        {"compr+reg"},
        {"stateful-baseline", "compr", "reg", "compr+reg"},
        {"compr"},
        {"stateful-baseline"},
        {"stateful-baseline", "compr"},
    ],
    True: [
        {"compr"},
        {"compr+reg"},
        {"compr+reg"},
        {"stateful-baseline", "compr", "reg"},
        {"compr+reg"},
        {"stateful-baseline", "reg"},
        set(),
    ],
}


def bold(table: Table, row: int) -> set[str]:
    cells = zip(table.columns, table.rows[row][1], strict=True)
    return {column for column, cell in cells if cell.bold}


def paper_lengths(extended: bool) -> dict[tuple[str, str], Longest]:
    lengths = published.max_lengths(extended)
    return {key: Longest(length, None, 1.0, 10) for key, length in lengths.items()}


@pytest.mark.parametrize("extended", [False, True])
def test_the_papers_lengths_give_its_factors_and_bold_marks(extended: bool) -> None:
    table = max_length_table(
        paper_lengths(extended), paper_lengths(False), TASKS, APPROACHES, extended
    )
    assert [cells[-1].ours for _, cells in table.rows] == FACTORS[extended]
    assert [cells[-1].paper for _, cells in table.rows] == FACTORS[extended]
    assert [bold(table, row) for row in range(7)] == BOLD_LENGTHS[extended]
    for _, cells in table.rows:
        assert all(cell.bold == cell.paper_bold for cell in cells)
        assert {cell.difference for cell in cells} <= {"0", "0.0", DASH}


@pytest.mark.parametrize("extended", [False, True])
def test_the_papers_medians_give_its_bold_marks(extended: bool) -> None:
    # Its marks among equal printed medians come from values before rounding: put the printed bold
    # one a little above, as it must have been.
    scores = {
        key: np.array([told.median + 0.001 * (published.BOLD_MEDIANS[extended][key[0]] == key[1])])
        for key, told in published.average_scores(extended).items()
    }
    table = tables.average_table(scores, TASKS, APPROACHES, extended)
    medians = [row for row in range(len(table.rows)) if table.rows[row][0].endswith("median")]
    found = [bold(table, row) for row in medians]
    assert found == [{approach} for approach in published.BOLD_MEDIANS[extended].values()]
    for row in medians:
        assert all(cell.bold == cell.paper_bold for cell in table.rows[row][1])
        assert all(cell.ours == cell.paper for cell in table.rows[row][1])


@pytest.mark.parametrize(("extended", "count"), [(False, 18), (True, 32)])
def test_the_papers_p_values_give_its_bold_marks(extended: bool, count: int) -> None:
    results = [PairTest(*key, (10, 10), p, p) for key, p in published.pairwise_p(extended).items()]
    table = tables.pair_test_table(results, TASKS, all_pairs(APPROACHES), extended)
    cells = [cell for _, row in table.rows for cell in row]
    assert all(cell.bold == cell.paper_bold for cell in cells)
    assert sum(cell.bold for cell in cells) == count  # counted in the printed table
    assert table.warnings == ()


def test_the_papers_correlations_give_its_bold_marks() -> None:
    paper = published.curvature_correlations()
    results = [Correlation(task, 40, tau, p, p) for task, (tau, p) in paper.items()]
    table = tables.correlation_table(results)
    significant = [task for task, cells in table.rows if cells[1].bold]
    assert significant == ["sort", "copy", "differentiation", "add", "logic", "search"]


def test_a_partial_study_shows_dashes(small_study: Path) -> None:
    findings = find(read_study(small_study))
    table = max_lengths(findings, extended=False)
    assert table.columns == (*findings.approaches, "factor")
    cells = dict(zip(table.columns, dict(table.rows)["sort"], strict=True))
    assert cells["lstm-compr+reg"].paper == cells["lstm-compr+reg"].difference == DASH
    assert cells["compr+reg"].paper == "48"
    assert "training" in cells["compr+reg"].note
    extended = dict(max_lengths(findings, extended=True).rows)["sort"]
    assert extended[0].ours != DASH
    assert len(tables.all_tables(findings)) == 10


def test_csv_has_plain_numbers_and_gaps(small_study: Path) -> None:
    findings = find(read_study(small_study))
    for table in tables.all_tables(findings):
        rows = list(csv.DictReader(io.StringIO(to_csv(table))))
        assert len(rows) == len(table.records)
        for row in rows:
            assert not {"nan", "None", DASH} & set(row.values())
    lengths = to_csv(max_lengths(findings, extended=False))
    record = next(csv.DictReader(io.StringIO(lengths)))
    best = findings.plain.longest["sort", "stateful-baseline"]
    assert int(record["max_length"]) == best.length
    assert int(record["difference"]) == best.length - 23


def test_latex_has_one_entry_per_column(small_study: Path) -> None:
    for table in tables.all_tables(find(read_study(small_study))):
        text = to_latex(table)
        body = [line for line in text.splitlines() if line.endswith(r"\\")]
        assert len(body) == 1 + 3 * len(table.rows)
        assert {line.count("&") for line in body} == {len(table.columns) + 1}
        visible = [line for line in text.splitlines() if not line.startswith("% ")]
        assert all("_" not in line.replace(r"\_", "") for line in visible)


def test_only_the_papers_approaches_compete_for_bold(tmp_path: Path) -> None:
    names = ("compr", "reg", "peephole", "compr+reg+used", "mine")
    request = Request(("sort",), names, trials=1, analysis=False, extended=False)
    path = write_study(tmp_path, request)
    for end, name in enumerate(names, start=20):  # each longer than the one before
        rows = [result("sort", name, 0, at, float(at <= end)) for at in range(2, 61)]
        write_results(path, f"sort-{name}-0", rows)
    findings = find(read_study(path))
    assert findings.approaches == names
    table = max_lengths(findings, extended=False)
    assert [cell.ours for cell in table.rows[0][1][:5]] == ["20", "21", "22", "23", "24"]
    assert bold(table, 0) == {"reg"}
    assert "longest of the paper's approaches are bold" in table.caption
    averages = tables.averages(findings, extended=False)
    assert bold(averages, 0) == {"reg"}
    italic = [cell.italic for cell in averages.rows[2][1]]
    assert italic == [False, True, False, False, False]


def test_explained_variance_stands_beside_the_papers(tmp_path: Path) -> None:
    names = ("stateful-baseline", "stateless-baseline", "reg", "peephole")
    request = Request(("logic", "sort"), names, trials=2, samples=2, extended=False)
    path = write_study(tmp_path, request)
    shares = {"stateful-baseline": 0.9, "reg": 0.8, "peephole": 0.1}
    for task, name, seed in ((t, n, s) for t in request.tasks for n in shares for s in (0, 1)):
        file = path / "analysis" / f"{task}-{name}-{seed}.npz"
        arrays = {**np.load(file), "explained_variance": np.array(shares[name] + 0.02 * seed)}
        np.savez(file, **arrays)
    table = tables.explained_variances(find(read_study(path)))
    assert [task for task, _ in table.rows] == ["sort", "logic"]
    cells: list[Cell] = [cells[0] for _, cells in table.rows]
    assert [(cell.ours, cell.paper, cell.note) for cell in cells] == [
        ("86", "100", "4 instances"),
        ("86", "92", "4 instances"),
    ]


def test_latex_runs_nothing_of_a_name() -> None:
    cell = Cell("1", "2", "3")
    table = Table("t", "t", "a\n\\input{b}", ("c",), (("\\input{x}~^\n%", (cell,)),), ())
    text = to_latex(table)
    assert all(line.startswith("%") for line in text.splitlines()[:2])
    assert "\\input" not in "".join(text.splitlines()[2:])
    assert r"\textbackslash{}input\{x\}\~{}\^{} \%" in text


def test_p_values_stand_beside_each_other_without_a_difference(small_study: Path) -> None:
    table = tables.pair_tests(find(read_study(small_study)), extended=False)
    cells = [cell for _, row in table.rows for cell in row]
    assert any(cell.paper not in ("", DASH) for cell in cells)
    assert {cell.difference for cell in cells} == {DASH}
