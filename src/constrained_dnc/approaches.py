"""Approaches: a controller, the constraints on its state, and a memory. Some are built in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from constrained_dnc.errors import (
    LARGEST,
    SettingError,
    one_of,
    require_integer,
    require_name,
    require_number,
)
from constrained_dnc.plugins import ACCEPTED_PATHS, is_import_path
from constrained_dnc.recipes import refuse_unknown, split_recipe

CONTROLLERS = ("lstm", "peephole", "feed-forward")
LOOKUPS = ("every-slot", "used-slots")

Value: TypeAlias = bool | int | float | str
"""The value of a setting."""

_fraction = partial(require_number, minimum=0.0, maximum=1.0)
_number = partial(require_number, minimum=0.0, maximum=LARGEST)


def _lookup(setting: str, value: object) -> None:
    if value not in LOOKUPS:
        raise SettingError(setting, value, one_of(LOOKUPS, value))


Settings: TypeAlias = dict[str, tuple[Value, Callable[[str, object], None]]]
"""The settings of a built-in part: the default of each, and its check."""
_CONSTRAINTS: dict[str, Settings] = {
    "compression": {},
    "regularisation": {
        "task_weight": (0.9, _fraction),
        "num_pairs": (5, partial(require_integer, minimum=1)),
    },
    "noise": {"sigma": (0.1, _number)},
    "rounding": {"levels": (3, partial(require_integer, minimum=2))},
}
_MEMORIES: dict[str, Settings] = {
    "dnc": {"lookup": ("every-slot", _lookup)},
    "ntm": {},
    "none": {},
}
_DEFAULTS = _CONSTRAINTS | _MEMORIES
CONSTRAINTS, MEMORIES = tuple(_CONSTRAINTS), tuple(_MEMORIES)


@dataclass(frozen=True)
class Part:
    """A constraint or a memory by its kind, with settings.

    >>> parse_part("regularisation,task_weight=0.99")
    Part(kind='regularisation', settings=(('task_weight', 0.99), ('num_pairs', 5)))
    """

    kind: str
    """The name of a built-in part, or package.module:Class or file.py:Class."""
    settings: tuple[tuple[str, Value], ...] = ()
    """Names and values; a built-in part has a default for each."""

    def __post_init__(self) -> None:
        settings = dict(self.settings)
        if self.kind in _DEFAULTS:
            known = _DEFAULTS[self.kind]
            check_settings(self.kind, settings)
            filled = {name: settings.get(name, default) for name, (default, _) in known.items()}
            settings = {name: type(known[name][0])(value) for name, value in filled.items()}
        else:
            settings = dict(sorted(settings.items()))
        object.__setattr__(self, "settings", tuple(settings.items()))

    def __str__(self) -> str:
        """The text that `parse_part` reads."""
        return ",".join([self.kind, *(f"{name}={value}" for name, value in self.settings)])


def parse_part(text: str) -> Part:
    """A part from text such as `regularisation,task_weight=0.9,num_pairs=5`."""
    kind, settings = split_recipe("a part", text)
    return Part(kind, tuple(settings.items()))


def check_settings(kind: str, settings: Mapping[str, object]) -> None:
    """Refuse unknown settings of a built-in part and values out of range."""
    known = _DEFAULTS[kind]
    refuse_unknown(kind, settings, known)
    for name, value in settings.items():
        known[name][1](f"{kind}.{name}", value)


@dataclass(frozen=True)
class Approach:
    """A combination of parts; a new combination needs a new name.

    >>> gentle = parse_part("regularisation,task_weight=0.99")
    >>> Approach("gentle", "peephole", (gentle,)).summary()
    'peephole controller, regularised state (task_weight 0.99, num_pairs 5)'
    """

    name: str
    """Its name in tables and files."""
    controller: str = "lstm"
    """lstm, peephole, feed-forward, or package.module:Class or file.py:Class."""
    constraints: tuple[Part, ...] = ()
    """On the cell state, in order: compression, regularisation, noise, rounding, file.py:Class."""
    memory: Part = Part("dnc")
    """dnc (lookup=every-slot or used-slots), ntm, none, or file.py:Class."""

    def __post_init__(self) -> None:
        require_name("approach.name", self.name)
        for part in (*self.constraints, self.memory):
            if not isinstance(part, Part):
                raise SettingError("a part of an approach", part, "a Part, such as Part('noise')")
        kinds = [part.kind for part in self.constraints]
        for kind in kinds:
            if kinds.count(kind) > 1:
                raise SettingError(f"approach.constraints has {kind} more than once")
            _require_kind("approach.constraints", kind, CONSTRAINTS)
        _require_kind("approach.memory", self.memory.kind, MEMORIES)
        _require_kind("approach.controller", self.controller, CONTROLLERS)
        if self.constraints and self.controller == "feed-forward":
            raise SettingError("the feed-forward controller has no state to constrain")

    @property
    def can_grow(self) -> bool:
        """Whether a trained model can run with a growing memory."""
        return self.memory.kind == "dnc"

    def summary(self) -> str:
        """A one-line description."""
        constraints = " and ".join(map(_describe, self.constraints)) or "no constraint"
        parts = [f"{self.controller} controller", constraints]
        if self.memory != Part("dnc"):
            parts.append(_describe(self.memory))
        return ", ".join(parts)


def _require_kind(setting: str, kind: str, known: tuple[str, ...]) -> None:
    if not (kind in known or is_import_path(kind)):
        raise SettingError(setting, kind, f"{one_of(known, kind)}, or {ACCEPTED_PATHS}")


def _describe(part: Part) -> str:
    if part == USED_SLOTS_MEMORY:
        return "look-up over used slots"
    names = {
        "compression": "compressed state",
        "regularisation": "regularised state",
        "noise": "noisy state",
        "rounding": "rounded state",
        "ntm": "NTM memory",
        "none": "no memory",
    }
    settings = ", ".join(f"{name} {value}" for name, value in part.settings)
    return names.get(part.kind, part.kind) + (f" ({settings})" if settings else "")


USED_SLOTS_MEMORY = Part("dnc", (("lookup", "used-slots"),))
APPROACHES: dict[str, Approach] = {
    approach.name: approach
    for approach in (
        Approach("stateful-baseline", "lstm"),
        Approach("stateless-baseline", "feed-forward"),
        Approach("compr", "peephole", (Part("compression"),)),
        Approach("reg", "peephole", (Part("regularisation"),)),
        Approach("compr+reg", "peephole", (Part("compression"), Part("regularisation"))),
        Approach("peephole", "peephole"),
        Approach("lstm-compr", "lstm", (Part("compression"),)),
        Approach("lstm-reg", "lstm", (Part("regularisation"),)),
        Approach("lstm-compr+reg", "lstm", (Part("compression"), Part("regularisation"))),
        Approach(
            "compr+reg+used",
            "peephole",
            (Part("compression"), Part("regularisation")),
            memory=USED_SLOTS_MEMORY,
        ),
        Approach("stateful-baseline+used", "lstm", memory=USED_SLOTS_MEMORY),
        Approach(
            "round+reg",
            "peephole",
            (Part("compression"), Part("rounding"), Part("regularisation")),
        ),
    )
}
"""The five of the paper, the four of its supplement C, and three that go beyond it."""


def get_approach(name: str) -> Approach:
    """The built-in approach with this name."""
    if name not in APPROACHES:
        raise SettingError("approach", name, one_of(APPROACHES, name))
    return APPROACHES[name]
