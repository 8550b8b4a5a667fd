"""Numbers as the report prints them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from math import isfinite

from constrained_dnc.errors import printable
from constrained_dnc.report.curves import FEW_TRIALS

Number = float | int

DASH = "\u2013"
MINUS = "\u2212"
NARROW_SPACE = "\u202f"


def rounded(value: Number | None, digits: int) -> str:
    """Halves go up, as in the paper's tables; a dash for no value.

    >>> rounded(46 / 40, 1)
    '1.2'
    """
    if value is None or not isfinite(value):
        return DASH
    text = str(Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", MINUS)


def signed(value: Number | None, digits: int) -> str:
    """As `rounded`, with a plus sign where there is one.

    >>> signed(3, 0), signed(0.41, 2), signed(0.0, 1)
    ('+3', '+0.41', '0.0')
    """
    text = rounded(value, digits)
    return "+" + text if value is not None and value > 0 and float_of(text) > 0 else text


def float_of(text: str) -> float:
    """The number that was printed, NaN for the dash."""
    return float("nan") if text == DASH else float(text.replace(MINUS, "-"))


def thousands(count: int) -> str:
    """Digits in groups of three that stay on one line.

    >>> thousands(300000)
    '300\\u202f000'
    """
    return f"{count:,}".replace(",", NARROW_SPACE)


def plural(count: int, noun: str) -> str:
    """A number of things.

    >>> plural(1, "trial"), plural(3, "trial")
    ('1 trial', '3 trials')
    """
    return f"{thousands(count)} {noun}" if count == 1 else f"{thousands(count)} {noun}s"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["compr", "reg", "compr+reg"])
    'compr, reg and compr+reg'
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def span(ends: tuple[int, int], word: Callable[[int], str] = str) -> str:
    """A range of lengths, or of other numbers worded in another way.

    >>> span((5, 15)), span((3, 3))
    ('5 to 15', '3')
    """
    return " to ".join(map(word, dict.fromkeys(ends)))


def over_trials(counts: Iterable[int]) -> str:
    """What a line and its band are, for so many trials.

    >>> over_trials([1, 1]), over_trials([10])
    ('One trial each.', 'Median over 10 trials; the band holds the middle half of them.')
    >>> over_trials([1, 3])
    'Median over 1 to 3 trials; the band holds all of them.'
    >>> over_trials([2, 9])
    'Median over 2 to 9 trials; the band holds the middle half, with up to 4 trials all, of them.'
    """
    found = sorted({*counts})
    if found == [1]:
        return "One trial each."
    several = [count for count in found if count > 1]
    held = "the middle half" if several[-1] > FEW_TRIALS else "all"
    if held != "all" and several[0] <= FEW_TRIALS:
        held += f", with up to {FEW_TRIALS} trials all,"
    return f"Median over {span((found[0], found[-1]))} trials; the band holds {held} of them."


def label(text: str) -> str:
    """A name for a figure: printable and not too long.

    >>> label("differentiation"), label("x" * 50)
    ('differentiation', 'xxxxxxxxxxxxxxxxxxxxxxx…')
    """
    shown = printable(text).replace("\n", "?")
    return shown if len(shown) <= 24 else shown[:23] + "…"


def file_name(text: str) -> str:
    """A name for a file or an element from any text: short, and different for different texts.

    >>> file_name("compr+reg"), file_name("sort")
    ('compr+reg', 'sort')
    """
    safe = re.sub(r"[^A-Za-z0-9+_-]", "-", text)[:60]
    return safe if safe == text else f"{safe}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
