"""Approaches of a study by name: built-in ones, and those defined in a user's file."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from constrained_dnc.errors import SettingError, did_you_mean, one_of
from constrained_dnc.model.controllers import AbstractController
from constrained_dnc.parts import APPROACHES, Approach
from constrained_dnc.plugins import absolute, is_import_path, load_names

USER_DEFINED = "file.py with approaches, file.py:NAME for one, file.py:Class for a controller"


def find_approaches(words: Iterable[str | Approach]) -> tuple[Approach, ...]:
    """The approaches among words and those that words name, without duplicates."""
    approaches: dict[str, Approach] = {}
    for word in words:
        for approach in [word] if isinstance(word, Approach) else _named_by(word):
            if approaches.setdefault(approach.name, approach) != approach:
                raise SettingError(f"two different approaches are called {approach.name}")
    return tuple(approaches.values())


def _named_by(word: str) -> Sequence[Approach]:
    if word == "all":
        return tuple(APPROACHES.values())
    if word in APPROACHES:
        return (APPROACHES[word],)
    approaches: Sequence[Approach] = ()
    if word.endswith(".py"):
        approaches = _approaches_in(load_names("approaches", word, word))
    elif is_import_path(word):
        module, _, name = word.rpartition(":")
        defined = load_names("approaches", word, module)
        value = defined.get(name)
        if inspect.isclass(value) and issubclass(value, AbstractController):
            return (Approach(name, controller=absolute(word)),)
        approaches = _approaches_in({name: value})
        names = [other for other, value in defined.items() if _approaches_in({other: value})]
        if not approaches and names:
            hint = f"{did_you_mean(name, names)}; available: {', '.join(sorted(names))}"
            raise SettingError(f"{module} defines no approach {name}{hint}")
    if not approaches:
        accepted = f"{one_of(APPROACHES, word)}, all, or {USER_DEFINED}"
        raise SettingError("approach", word, accepted)
    return approaches


def _approaches_in(names: Mapping[str, Any]) -> list[Approach]:
    """The approaches among values and in lists of them."""
    approaches: list[Approach] = []
    for value in names.values():
        entries = value if isinstance(value, list | tuple) else [value]
        approaches += [entry for entry in entries if isinstance(entry, Approach)]
    return list(dict.fromkeys(approaches))
