"""Renew the tables and pictures of the documents from the shipped results, or check the tables.

    python scripts/results_page.py           # write
    python scripts/results_page.py --check   # exit code 1 if a page says something else

A table of the report stands between the lines `<!-- table: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from constrained_dnc.report import Report
from constrained_dnc.report.curves import score_against_length, score_by_memory
from constrained_dnc.report.drawing import png, style
from constrained_dnc.report.states import state_picture
from constrained_dnc.report.tables import DASH
from constrained_dnc.study import read_study

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "docs" / name for name in ("results.md", "memory-size.md")]
IMAGES = ROOT / "docs" / "images"


def tables(report: Report) -> dict[str, str]:
    """By name, every table of the report in Markdown; of the claims those that were run."""
    found = {table.name: table for section in report.tables.values() for table in section}
    claims = found["claims"]
    was_run = claims.cells["ours"] != DASH
    found["claims"] = replace(claims, cells=claims.cells[was_run], css=claims.css[was_run])
    return {name: table.to_markdown() for name, table in found.items()}


def renewed(page: str, tables: dict[str, str]) -> str:
    """The page with every marked table as the report has it."""

    def table(match: re.Match[str]) -> str:
        return f"<!-- table: {match['name']} -->\n{tables[match['name']]}\n<!-- end -->"

    return re.sub(r"<!-- table: (?P<name>\S+) -->\n.*?<!-- end -->", table, page, flags=re.S)


def pictures(report: Report) -> Iterator[tuple[str, Figure]]:
    """The figures that the documents show, by file name."""
    main = report.main
    yield "states-copy", state_picture(report.analysed, "copy", ("stateful-baseline", "compr+reg"))
    yield "paper-100k", score_against_length(main, main.trained_memory, ("sort", "copy"))
    yield "paper-100k-tasks", score_against_length(main, main.trained_memory)
    for task in ("sort", "copy", "add"):
        yield f"memory-{task}", score_by_memory(main, task)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--study", type=Path, default=ROOT / "results" / "paper-100k")
    parser.add_argument("--pages", type=Path, nargs="+", default=PAGES)
    parser.add_argument("--images", type=Path, default=IMAGES)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    report = Report(read_study(args.study))
    right = tables(report)
    for path in args.pages:
        page = path.read_text(encoding="utf-8")
        if not args.check:
            path.write_text(renewed(page, right), encoding="utf-8")
        elif page != renewed(page, right):
            sys.exit(f"{path}: its tables are not those of {args.study}; run this script")
    if not args.check:
        with style():
            for name, figure in pictures(report):
                (args.images / f"{name}.png").write_bytes(png(figure))


if __name__ == "__main__":
    main()
