"""Parts and approaches: a controller, the constraints on its state, and a memory.

Parts, optimisers and schedules are written as text: a name or an import path, then settings.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from constrained_dnc.errors import (
    LARGEST,
    SettingError,
    did_you_mean,
    one_of,
    require_integer,
    require_name,
    require_number,
)
from constrained_dnc.plugins import ACCEPTED_PATHS, absolute, is_import_path

ACCEPTED = "a name or an import path, with or without settings: KIND,NAME=VALUE,NAME=VALUE"
_RECIPE = re.compile(r"(?P<kind>.*?)(?P<settings>(,[^\W\d]\w*=[^,]*)*)", re.DOTALL)
SCHEDULES: dict[str, tuple[str, ...]] = {
    "constant": (),
    "linear": ("final",),
    "cosine": ("final",),
    "warmup-cosine": ("warmup", "final"),
}
"""The built-in schedules and their settings."""

LossName: TypeAlias = Literal["squared error", "cross-entropy", "softmax"]
LOSSES: tuple[str, ...] = get_args(LossName)


@dataclass(frozen=True)
class Softmax:
    """Cross-entropy of one choice in each group of output channels.

    Args:
        groups: the number of channels in each group; "softmax" is one group of all channels.
    """

    groups: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(map(int, self.groups)))


@runtime_checkable
class LossFunction(Protocol):
    """A user-defined loss, in JAX.

    Args:
        outputs: the network's outputs, of shape (time, batch, channels).
        batch: the samples, with `inputs`, `targets`, `mask` and `num_steps`.

    Returns:
        The loss of each sample, of shape (batch,).
    """

    def __call__(self, outputs: Any, batch: Any) -> Any: ...


Loss: TypeAlias = LossName | Softmax | LossFunction
"""What a task minimises."""


def split_recipe(setting: str, text: str) -> tuple[str, dict[str, Any]]:
    """The kind and the settings of a part, an optimiser or a schedule.

    >>> split_recipe("training.optimiser", "sgd,momentum=0.9,nesterov=true")
    ('sgd', {'momentum': 0.9, 'nesterov': True})
    """
    kind, pairs = _split(text)
    if "," in kind and not is_import_path(kind):
        raise SettingError(setting, text, ACCEPTED)
    settings: dict[str, Any] = {}
    for pair in pairs.split(",")[1:]:
        name, _, value = pair.partition("=")
        settings[name] = value
        is_flag = value.lower() in ("true", "false")
        with suppress(ValueError, SyntaxError):
            settings[name] = ast.literal_eval(value.capitalize() if is_flag else value)
    return kind, settings


def _split(text: str) -> tuple[str, str]:
    """The kind, whose folder may have commas in its name, and the rest of the text."""
    match = _RECIPE.fullmatch(text)
    assert match is not None
    return match["kind"], match["settings"]


def kind_of(text: str) -> str:
    """The kind of a part, an optimiser, a schedule or a curriculum: if a path, code to import."""
    return _split(text)[0]


def refuse_unknown(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Refuse settings that a part or a schedule does not have."""
    for name in names:
        if name not in known:
            available = ", ".join(known) or "none"
            hint = did_you_mean(name, known)
            raise SettingError(f"{kind} has no setting {name!r}{hint}; available: {available}")


def refuse_text(kind: str, function: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Refuse text for a setting whose default is a number, or true or false."""
    parameters = inspect.signature(function).parameters
    for name, value in settings.items():
        default = parameters[name].default if name in parameters else None
        if isinstance(value, str) and isinstance(default, bool | int | float):
            accepted = "true or false" if isinstance(default, bool) else "a number"
            raise SettingError(f"{name} of {kind}", value, accepted)


def check_schedule(text: str, iterations: int) -> None:
    """Refuse an unknown schedule, and settings that a built-in one lacks or that are out of range.

    A user-defined schedule is checked when training begins.
    """
    kind, settings = split_recipe("training.schedule", text)
    if is_import_path(kind):
        return
    if kind not in SCHEDULES:
        accepted = f"{one_of(SCHEDULES, kind)}, or file.py:function"
        raise SettingError("training.schedule", kind, accepted)
    refuse_unknown(kind, settings, SCHEDULES[kind])
    for name, value in settings.items():
        if name == "final":
            require_number(f"{kind}.final", value, 0.0, 1.0)
        else:
            require_integer(f"{kind}.{name}", value, 1, iterations - 1)


def depends_on_iterations(schedule: str) -> bool:
    """Whether a schedule is spread over all iterations, as all built-in ones but constant are."""
    kind = kind_of(schedule)
    return kind in SCHEDULES and kind != "constant"


def with_absolute_path(text: str) -> str:
    """An optimiser, schedule or curriculum whose file, if it names one, has an absolute path."""
    kind, settings = _split(text)
    return absolute(kind) + settings


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
    """A part from text.

    Args:
        text: A kind or an import path, then settings: `regularisation,task_weight=0.9`.
    """
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
    """A built-in approach.

    Args:
        name: One of `APPROACHES`.
    """
    if name not in APPROACHES:
        raise SettingError("approach", name, one_of(APPROACHES, name))
    return APPROACHES[name]
