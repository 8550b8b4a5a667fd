"""Three selection rules in tables, figures, verdicts and words."""

import json
import re
from pathlib import Path

import pytest

from constrained_dnc.report import selection
from constrained_dnc.report.findings import Findings, find
from constrained_dnc.report.page import build_report, collect
from constrained_dnc.report.verdicts import judge_all
from constrained_dnc.study import read_study, write_results
from synthetic import Request, row, write_study

RULES = ("unseen", "seen", "score")
RICH = Request(
    ("sort",),
    ("stateful-baseline", "compr+reg", "compr+reg+used"),
    trials=2,
    iterations=300_000,
    analysis=False,
    selections=RULES,
    growing=True,
    stages=(100_000,),
)


@pytest.fixture(scope="module")
def rich_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three rules, three kinds of memory, two lengths of training."""
    return write_study(tmp_path_factory.mktemp("studies") / "rich", RICH)


def spiked(path: Path) -> list[Findings]:
    """Two runs; in the first the paper's rule met a spike, in the second nothing happened."""
    write_study(path, Request(("sort",), ("reg",), trials=2, analysis=False, extended=False))
    ends = {"unseen": 30, "seen": 25, "score": 40}
    for seed in (0, 1):
        rows = [
            row("sort", "reg", seed, at, float(at <= end), selection=rule)
            for rule, end in ends.items()
            for at in range(2, 61)
        ]
        for changed in rows:
            if seed == 0 and changed["selection"] == "unseen" and int(str(changed["length"])) <= 9:
                changed["score"] = 0.62
        write_results(path, f"sort-reg-{seed}", rows)
    study = read_study(path)
    return [find(study, rule) for rule in study.selections]


def test_every_rule_has_its_own_lengths(tmp_path: Path) -> None:
    rules = spiked(tmp_path)
    assert tuple(findings.selection for findings in rules) == RULES
    assert [findings.plain.longest["sort", "reg"].length for findings in rules] == [30, 25, 40]
    table = selection.comparison(rules)
    assert table.columns == RULES
    (_, cells), *more = table.rows
    assert not more
    assert [cell.ours for cell in cells] == ["30", "25", "40"]
    assert [cell.paper for cell in cells] == ["46", "", ""]


def test_a_spike_is_told(tmp_path: Path) -> None:
    # Five of the eleven training lengths have 0.62: 82.7 % on average.
    assert selection.disagreements(spiked(tmp_path)) == [
        "sort, reg, trial 0: 82.7 % by unseen, 100.0 % by seen and 100.0 % by score at lengths "
        "5 to 15."
    ]


def test_every_rule_has_a_sentence(tmp_path: Path) -> None:
    study = spiked(tmp_path)[0].study
    told = [selection.sentence(rule, study) for rule in RULES]
    assert "the paper's rule" in told[0]
    assert "length 30" in told[0]
    assert "no other length" in told[1]
    assert "calm" in told[2]
    assert all(sentence.count(".") == 1 for sentence in told)


def test_tables_figures_and_verdicts_of_all_rules(rich_study: Path) -> None:
    contents = collect(read_study(rich_study))
    names = {table.name for found in contents.tables.values() for table in found}
    for rule in ("seen", "score"):
        assert {f"max_length_{rule}_selection", f"average_score_{rule}_selection"} <= names
    assert "max_length_extended_memory_score_selection" in names
    assert "max_length_extended_memory_seen_selection" not in names  # not evaluated
    drawn = {drawing.name for found in contents.drawings.values() for drawing in found}
    assert {"score_vs_length", "score_vs_length_seen_selection"} <= drawn
    assert {"memory_sort", "memory_sort_score_selection"} <= drawn
    assert "memory_sort_seen_selection" not in drawn  # one memory only
    for findings in contents.rules:
        found = [verdict for verdict in judge_all(findings) if verdict.here]
        assert len(found) > 2


@pytest.mark.parametrize("rule", ["a/b", "a\0b", 300 * "x"])
def test_a_rule_of_another_writer_has_tables_of_its_own(tmp_path: Path, rule: str) -> None:
    write_study(tmp_path, Request(("sort",), ("reg",), trials=1, analysis=False))
    rows = [row("sort", "reg", 0, at, 1.0, selection=rule) for at in range(2, 9)]
    write_results(tmp_path, "other", rows)
    contents = collect(read_study(tmp_path))
    names = [table.name for found in contents.tables.values() for table in found]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[\w+-]{1,200}", name) for name in names)


def test_the_page_of_a_rich_study(rich_study: Path) -> None:
    text = build_report(rich_study).read_text(encoding="utf-8")
    for section in ("selection", "beyond", "training"):
        assert f'<section id="{section}">' in text
    assert text.count('<small class="other') > 4
    assert re.search(r"selected by score: here <b>\d+ \[", text)
    assert "here a growing memory extends" in text
    assert "sort, compr+reg+used, trial 1" in text
    for slots in ("50 slots (training)", "500 slots", "growing"):
        assert f'aria-label="score against length, sort, {slots}"' in text
    data = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    charts = {chart["id"]: chart for chart in json.loads(data[1])}
    assert list(charts) == ["chart-sort-plain", "chart-sort-extended", "chart-sort-growing"]
    assert [len(charts["chart-sort-extended"]["rules"][rule]) for rule in RULES] == [3, 0, 3]
