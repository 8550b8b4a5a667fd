"""Tables of maximum lengths, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isnan

import numpy as np
from jaxtyping import Int

from constrained_dnc import published
from constrained_dnc.analysis import statistics
from constrained_dnc.report.cells import Cell, Table, difference, largest, worded
from constrained_dnc.report.curves import Curves
from constrained_dnc.report.findings import Findings, Key, Longest
from constrained_dnc.report.wording import listed, rounded, span


def comparable_lengths(trained: Curves, larger: Curves, longest: int) -> tuple[int, int]:
    """The maximum lengths of two memories at the lengths that both were evaluated at.

    That of the larger one is `longest` wherever the memory of training was seen to fail.
    """
    has_failed = statistics.max_length(trained.scores, trained.lengths) < trained.lengths.max()
    before = _max_length_at(trained, larger.lengths)
    return before, longest if has_failed else _max_length_at(larger, trained.lengths)


def _max_length_at(curve: Curves, lengths: Int[np.ndarray, "_"]) -> int:
    shared = np.isin(curve.lengths, lengths)
    return statistics.max_length(curve.scores[:, shared], curve.lengths[shared])


def max_lengths(findings: Findings, extended: bool) -> Table:
    """Maximum lengths and the factor over the stateful baseline without extension."""
    return max_length_table(
        findings.at(extended).longest,
        findings.plain.longest,
        findings.tasks,
        findings.approaches,
        extended,
        findings.study.training_lengths,
    )


def max_length_table(
    longest: Mapping[Key, Longest],
    plain: Mapping[Key, Longest],
    tasks: Sequence[str],
    approaches: Sequence[str],
    extended: bool,
    training_lengths: tuple[int, int] | None = None,
) -> Table:
    """`plain` holds the lengths without extension, for the factor."""
    rows: list[tuple[str, tuple[Cell, ...]]] = []
    records: list[Mapping[str, object]] = []
    for task in tasks:
        ours_factor, paper_factor = _factors(task, longest, plain, extended)
        factor = Cell(*worded(ours_factor, paper_factor, 1))
        rows.append((task, (*_cells(task, approaches, longest, extended), factor)))
        records += _records(task, approaches, longest, extended)
        records.append(
            {
                "task": task,
                "approach": "factor",
                "max_length": ours_factor,
                "paper": paper_factor,
                "difference": difference(ours_factor, paper_factor),
            }
        )
    return Table(
        "max_length_extended_memory" if extended else "max_length",
        "Maximum lengths with extended memory" if extended else "Maximum lengths",
        _caption(approaches, longest, extended, training_lengths),
        (*approaches, "factor"),
        tuple(rows),
        tuple(records),
    )


def has_intervals(longest: Mapping[Key, Longest]) -> bool:
    """Whether any length is of several trials."""
    return any(found.interval is not None for found in longest.values())


def _caption(
    approaches: Sequence[str],
    longest: Mapping[Key, Longest],
    extended: bool,
    training_lengths: tuple[int, int] | None,
) -> str:
    many = has_intervals(longest)
    beside = ["its 95 % bootstrap interval over trials"] if many else []
    if training_lengths is not None:
        beside.append(f"the score at the training lengths ({span(training_lengths)})")
    against = "of the baseline without extension" if extended else "of the baseline"
    of_paper = "of the paper's approaches " if set(approaches) - set(published.APPROACHES) else ""
    score = "median score over trials" if many else "score"
    least = f"{rounded(100 * published.THRESHOLD, 0)} %"
    return (
        f"The longest input whose {score} is at least {least}"
        f"{', with ' if beside else ''}{' and '.join(beside)}. Factor: the longest of "
        f"{listed(statistics.CONSTRAINED)} over that {against} (stateful). The longest "
        f"{of_paper}are bold."
    )


def _cells(
    task: str, approaches: Sequence[str], longest: Mapping[Key, Longest], extended: bool
) -> Iterator[Cell]:
    """One per approach; only the paper's own compete for the bold mark."""
    paper = published.max_lengths(extended)
    ours = {name: longest[task, name] for name in approaches if (task, name) in longest}
    competing = [name for name in approaches if name in published.APPROACHES]
    best = largest(ours[name].length for name in competing if name in ours)
    paper_best = largest(paper[task, name] for name in competing if (task, name) in paper)
    for name in approaches:
        found, theirs = ours.get(name), paper.get((task, name))
        length = None if found is None else found.length
        yield Cell(
            *worded(length, theirs, 0),
            "" if found is None else note(found),
            bold=name in competing and length is not None and length == best > 0,
            paper_bold=theirs is not None and theirs == paper_best > 0,
        )


def _records(
    task: str, approaches: Sequence[str], longest: Mapping[Key, Longest], extended: bool
) -> Iterator[dict[str, object]]:
    paper = published.max_lengths(extended)
    for name in approaches:
        ours, theirs = longest.get((task, name)), paper.get((task, name))
        length = None if ours is None else ours.length
        yield {
            "task": task,
            "approach": name,
            "max_length": length,
            "interval_low": ours.interval[0] if ours and ours.interval else None,
            "interval_high": ours.interval[1] if ours and ours.interval else None,
            "training_score": ours.training_score if ours else None,
            "trials": ours.trials if ours else 0,
            "paper": theirs,
            "difference": difference(length, theirs),
        }


def _factors(
    task: str, longest: Mapping[Key, Longest], plain: Mapping[Key, Longest], extended: bool
) -> tuple[float | None, float | None]:
    baseline = plain.get((task, statistics.BASELINE))
    ours = statistics.factor(
        {name: found.length for (of, name), found in longest.items() if of == task},
        None if baseline is None else baseline.length,
    )
    lengths = published.max_lengths(extended)
    paper = statistics.factor(
        {name: length for (of, name), length in lengths.items() if of == task},
        published.max_lengths(False).get((task, statistics.BASELINE)),
    )
    return ours, paper


def longest_cell(
    found: Longest | None, theirs: int | None, *, is_compared: bool
) -> tuple[Cell, dict[str, object]]:
    """A maximum length, beside the paper's if it is compared, and its part of a record."""
    length = None if found is None else found.length
    told = "" if found is None else note(found)
    plain = Cell(rounded(length, 0), note=told)
    return Cell(*worded(length, theirs, 0), told) if is_compared else plain, {
        "max_length": length,
        "training_score": None if found is None else found.training_score,
        "trials": 0 if found is None else found.trials,
        "paper": theirs,
        "difference": difference(length, theirs),
    }


def note(found: Longest) -> str:
    """What stands beside a maximum length: its interval and the score at training lengths."""
    parts = []
    if found.interval is not None:
        parts.append(f"[{found.interval[0]}, {found.interval[1]}]")
    if not isnan(found.training_score):
        parts.append(f"training {rounded(100 * found.training_score, 0)} %")
    return ", ".join(parts)
