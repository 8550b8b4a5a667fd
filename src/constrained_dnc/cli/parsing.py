"""From arguments to a dataclass, with help that teaches and errors of one sentence."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import itertools
import os
import shutil
import types
import typing
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import tyro

from constrained_dnc.approaches import Part, parse_part
from constrained_dnc.cli.telling import tell
from constrained_dnc.errors import RunError, SettingError, one_of, shortened
from constrained_dnc.model.config import GROWING

Asked = TypeVar("Asked")
VALUES = tyro.constructors.ConstructorRegistry()
"""How numbers and choices are read: the parser's own complaints speak of Python's types."""
NARROWEST = 20
"""Columns; the parser never finishes its help for a few of them."""
NUMBERS = {int: "an integer", float: "a number"}

MEMORY_SIZE = tyro.conf.arg(metavar=f"INT|{GROWING}", help_behavior_hint="")
"""A memory size is read as text: the parser's own complaint about a union names types."""


@dataclass(frozen=True)
class Nothing:
    """The options of a command that has none."""


def parse(
    kind: type[Asked],
    arguments: list[str],
    program: str,
    description: str | None,
    default: Asked | None = None,
) -> Asked:
    """Fill `kind` from command-line arguments; `--help` prints its fields and exits."""
    options: dict[str, Any] = {} if default is None else {"default": default}
    options |= {"prog": program, "description": inspect.cleandoc(description or "")}
    complaint = io.StringIO()
    if shutil.get_terminal_size().columns < NARROWEST:
        os.environ["COLUMNS"] = str(NARROWEST)
    if "--help" in arguments or "-h" in arguments:  # after others it would leave those out
        arguments = ["--help"]
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(options_of(kind), args=arguments, registry=VALUES, **options)
    except SystemExit as stop:
        if stop.code:
            sentence = one_sentence(_complaint_in_parts(kind, arguments, options))
            tell(f"{program}: {sentence or one_sentence(complaint.getvalue())}")
        raise


def _complaint_in_parts(kind: type[Any], arguments: list[str], options: dict[str, Any]) -> str:
    """The complaint about `--option=value` in two parts: only then is a similar option named."""
    complaint = io.StringIO()
    parts = [
        part
        for argument in arguments
        for part in (argument.split("=", 1) if argument.startswith("--") else [argument])
    ]
    with contextlib.redirect_stderr(complaint), contextlib.suppress(SystemExit):
        tyro.cli(kind, args=parts, registry=VALUES, **options)
    return complaint.getvalue()


def options_of(kind: type[Asked]) -> type[Asked]:
    """The same class with help for people: no `{None}|PATH`, no `(default: )`.

    Where nothing is the default, the words beside the option say what is done then.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    for option in dataclasses.fields(kind):  # type: ignore[arg-type]
        hint = hints[option.name]
        is_plain = typing.get_origin(hint) is not Annotated
        if is_plain and (option.default is None or option.default == ()):
            shown = tyro.conf.arg(metavar=_metavar(hint), help_behavior_hint="")
            kind.__annotations__[option.name] = Annotated[hint, shown]
    return kind


@VALUES.primitive_rule
def _number_or_choice(
    info: tyro.constructors.PrimitiveTypeInfo,
) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
    """The rule for numbers and choices, also where None is accepted; none for anything else."""
    kinds = typing.get_args(info.type) if _is_union(info.type) else (info.type,)
    has_none = types.NoneType in kinds
    kinds = tuple(kind for kind in kinds if kind is not types.NoneType)
    if len(kinds) != 1:
        return None
    kind, names = kinds[0], typing.get_args(kinds[0])
    is_choice = typing.get_origin(kind) is typing.Literal
    if not is_choice and kind not in NUMBERS:
        return None

    def read(texts: list[str]) -> Any:
        (text,) = texts
        if has_none and text == "None":
            return None
        if is_choice and text in names:
            return text
        with contextlib.suppress(TypeError, ValueError):
            if text.isascii() and "_" not in text:  # Python reads more as numbers than people do
                return kind(text)
        accepted = one_of(names, text) if is_choice else NUMBERS[kind]
        raise ValueError(f"{shortened(repr(text))}; accepted: {accepted}")

    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=_word(kind),
        instance_from_str=read,
        is_instance=lambda value: value in names if is_choice else isinstance(value, kind | int),
        str_from_instance=lambda value: [str(value)],
    )


@VALUES.primitive_rule
def _part(
    info: tyro.constructors.PrimitiveTypeInfo,
) -> tyro.constructors.PrimitiveConstructorSpec[Part] | None:
    """The rule for a part with settings, such as regularisation,task_weight=0.9."""
    if info.type is not Part:
        return None

    def read(texts: list[str]) -> Part:
        try:
            return parse_part(*texts)
        except SettingError as error:  # the parser hides what a ValueError in a list says
            raise RunError(str(error)) from error

    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="KIND[,NAME=VALUE]",
        instance_from_str=read,
        is_instance=lambda value: isinstance(value, Part),
        str_from_instance=lambda value: [str(value)],
    )


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (types.UnionType, typing.Union)


def _metavar(hint: Any) -> str | None:
    """What to write for an option, None where the parser knows better.

    >>> _metavar(int | typing.Literal["a", "b"] | None), _metavar(tuple[str, ...])
    ('INT|{a,b}', None)
    """
    if not _is_union(hint):
        return None
    kinds = [kind for kind in typing.get_args(hint) if kind is not types.NoneType]
    return "|".join(map(_word, kinds))


def _word(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return "{" + ",".join(map(str, typing.get_args(kind))) + "}"
    return str(kind.__name__).upper()


def one_sentence(box: str) -> str:
    """What a box on the terminal says, on one line.

    >>> one_sentence("╭─ Error ─╮\\n│ Missing: TASK │\\n│ ───── │\\n│ See --help │\\n╰──────╯")
    'Missing: TASK; See --help'
    >>> one_sentence("+- Error -+\\n| Missing: TASK |\\n| ----- |\\n| See --help |\\n+-----+")
    'Missing: TASK; See --help'
    """
    lines = [line.strip("│| ") for line in box.splitlines() if line[:1] not in tuple("╭╰+")]
    parts = itertools.groupby(filter(None, lines), lambda line: not set(line) <= set("─-"))
    said = (" ".join(part) for is_text, part in parts if is_text)
    return "; ".join(part for part in said if not part.startswith("Argument helptext"))


def value_of(arguments: list[str], option: str, default: str) -> str:
    """The value of an option that decides about the defaults of others; the last one counts."""
    value = default
    for argument, following in itertools.pairwise([*arguments, ""]):
        if argument == option:
            value = following
        elif argument.startswith(f"{option}="):
            value = argument.partition("=")[2]
    return value
