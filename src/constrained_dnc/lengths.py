"""Input lengths: as text, with ranges, in a curriculum; and the longest that is mastered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from constrained_dnc.errors import SettingError

LONGEST_INPUT = 1_000_000
"""So that a typo in a range of lengths does not fill the memory."""
THRESHOLD = 0.95
"""The score from which a length counts as mastered."""
MASTERED = THRESHOLD - 1e-9  # a mean of exactly 19 in 20 can come out that much lower
NO_CURRICULUM = "none"
_RANGE = re.compile(r"(\d{1,9})(?:\.\.(\d{1,9})(?::([1-9]\d{0,8}))?)?", re.ASCII)
_STAGE = re.compile(r"(\d{1,9}):(\d{1,9})(?:\.\.(\d{1,9}))?", re.ASCII)


def parse_lengths(text: str, setting: str = "lengths") -> tuple[int, ...]:
    """Lengths from text: single ones and ranges, optionally with a step.

    >>> parse_lengths("2,5..20:5")
    (2, 5, 10, 15, 20)
    """
    accepted = f"integers from 1 to {LONGEST_INPUT}, ascending, such as 2..100 or 2,5..50:5"
    lengths: list[int] = []
    for part in str(text).split(","):
        match = _RANGE.fullmatch(part.strip())
        first, last, step = match.groups() if match else ("0", None, None)
        if not 1 <= int(first) <= int(last or first) <= LONGEST_INPUT:
            raise SettingError(setting, text, accepted)
        lengths += range(int(first), int(last or first) + 1, int(step or 1))
    if lengths != sorted(set(lengths)):
        raise SettingError(setting, text, accepted)
    return tuple(lengths)


def format_lengths(lengths: Iterable[int]) -> str:
    """Lengths as text that `parse_lengths` reads.

    >>> format_lengths([1, 3, 4, 5])
    '1,3..5'
    """
    ranges: list[list[int]] = []
    for length in sorted(lengths):
        if ranges and length == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], length]
        else:
            ranges.append([length])
    return ",".join("..".join(map(str, each)) for each in ranges)


def parse_curriculum(text: str, shortest: int, longest: int) -> tuple[tuple[int, int, int], ...]:
    """The stages of a curriculum: iterations before each, its shortest and longest length.

    >>> parse_curriculum("0:1..5,2000:10", 1, 10)
    ((0, 1, 5), (2000, 10, 10))
    """
    matches = [_STAGE.fullmatch(part.strip()) for part in text.split(",")]
    stages = tuple((int(m[1]), int(m[2]), int(m[3] or m[2])) for m in matches if m)
    starts = [start for start, _, _ in stages]
    is_ascending = starts == sorted(set(starts)) and starts[:1] == [0]
    are_lengths = all(shortest <= first <= last <= longest for _, first, last in stages)
    if not (all(matches) and is_ascending and are_lengths):
        accepted = (
            f"iterations and lengths from {shortest} to {longest} (training.min_length and "
            f"max_length) such as 0:{shortest},2000:{shortest}..{longest}, from 0 upwards, "
            "or file.py:function"
        )
        raise SettingError("training.curriculum", text, accepted)
    return stages


def max_length_of(scores: Mapping[int, float]) -> int:
    """The longest length with a score of at least 95 %, 0 if there is none.

    Shorter lengths may fail: it is the longest length, not the first crossing.

    Args:
        scores: the score at every evaluated length, from 0 to 1.

    >>> max_length_of({2: 1.0, 3: 0.5, 4: 0.96, 5: 0.2})
    4
    """
    return max((length for length, score in scores.items() if score >= MASTERED), default=0)
