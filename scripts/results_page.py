"""Renew the tables and pictures of the documents from the shipped results, or check the tables.

    python scripts/results_page.py           # write
    python scripts/results_page.py --check   # exit code 1 if a page says something else

A table stands between the lines `<!-- table: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import floor
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from constrained_dnc import published
from constrained_dnc.analysis.statistics import max_length
from constrained_dnc.choices import Memory
from constrained_dnc.report.drawing import png, style
from constrained_dnc.report.figures import score_against_length
from constrained_dnc.report.findings import counted, find
from constrained_dnc.report.memory import score_by_memory
from constrained_dnc.report.verdicts import NOT_RUN, judge_all
from constrained_dnc.study import Curves, Study, read_study

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "docs" / name for name in ("results.md", "memory-size.md")]
IMAGES = ROOT / "docs" / "images"
RULES = ("unseen", "score", "seen")  # the paper's first
SHOWN = (5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 100, 150, 200, 300, 500, 1000)


def maximum_lengths(study: Study, *_: str) -> str:
    """A row per task and approach: trials, then every memory and rule beside the paper."""
    size, larger = study.memory_size, study.extended_memory_size
    columns: list[tuple[Memory, str, str]] = [
        *(("trained", rule, f"{size}, `{rule}`") for rule in RULES),
        *(("extended", rule, f"{larger}, `{rule}`") for rule in RULES[:2]),
        *(("growing", rule, f"growing, `{rule}`") for rule in RULES[:2]),
    ]
    paper: dict[Memory, dict[tuple[str, str], int]] = {
        "trained": published.max_lengths(extended=False),
        "extended": published.max_lengths(extended=True),
    }
    trained = study.curves()
    head = ["", "trials"]
    rows = {key: [", ".join(key), str(trained[key].trials)] for key in keys(study)}
    for memory, rule, name in columns:
        curves = counted(study.curves(memory, rule), memory)
        if rule == RULES[0] and memory in paper:
            head.append(f"paper, {name.partition(',')[0]}")
            for key, row in rows.items():
                row.append(str(paper[memory].get(key, "")))
        head.append(name)
        for key, row in rows.items():
            row.append(lengths_of(curves[key]) if key in curves else "")
    return markdown(head, rows.values())


def memories(study: Study, rule: str) -> str:
    """The maximum lengths by one rule, a column per memory."""
    found = {
        name: counted(study.curves(memory, rule), memory) for memory, name in names(study).items()
    }
    rows = [
        [", ".join(key), *(lengths_of(curves[key]) for curves in found.values())]
        for key in keys(study)
    ]
    return markdown([f"maximum length, rule `{rule}`", *found], rows)


def scores(study: Study, task: str) -> str:
    """A row per approach, memory and rule: the median over trials by length, in percent."""
    found = {
        f"{approach}, {name}, `{rule}`": curves[task, approach]
        for rule in RULES
        for memory, name in names(study).items()
        for curves in [study.curves(memory, rule)]
        for approach in study.approaches
        if (task, approach) in curves
    }
    lengths = [n for n in SHOWN if any(n in curves.lengths for curves in found.values())]
    rows = [[name, *(percent(curves, n) for n in lengths)] for name, curves in found.items()]
    return markdown(["", *map(str, lengths)], rows)


def claims(study: Study, *_: str) -> str:
    """The paper's claims about what was run: its values, ours by two rules, which direction."""
    judged = [judge_all(find(study, rule)) for rule in RULES[:2]]
    rows = []
    for by_rule in zip(*judged, strict=True):
        if all(verdict.word == NOT_RUN for verdict in by_rule):
            continue
        found = [
            ": ".join(filter(None, (verdict.word, verdict.here)))
            + (f" ({verdict.caution})" if verdict.caution else "")
            for verdict in by_rule
        ]
        rows.append([by_rule[0].claim.text, by_rule[0].paper, *found])
    return markdown(["claim", "paper", *(f"`{rule}`" for rule in RULES[:2])], rows)


def names(study: Study) -> dict[Memory, str]:
    """What the pages call every kind of memory."""
    return {
        "trained": f"{study.memory_size} slots",
        "extended": f"{study.extended_memory_size} slots",
        "growing": "growing",
    }


def keys(study: Study) -> list[tuple[str, str]]:
    """The (task, approach) that have results, in the order asked for."""
    found = study.curves()
    return [
        (task, approach)
        for task in study.tasks
        for approach in study.approaches
        if (task, approach) in found
    ]


def lengths_of(curves: Curves) -> str:
    """The maximum length over trials, and that of each trial beside it."""
    alone = [max_length(trial[None], curves.lengths) for trial in curves.scores]
    longest = str(max_length(curves.scores, curves.lengths))
    return longest if len(alone) == 1 else f"{longest} ({', '.join(map(str, alone))})"


def percent(curves: Curves, length: int) -> str:
    """The median of the trials at a length, rounded down; a dash where one was not measured."""
    column = np.flatnonzero(curves.lengths == length)
    median = np.median(curves.scores[:, column]) if len(column) else np.nan
    return "-" if np.isnan(median) else str(floor(100 * median + 1e-6))


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("|".join(("", *(f" {text} " for text in line), "")) for line in lines)


TABLES = {"lengths": maximum_lengths, "claims": claims, "memories": memories, "scores": scores}


def renewed(page: str, study: Study) -> str:
    """The page with every marked table as the study has it."""

    def table(match: re.Match[str]) -> str:
        kind, _, of = match["name"].partition(" ")
        return f"<!-- table: {match['name']} -->\n{TABLES[kind](study, of)}\n<!-- end -->"

    return re.sub(r"<!-- table: (?P<name>[\w ]+) -->\n.*?<!-- end -->", table, page, flags=re.S)


def pictures(study: Study) -> Iterator[tuple[str, Figure]]:
    """The figures that the documents show, by file name."""
    by_score, by_papers_rule = find(study, "score"), find(study, "unseen")
    compared = replace(by_score, tasks=("sort", "copy"))  # with a baseline beside them
    yield "paper-100k", score_against_length(compared, extended=False)
    yield "paper-100k-tasks", score_against_length(by_score, extended=False)
    yield "memory-sort", score_by_memory(by_score, "sort")
    for task in ("copy", "add"):
        yield f"memory-{task}", score_by_memory(by_papers_rule, task)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--study", type=Path, default=ROOT / "results" / "paper-100k")
    parser.add_argument("--pages", type=Path, nargs="+", default=PAGES)
    parser.add_argument("--images", type=Path, default=IMAGES)
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    study = read_study(asked.study)
    for path in asked.pages:
        page = path.read_text(encoding="utf-8")
        right = renewed(page, study)
        if not asked.check:
            path.write_text(right, encoding="utf-8")
        elif page != right:
            sys.exit(f"{path}: its tables are not those of {asked.study}; run this script")
    if not asked.check:
        with style():
            for name, figure in pictures(study):
                (asked.images / f"{name}.png").write_bytes(png(figure))


if __name__ == "__main__":
    main()
