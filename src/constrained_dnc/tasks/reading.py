"""Problems as people give them: text, plain values, arrays; one or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from constrained_dnc.errors import SettingError
from constrained_dnc.tasks.task import AbstractTask, Problem

DEEPEST = 20
"""Sequences within sequences; several problems of any task here are three."""


def read_problems(task: AbstractTask, given: Any) -> tuple[list[Problem], bool]:
    """The problems in what was given, and whether it was a single one.

    >>> from constrained_dnc.tasks.sort import Sort
    >>> read_problems(Sort(), "3 1 4"), read_problems(Sort(), ["3 1 4", (2, 0)])
    (([(3, 1, 4)], True), ([(3, 1, 4), (2, 0)], False))
    """
    given = _plain(given)
    try:
        return [_read_one(task, given)], True
    except SettingError:
        are_several = isinstance(given, Sequence) and not isinstance(given, str)
        if not (are_several and given and all(isinstance(one, Sequence) for one in given)):
            raise
    return [_read_one(task, one) for one in given], False


def _read_one(task: AbstractTask, given: Any) -> Problem:
    if isinstance(given, str):
        return task.parse(given)
    task.check(given)
    return given


def _plain(given: Any, depth: int = DEEPEST) -> Any:
    """Arrays and their entries as plain Python values."""
    if hasattr(given, "tolist"):
        return _plain(given.tolist(), depth)
    if isinstance(given, list | tuple):
        if depth == 0:
            accepted = f"sequences at most {DEEPEST} deep"
            raise SettingError("problem", "sequences within sequences", accepted)
        return tuple(_plain(entry, depth - 1) for entry in given)
    return given
