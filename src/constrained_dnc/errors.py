"""Errors for users, and checks of settings."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

SMALLEST, LARGEST = 1.18e-38, 3.4e38
"""The range of normal float32 numbers."""
LARGEST_SIZE, LARGEST_SEED = 2**31 - 1, 2**63 - 1
LARGEST_BATCH = 1_000_000
LONGEST_NAME = 80
"""Two names fit into one file name of at most 255 bytes."""
LONGEST_VALUE = 200


class SettingError(ValueError):
    """A setting that cannot be used: a sentence, or the setting, its value and what it must be.

    >>> print(SettingError("--length cannot be combined with a problem"))
    --length cannot be combined with a problem
    >>> print(SettingError("memory_size", 0, "an integer of at least 1"))
    memory_size must be an integer of at least 1, not 0
    """

    def __init__(self, setting: str, value: object = None, accepted: str | None = None):
        super().__init__(*((setting,) if accepted is None else (setting, value, accepted)))

    def __str__(self) -> str:
        if len(self.args) == 1:
            return str(self.args[0])
        setting, value, accepted = self.args
        return f"{setting} must be {accepted}, not {shortened(repr(value))}"


def shortened(text: str) -> str:
    """A long text with its middle left out."""
    left = len(text) - LONGEST_VALUE
    return text if left <= 0 else f"{text[:160]}... ({left} more characters) ...{text[-40:]}"


def one_of(names: Iterable[str], value: object = "") -> str:
    """The accepted names as part of a sentence, with a hint for a typo.

    >>> one_of(["sort", "copy"], "srot")
    'one of copy, sort (did you mean sort?)'
    """
    names = sorted(names)
    return "one of " + ", ".join(names) + did_you_mean(value, names)


def did_you_mean(value: object, names: Iterable[str]) -> str:
    """A hint at the closest name, or an empty string."""
    import difflib  # noqa: PLC0415 - only for typos

    close = difflib.get_close_matches(str(value), list(names), 1)
    return f" (did you mean {close[0]}?)" if close else ""


def require_integer(setting: str, value: object, minimum: int, maximum: int = LARGEST_SIZE) -> None:
    """Refuse anything but an integer from `minimum` to `maximum`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < minimum:
        raise SettingError(setting, value, f"an integer of at least {minimum}")
    if int(value) > maximum:
        raise SettingError(setting, value, f"an integer from {minimum} to {maximum}")


def require_number(setting: str, value: object, minimum: float, maximum: float = LARGEST) -> None:
    """Refuse anything but a number from `minimum` to `maximum`, by default float32's largest."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not (is_number and minimum <= value <= maximum):  # type: ignore[operator]
        raise SettingError(setting, value, f"a number from {minimum:g} to {maximum:.9g}")


def require_path(setting: str, value: object) -> None:
    """Refuse anything but a path."""
    if not isinstance(value, str | os.PathLike):
        raise SettingError(setting, value, "a path, as text or a pathlib.Path")


def bounded(default: float | int, *bounds: float | int) -> Any:
    """A dataclass field with a minimum and an optional maximum, for `check_bounds`."""
    return dataclasses.field(default=default, metadata={"bounds": bounds})


def check_bounds(settings: Any, prefix: str = "") -> None:
    """Refuse values outside the bounds of their fields; convert NumPy's numbers, for JSON."""
    for field in dataclasses.fields(settings):
        value: Any = getattr(settings, field.name)
        if "bounds" in field.metadata:
            check: Any = require_integer if field.type == "int" else require_number
            check(prefix + field.name, value, *field.metadata["bounds"])
        if isinstance(value, Real) and str(field.type).startswith("float"):
            object.__setattr__(settings, field.name, float(value))
        elif isinstance(value, Integral) and not isinstance(value, bool):
            object.__setattr__(settings, field.name, int(value))


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type if there is none.

    >>> first_line(ValueError("no\\nroom")), first_line(MemoryError())
    ('no', 'MemoryError')
    """
    return (str(error) or type(error).__name__).splitlines()[0]


def printable(text: str) -> str:
    """The text with ? in place of terminal control characters.

    >>> printable("so\\x1b[31mrt")
    'so?[31mrt'
    """
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def require_name(setting: str, value: object) -> None:
    """Refuse a name that does not fit into a file name, a table or a web page."""
    is_name = isinstance(value, str) and re.fullmatch(r"\w[\w+.,=@~-]*", value)
    if not is_name or len(str(value).encode()) > LONGEST_NAME:
        accepted = f"a word of letters, digits and +-_.,=@~, at most {LONGEST_NAME} bytes long"
        raise SettingError(setting, value, accepted)


class RunError(RuntimeError):
    """A run's files cannot be read or written; the message says which, and why."""
