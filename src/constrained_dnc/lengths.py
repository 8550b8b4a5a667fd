"""Input lengths as text: lists with ranges, and a curriculum of ranges."""

from __future__ import annotations

import re
from dataclasses import dataclass

from constrained_dnc.errors import SettingError

LONGEST_INPUT = 1_000_000
"""So that a typo in a range of lengths does not fill the memory."""
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


@dataclass(frozen=True)
class Stage:
    """The training lengths after a number of iterations."""

    iterations: int
    shortest: int
    longest: int


def parse_curriculum(text: str, shortest: int, longest: int) -> tuple[Stage, ...]:
    """The stages of a curriculum within the training lengths.

    >>> parse_curriculum("0:1..5,2000:10", 1, 10)[1]
    Stage(iterations=2000, shortest=10, longest=10)
    """
    accepted = (
        f"iterations and lengths from {shortest} to {longest} (training.min_length and max_length) "
        f"such as 0:{shortest},2000:{shortest}..{longest}, from 0 upwards, or file.py:function"
    )
    matches = [_STAGE.fullmatch(part.strip()) for part in text.split(",")]
    stages = tuple(
        Stage(int(match[1]), int(match[2]), int(match[3] or match[2])) for match in matches if match
    )
    starts = [stage.iterations for stage in stages]
    if (
        not all(matches)
        or starts != sorted(set(starts))
        or starts[0] != 0
        or not all(shortest <= stage.shortest <= stage.longest <= longest for stage in stages)
    ):
        raise SettingError("training.curriculum", text, accepted)
    return stages
