"""What a larger memory does, in words and numbers."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from constrained_dnc.report import memory
from constrained_dnc.report.drawing import MEMORY_COLOURS, style
from constrained_dnc.report.findings import Findings, find
from constrained_dnc.study import read_study, write_results
from synthetic import Request, row, write_study

GRID = (2, *range(5, 51, 5), *range(60, 101, 10), 150, 200)
ENDS = {  # where scores end with the slots of training, ten times as many, and growing
    "stateful-baseline": (23, 10, 20),
    "stateless-baseline": (0, 0, 0),
    "compr+reg": (48, 15, 60),
    "compr+reg+used": (47, 150, 150),
}


def enlarged(path: Path) -> Findings:
    """One trial of sort per approach with three kinds of memory; nothing of add."""
    names = tuple(ENDS)
    write_study(path, Request(("sort", "add"), names, trials=0, analysis=False, growing=True))
    for name, (trained, extended, growing) in ENDS.items():
        cases = [("trained", 50, range(2, 101), trained), ("extended", 500, GRID, extended)]
        cases += [("growing", 50, GRID, growing)]
        rows = [
            row("sort", name, 0, at, float(at <= end), memory=kind, memory_size=size)
            for kind, size, lengths, end in cases
            for at in lengths
        ]
        write_results(path, name, rows)
    return find(read_study(path))


def test_a_growing_memory_is_not_that_of_training(tmp_path: Path) -> None:
    findings = enlarged(tmp_path)
    key = ("sort", "compr+reg")
    lengths = {kind: found.longest[key].length for kind, found in findings.memories.items()}
    assert lengths == {"trained": 48, "extended": 15, "growing": 60}


def test_a_trial_that_was_given_up_counts_as_failing(tmp_path: Path) -> None:
    request = Request(("sort",), ("reg",), trials=0, analysis=False, extended=False)
    write_study(tmp_path, request)
    for seed, last in enumerate((100, 100, 20)):  # the third was not measured any longer
        rows = [
            row("sort", "reg", seed, at, 1.0 if at < last else 0.4, memory="growing")
            for at in (5, 10, 20, 50, 90, 100)
            if at <= last
        ]
        write_results(tmp_path, str(seed), rows)
    found = find(read_study(tmp_path)).memories["growing"]
    assert found.longest["sort", "reg"].length == 90
    assert np.isnan(found.curves["sort", "reg"].scores[2, -1])


def test_a_trial_that_was_given_up_fails_in_the_sentence_too(tmp_path: Path) -> None:
    request = Request(("sort",), ("reg",), trials=0, analysis=False, extended=False)
    write_study(tmp_path, request)
    for seed, last in enumerate((50, 50, 20)):
        rows = [row("sort", "reg", seed, at, 1.0, memory="trained") for at in range(2, 31)]
        rows += [
            row("sort", "reg", seed, at, 1.0 if last == 50 else 0.4, memory="growing")
            for at in (10, 20, 30, 50)
            if at <= last
        ]
        write_results(tmp_path, str(seed), rows)
    found = find(read_study(tmp_path))
    assert memory.effect_here(found, "growing", ("sort", "reg")) == ("unchanged", "30 to 30")


def test_one_sentence_per_task(tmp_path: Path) -> None:
    sort, add = memory.effects(enlarged(tmp_path))
    here, growing, paper = sort.split("; ")
    assert here == (
        "sort: here 10 times the slots harm stateful-baseline (20 to 10, at training lengths 100 % "
        "to 67 %) and compr+reg (45 to 15), extend compr+reg+used (45 to 150) and do not help "
        "stateless-baseline, which fails either way"
    )
    assert growing == (
        "here a growing memory does not change stateful-baseline (20 to 20), extends compr+reg "
        "(45 to 60) and compr+reg+used (45 to 150) and does not help stateless-baseline, which "
        "fails either way"
    )
    assert paper.startswith("in the paper 10 times the slots harm stateful-baseline (23 to 10)")
    assert add.startswith("add: a larger memory was not tried here; in the paper")
    assert "extend stateful-baseline (40 to 60)" in add


def test_the_papers_lengths_are_compared_on_its_grid() -> None:
    assert memory.effect_in_paper(("shift", "reg")) == ("unchanged", "16 to 15")
    assert memory.effect_in_paper(("logic", "compr")) == ("harmed", "27 to 20")
    assert memory.effect_in_paper(("logic", "stateless-baseline")) == ("failing", "0 to 0")
    assert memory.effect_in_paper(("sort", "compr+reg+used")) is None


def test_a_line_for_every_kind_of_memory(tmp_path: Path) -> None:
    findings = enlarged(tmp_path)
    (drawing,) = memory.drawings(findings)
    assert drawing.name == "memory_sort"
    with style():
        figure = drawing.draw()
    assert [panel.get_title(loc="left") for panel in figure.axes] == list(findings.approaches)
    (legend,) = figure.legends
    told = [text.get_text() for text in legend.get_texts()]
    assert told == ["50 slots (training)", "500 slots", "growing"]
    assert memory.lengths_by_memory(findings).columns == tuple(told)
    lines = {line.get_color(): line for line in figure.axes[-1].lines}
    for kind, shade in MEMORY_COLOURS.items():
        curve = findings.memories[kind].curves["sort", "compr+reg+used"]
        np.testing.assert_array_equal(lines[shade].get_xdata(), curve.lengths)


def test_rows_without_a_kind_of_memory_are_told_apart_by_size(tmp_path: Path) -> None:
    path = write_study(tmp_path, Request(("sort",), ("reg",), trials=2, analysis=False))
    before = find(read_study(path))
    found = []
    for seed in (0, 1):  # first one file without the column, then both
        file = path / "results" / f"sort-reg-{seed}.parquet"
        table = pq.read_table(file).drop_columns("memory")
        pq.write_table(table.replace_schema_metadata(), file)
        found.append(find(read_study(path)))
    for findings in found:
        for kind in ("trained", "extended"):
            scores = findings.memories[kind].curves["sort", "reg"].scores
            np.testing.assert_array_equal(
                scores, before.memories[kind].curves["sort", "reg"].scores
            )


def test_the_legend_of_a_single_panel_is_whole(tmp_path: Path) -> None:
    write_study(tmp_path, Request(("add",), ("compr+reg",), trials=0, analysis=False, growing=True))
    kinds = {"trained": 50, "extended": 500, "growing": 50}
    rows = [
        row("add", "compr+reg", 0, at, 1.0, memory=kind, memory_size=size)
        for kind, size in kinds.items()
        for at in GRID
    ]
    write_results(tmp_path, "only", rows)
    with style():
        figure = memory.score_by_memory(find(read_study(tmp_path)), "add")
        figure.draw_without_rendering()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert len(legend.get_texts()) == 3
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width
