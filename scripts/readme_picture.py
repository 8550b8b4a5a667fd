"""Make the picture and the table of README.md from results/copy-20k, or check the table.

    python scripts/readme_picture.py           # write
    python scripts/readme_picture.py --check   # exit code 1 if README.md says something else

Copy, 20 000 iterations, parameters selected at training lengths alone (rule `seen`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import pandas as pd
from matplotlib.figure import Figure

from constrained_dnc.colours import LIGHT, colours_of
from constrained_dnc.config import MASTERED, THRESHOLD, TRAINING_LENGTHS
from constrained_dnc.evaluation.results import concat_results, max_length, read_results_file
from constrained_dnc.report import published
from constrained_dnc.report.drawing import grid, log_lengths, standalone, style, svg

ROOT = Path(__file__).parents[1]
RESULTS, README = ROOT / "results" / "copy-20k", ROOT / "README.md"
PICTURE = ROOT / "docs" / "images" / "copy-20k.svg"
TASK, RULE, TRAINED, MORE = "copy", "seen", "50", "500"
APPROACHES = ("stateful-baseline", "compr+reg", "round+reg")
LONGEST_DRAWN = 500
MARKED = re.compile(r"(?<=<!-- table: copy-20k -->\n).*?(?=<!-- end -->)", re.S)


def read(folder: Path) -> pd.DataFrame:
    """The results of all runs by rule `seen`; a length that was given up has the score 0."""
    files = sorted(folder.glob("runs/*/evaluation.parquet"))
    rows = concat_results([read_results_file(path) for path in files])
    rows = rows[(rows["task"] == TASK) & rows["approach"].isin(APPROACHES)]
    rows = rows[(rows["selection"] == RULE) & (rows["inference"] == "network")]
    return rows.fillna({"score": 0.0, "sequence_accuracy": 0.0})


def each_seed(rows: pd.DataFrame, approach: str, memory: str) -> list[pd.DataFrame]:
    """The results of one approach with one memory, by length, seed after seed."""
    chosen = rows[(rows["approach"] == approach) & (rows["memory"] == memory)]
    return [one.set_index("length", drop=False).sort_index() for _, one in chosen.groupby("seed")]


def picture(rows: pd.DataFrame) -> Figure:
    """Score against length with ten times the slots: a panel per approach, a line per seed."""
    figure, panels = grid(len(APPROACHES), columns=len(APPROACHES), width=2.7, height=2.2)
    ink, faint = LIGHT["ink"], LIGHT["faint"]
    for panel, approach in zip(panels, APPROACHES, strict=True):
        colour = colours_of(APPROACHES)[approach]
        panel.axvspan(*TRAINING_LENGTHS, color=ink, alpha=0.07, lw=0, zorder=0)
        panel.axhline(100 * THRESHOLD, color=faint, lw=0.8, zorder=0)
        for one in each_seed(rows, approach, MORE):
            panel.plot(one.index, 100 * one["score"], color=colour, lw=1.2, alpha=0.9)
        paper = published.max_lengths(True).get((TASK, approach))
        if paper is not None:
            panel.plot(paper, 100 * THRESHOLD, "D", ms=5, color=ink, zorder=3)
        panel.set_title(approach, loc="left", color=colour)
        log_lengths(panel)
        panel.set(xlim=(5, LONGEST_DRAWN), ylim=(0, 103), yticks=range(0, 101, 20))
    panels[0].set_ylabel("correct entries (%)")
    panels[1].set_xlabel("numerals to copy")
    return figure


def averages(rows: pd.DataFrame, approach: str) -> list[float]:
    """The primary measure of every seed: its mean score over lengths 2 to 45, 50 slots."""
    span = slice(published.AVERAGE_FROM, published.AVERAGE_UP_TO)
    return [one["score"].loc[span].mean() for one in each_seed(rows, approach, TRAINED)]


def copying(seeds: Sequence[pd.DataFrame], length: int) -> str:
    """How many seeds have at least 95 % of the entries correct at a length."""
    return f"{sum(one['score'][length] >= MASTERED for one in seeds)} of {len(seeds)}"


def table(rows: pd.DataFrame) -> str:
    """Medians and counts of seeds, in Markdown."""
    trained = {name: each_seed(rows, name, TRAINED) for name in APPROACHES}
    more = {name: each_seed(rows, name, MORE) for name in APPROACHES}
    paper = {name: published.max_lengths(True)[TASK, name] for name in APPROACHES[:2]}
    lines = {
        "longest copy, 500 slots": [
            f"{median(max_length(one) for one in more[name]):g}"
            + (f" (paper: {paper[name]})" if name in paper else "")
            for name in APPROACHES
        ],
        "seeds that copy 100, 500 slots": [copying(more[name], 100) for name in APPROACHES],
        "copies of 100 without an error": [
            f"{100 * median(one['sequence_accuracy'][100] for one in more[name]):.0f} %"
            for name in APPROACHES
        ],
        "seeds that copy 30, 50 slots": [copying(trained[name], 30) for name in APPROACHES],
        "correct at 2 to 45, 50 slots": [
            f"{100 * median(averages(rows, name)):.0f} %" for name in APPROACHES
        ],
    }
    head = ["", *(f"`{name}`" for name in APPROACHES)]
    body = [head, ["---"] * len(head), *([name, *cells] for name, cells in lines.items())]
    return "".join(f"| {' | '.join(row)} |\n" for row in body)


def main(arguments: Sequence[str] = ()) -> None:
    rows, text = read(RESULTS), README.read_text(encoding="utf-8")
    renewed, found = MARKED.subn(lambda _: table(rows), text)
    if "--check" in arguments:
        is_right = found == 1 and renewed == text
        sys.exit(0 if is_right else f"{README} does not say what {RESULTS} says; run this script")
    README.write_text(renewed, encoding="utf-8")
    with style():
        PICTURE.write_text(standalone(svg(picture(rows), PICTURE.stem)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
