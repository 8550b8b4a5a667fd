"""Approaches of a study: those with names, and those that a user's file defines."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from constrained_dnc.approaches import APPROACHES, Approach
from constrained_dnc.errors import SettingError, one_of
from constrained_dnc.model.controllers import AbstractController
from constrained_dnc.plugins import absolute, is_import_path, load_names

OWN = (
    "all, file.py with approaches, file.py:NAME for one of them, or file.py:Class for a controller"
)


def find_approaches(words: Iterable[str]) -> tuple[Approach, ...]:
    """The approaches that words stand for, each once; different ones have different names."""
    found: dict[str, Approach] = {}
    for word in words:
        for approach in _meant_by(word):
            if found.setdefault(approach.name, approach) != approach:
                accepted = f"one approach of the name {approach.name}"
                raise SettingError("approaches", " ".join(words), accepted)
    return tuple(found.values())


def _meant_by(word: str) -> Sequence[Approach]:
    if word == "all":
        return tuple(APPROACHES.values())
    if word in APPROACHES:
        return (APPROACHES[word],)
    if word.endswith(".py"):
        found = _approaches_in(load_names("approaches", word, word))
    elif is_import_path(word):
        place, _, name = word.rpartition(":")
        defined = load_names("approaches", word, place)
        value = defined.get(name)
        if inspect.isclass(value) and issubclass(value, AbstractController):
            return (Approach(name, controller=absolute(word)),)
        found = _approaches_in({name: value})
        there = [other for other, value in defined.items() if _approaches_in({other: value})]
        if not found and there:
            raise SettingError("approach", word, f"{place}: with {one_of(there, name)}")
    else:
        found = []
    if not found:
        raise SettingError("approach", word, f"{one_of(APPROACHES, word)}, {OWN}")
    return found


def _approaches_in(names: Mapping[str, Any]) -> list[Approach]:
    """The approaches among values, also those in lists."""
    found: list[Approach] = []
    for value in names.values():
        entries = value if isinstance(value, list | tuple) else [value]
        found += [entry for entry in entries if isinstance(entry, Approach)]
    return list(dict.fromkeys(found))
