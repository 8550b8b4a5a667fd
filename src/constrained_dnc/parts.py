"""The table of built-in parts, their text form, and approaches: combinations of parts.

Parts, optimisers, schedules and user-defined curricula are written as KIND,NAME=VALUE,NAME=VALUE:
the name of a built-in one or an import path, then settings.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from constrained_dnc.errors import LARGEST, SettingError, did_you_mean, one_of, require_name
from constrained_dnc.plugins import (
    ACCEPTED_PATHS,
    absolute,
    is_import_path,
    load_class,
    load_function,
)

ACCEPTED = "a name or an import path, with or without settings: KIND,NAME=VALUE,NAME=VALUE"
_TEXT = re.compile(r"(?P<kind>.*?)(?P<settings>(,[^\W\d]\w*=[^,]*)*)", re.DOTALL)

Value: TypeAlias = bool | int | float | str
"""The value of a setting."""


@dataclass(frozen=True)
class BuiltIn:
    """A part of this package, which is imported only when it is made; it checks its values."""

    path: str
    """The module and the class or function that makes it."""
    settings: Mapping[str, Value] = field(default_factory=dict)
    """Its settings and their defaults."""
    optional: Mapping[str, type] = field(default_factory=dict)
    """Its settings without a default, and their types."""


CONTROLLER, CONSTRAINTS, MEMORY = "approach.controller", "approach.constraints", "approach.memory"
LOOKUP, SCHEDULE = "dnc.lookup", "training.schedule"
LOOKUPS = ("lookup", "read_lookup", "write_lookup")
"""The settings of the memory `dnc` that name a look-up: for both, for reads, for writes."""
PARTS: dict[str, dict[str, BuiltIn]] = {
    CONTROLLER: {
        "lstm": BuiltIn("model.controllers:Lstm"),
        "peephole": BuiltIn("model.controllers:peephole_lstm"),
        "feed-forward": BuiltIn("model.controllers:FeedForward"),
    },
    CONSTRAINTS: {
        "compression": BuiltIn("model.constraints:Compression"),
        "regularisation": BuiltIn(
            "model.constraints:Regularisation", {"task_weight": 0.9, "num_pairs": 5}
        ),
        "noise": BuiltIn("model.constraints:Noise", {"sigma": 0.1}),
        "rounding": BuiltIn("model.constraints:Rounding", {"levels": 3}),
    },
    MEMORY: {
        "dnc": BuiltIn(
            "model.dnc_memory:DNCMemory",
            {"lookup": "every-slot"},
            {"read_lookup": str, "write_lookup": str},
        ),
        "ntm": BuiltIn("model.ntm_memory:NTMMemory"),
        "none": BuiltIn("model.memory:NoMemory"),
    },
    LOOKUP: {
        "every-slot": BuiltIn("model.addressing:content_weights"),
        "used-slots": BuiltIn("model.addressing:content_weights_of_used_slots"),
    },
    SCHEDULE: {
        "constant": BuiltIn("training.optimiser:constant"),
        "linear": BuiltIn("training.optimiser:linear", {"final": 0.0}),
        "cosine": BuiltIn("training.optimiser:cosine", {"final": 0.0}),
        "warmup-cosine": BuiltIn(
            "training.optimiser:warmup_cosine", {"final": 0.0}, {"warmup": int}
        ),
    },
}
"""All built-in parts, by the setting that names them. Optimisers are the functions of optax."""
_BY_KIND = {kind: entry for parts in PARTS.values() for kind, entry in parts.items()}


def require_kind(setting: str, kind: str, paths: str = ACCEPTED_PATHS) -> None:
    """Refuse what is neither the name of a built-in part nor an import path; nothing is loaded."""
    if not (kind in PARTS[setting] or is_import_path(kind)):
        raise SettingError(setting, kind, f"{one_of(PARTS[setting], kind)}, or {paths}")


def find_part(setting: str, kind: str, base: type | None = None) -> Callable[..., Any]:
    """What makes a part: of a user-defined one a class that extends `base`, or a function."""
    if kind not in PARTS[setting]:
        return load_class(setting, kind, base) if base else load_function(setting, kind)
    module, _, name = PARTS[setting][kind].path.partition(":")
    made_by: Callable[..., Any] = getattr(importlib.import_module(f"{__package__}.{module}"), name)
    return made_by


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


def refuse_unknown(kind: str, names: Iterable[str], accepted: Collection[str]) -> None:
    """Refuse settings that a part does not have."""
    for name in names:
        if name not in accepted:
            available = ", ".join(accepted) or "none"
            hint = did_you_mean(name, accepted)
            raise SettingError(f"{kind} has no setting {name!r}{hint}; available: {available}")


def refuse_text(kind: str, function: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Refuse text for a setting whose default is a number, or true or false."""
    parameters = inspect.signature(function).parameters
    for name, value in settings.items():
        default = parameters[name].default if name in parameters else None
        if isinstance(value, str) and isinstance(default, bool | int | float):
            accepted = "true or false" if isinstance(default, bool) else "a number"
            raise SettingError(f"{name} of {kind}", value, accepted)


@dataclass(frozen=True)
class Part:
    """A part by its kind, with settings.

    >>> parse_part("regularisation,task_weight=0.99")
    Part(kind='regularisation', settings=(('task_weight', 0.99), ('num_pairs', 5)))
    """

    kind: str
    """The name of a built-in part, or package.module:Class or file.py:Class."""
    settings: tuple[tuple[str, Value], ...] = ()
    """Names and values; a built-in part has its defaults among them."""

    def __post_init__(self) -> None:
        settings = dict(self.settings)
        if built_in := _BY_KIND.get(self.kind):
            defaults = built_in.settings
            types = {**{name: type(defaults[name]) for name in defaults}, **built_in.optional}
            refuse_unknown(self.kind, settings, types)
            settings = {
                name: _of_type(f"{self.kind}.{name}", value, types[name])
                for name, value in {**defaults, **settings}.items()
            }
        else:
            settings = dict(sorted(settings.items()))
        object.__setattr__(self, "settings", tuple(settings.items()))

    @property
    def paths(self) -> tuple[str, ...]:
        """The import paths of the user-defined code that it uses."""
        return tuple(filter(is_import_path, [self.kind, *self._lookups().values()]))

    def with_absolute_paths(self) -> Part:
        """The part with absolute paths to user-defined files."""
        lookups = {name: absolute(path) for name, path in self._lookups().items()}
        return Part(absolute(self.kind), tuple({**dict(self.settings), **lookups}.items()))

    def _lookups(self) -> dict[str, str]:
        names = LOOKUPS if self.kind == "dnc" else ()
        return {name: str(value) for name, value in self.settings if name in names}

    def __str__(self) -> str:
        """The text that `parse_part` reads."""
        return ",".join([self.kind, *(f"{name}={value}" for name, value in self.settings)])


def _of_type(setting: str, value: Value, kind: type) -> Value:
    """The value as a number of Python if it must be one; 1 and 1.0 are one setting."""
    is_number = isinstance(value, Real) and not isinstance(value, bool) and abs(value) <= LARGEST
    if kind is int and is_number and isinstance(value, Integral):
        return int(value)
    if kind is float and is_number:
        return float(value)
    if kind is str and isinstance(value, str):
        return value
    accepted = {int: "an integer", float: "a number", str: "a name"}
    raise SettingError(setting, value, accepted[kind])


def parse_part(text: str, setting: str = "a part") -> Part:
    """A part, an optimiser, a schedule or a user-defined curriculum from text.

    Args:
        text: A kind or an import path, then settings: `regularisation,task_weight=0.9`.
        setting: What the text is the value of, for errors.

    >>> parse_part("sgd,momentum=0.9,nesterov=true")
    Part(kind='sgd', settings=(('momentum', 0.9), ('nesterov', True)))
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
    return Part(kind, tuple(settings.items()))


def _split(text: str) -> tuple[str, str]:
    """The kind, whose folder may have commas in its name, and the rest of the text."""
    match = _TEXT.fullmatch(text)
    assert match is not None
    return match["kind"], match["settings"]


def kind_of(text: str) -> str:
    """The kind of a part, an optimiser, a schedule or a curriculum: if a path, code to import."""
    return _split(text)[0]


def with_absolute_path(text: str) -> str:
    """The text of a part whose file, if it names one, has an absolute path."""
    kind, settings = _split(text)
    return absolute(kind) + settings


def depends_on_iterations(schedule: str) -> bool:
    """Whether a schedule is spread over all iterations, as all built-in ones but constant are."""
    kind = kind_of(schedule)
    return kind in PARTS[SCHEDULE] and kind != "constant"


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
    """lstm, peephole, feed-forward, or file.py:Class, with settings as file.py:Class,NAME=VALUE."""
    constraints: tuple[Part, ...] = ()
    """On the cell state, in order: compression, regularisation, noise, rounding, file.py:Class."""
    memory: Part = Part("dnc")
    """dnc (lookup=every-slot, used-slots or file.py:function), ntm, none, or file.py:Class."""

    def __post_init__(self) -> None:
        require_name("approach.name", self.name)
        for part in (*self.constraints, self.memory):
            if not isinstance(part, Part):
                raise SettingError("a part of an approach", part, "a Part, such as Part('noise')")
        kinds = [part.kind for part in self.constraints]
        for kind in kinds:
            if kinds.count(kind) > 1:
                raise SettingError(f"approach.constraints has {kind} more than once")
            require_kind(CONSTRAINTS, kind)
        require_kind(MEMORY, self.memory.kind)
        require_kind(CONTROLLER, parse_part(self.controller, CONTROLLER).kind)
        if self.controller == "feed-forward" and any(kind in PARTS[CONSTRAINTS] for kind in kinds):
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
