"""Parts, optimisers and schedules as text: a name or an import path, then settings."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from constrained_dnc.errors import (
    SettingError,
    did_you_mean,
    one_of,
    require_integer,
    require_number,
)
from constrained_dnc.plugins import absolute, is_import_path

ACCEPTED = "a name or an import path, with or without settings: KIND,NAME=VALUE,NAME=VALUE"
SCHEDULES: dict[str, tuple[str, ...]] = {
    "constant": (),
    "linear": ("final",),
    "cosine": ("final",),
    "warmup-cosine": ("warmup", "final"),
}
"""The built-in schedules and their settings."""


def split_recipe(setting: str, text: str) -> tuple[str, dict[str, Any]]:
    """The kind and the settings of a part, an optimiser or a schedule.

    >>> split_recipe("training.optimiser", "sgd,momentum=0.9,nesterov=true")
    ('sgd', {'momentum': 0.9, 'nesterov': True})
    """
    kind, *pairs = text.split(",")
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name.isidentifier():
            raise SettingError(setting, text, ACCEPTED)
        settings[name] = value
        is_flag = value.lower() in ("true", "false")
        with suppress(ValueError, SyntaxError):
            settings[name] = ast.literal_eval(value.capitalize() if is_flag else value)
    return kind, settings


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
    kind = schedule.partition(",")[0]
    return kind in SCHEDULES and kind != "constant"


def with_absolute_path(text: str) -> str:
    """An optimiser, schedule or curriculum whose file, if it names one, has an absolute path."""
    kind, comma, settings = text.partition(",")
    return f"{absolute(kind)}{comma}{settings}"
