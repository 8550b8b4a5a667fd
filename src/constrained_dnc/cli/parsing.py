"""From arguments to the dataclass of a command, and the options that several commands share."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import types
import typing
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

import tyro
from tyro.constructors import PrimitiveConstructorSpec, PrimitiveTypeInfo

from constrained_dnc.approaches import Part, parse_part
from constrained_dnc.choices import BackendChoice, Inference, SelectionRule
from constrained_dnc.errors import SettingError, one_of
from constrained_dnc.tasks.numeral import AbstractNumeralTask
from constrained_dnc.tasks.task import AbstractTask, Problem

Command = TypeVar("Command")
VALUES = tyro.constructors.ConstructorRegistry()
"""How numbers and choices are read: the parser's own messages speak of Python's types."""
MARKERS = (tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone)
NUMBERS = {int: "an integer", float: "a number"}
REWORDED = {  # what the parser says, and what a person would
    r"Error parsing (\S+):": r"\1:",
    r"Missing from .*?: (\S+) .*": r"\1 is missing",
    r"Missing value for argument '(\S+)'.*": r"\1 needs a value",
    r"Unrecognized options: (.*)": r"unrecognized arguments: \1",
}


class RefusedValueError(Exception):
    """A value and what is accepted.

    Not a subclass of ValueError, whose text the parser drops within a list.
    """


def option(help: str | None = None, metavar: str | None = None) -> Any:
    """An option whose help says what happens without it, rather than `(default: None)`."""
    return tyro.conf.arg(help=help, metavar=metavar, help_behavior_hint="")


Flag: TypeAlias = Annotated[bool, option()]
RunArgument: TypeAlias = Annotated[
    Path,
    tyro.conf.Positional,
    option("A run directory, or a pretrained model such as zoo:sort/compr+reg.", "RUN"),
]
Selection: TypeAlias = Annotated[
    SelectionRule | None,
    option(
        "Which parameters of the run: those selected by the loss (unseen) or the score (score) at "
        "an unseen length, or by the loss at training lengths (seen). By default score."
    ),
]
Memory: TypeAlias = Annotated[
    str | None,
    option(
        "Slots of the memory, or growing: as many as an input needs. By default as in training.",
        "INT|growing",
    ),
]
InferenceOption: TypeAlias = Annotated[
    Inference,
    tyro.conf.arg(help="The network as trained, or with hard writes and snapped states (digital)."),
]
Backend: TypeAlias = Annotated[
    BackendChoice,
    tyro.conf.arg(help="Backend: C++ (fused), JAX (pure), or C++ where possible (auto)."),
]
Threads: TypeAlias = Annotated[
    int | None, option("Threads of the fused backend; by default one per core.")
]
TrustCode: TypeAlias = Annotated[
    bool, option("Run the user-defined classes that the run's config names.")
]


def parse(kind: type[Command], arguments: list[str], program: str) -> Command:
    """Fill `kind` from arguments; `--help` prints its fields and exits."""
    arguments = [  # the parser suggests a similar option for separate values only
        part
        for argument in arguments
        for part in (argument.split("=", 1) if argument.startswith("--") else [argument])
    ]
    defaults: Any = getattr(kind, "defaults", None)
    options = {} if defaults is None else {"default": defaults(arguments)}
    if {"-h", "--help"} & set(arguments):  # after others, help would be incomplete
        arguments = ["--help"]
    box = io.StringIO()
    try:
        with contextlib.redirect_stderr(box):
            return tyro.cli(
                kind, args=arguments, prog=program, registry=VALUES, config=MARKERS, **options
            )
    except RefusedValueError as refusal:
        value, accepted = refusal.args
        raise _setting_error(refusal) or SettingError(
            _option_of(value, arguments), value, accepted
        ) from None
    except SystemExit as stop:
        if not stop.code:
            raise
        raise _setting_error(stop) or SettingError(
            f"{sentence_in(box.getvalue())}; see {program} --help"
        ) from None


def _option_of(value: str, arguments: list[str]) -> str:
    """The option that has a value, or several."""
    place = len(arguments) - arguments[::-1].index(value)
    return [argument for argument in arguments[:place] if argument.startswith("--")][-1]


def _setting_error(error: BaseException | None) -> SettingError | None:
    """The SettingError that the parser caught on the way to its own, if any."""
    while error is not None and not isinstance(error, SettingError):
        error = error.__context__
    return error


def sentence_in(box: str) -> str:
    """What the parser's box on the terminal says below its title, on one line.

    >>> sentence_in("╭─ Error ─╮\\n│ Error parsing --seed: too large │\\n│ ──── │\\n│ See │\\n╰──╯")
    '--seed: too large'
    >>> sentence_in(" Error \\n -----\\n Error parsing --seed: too large \\n ---- \\n See")
    '--seed: too large'
    """
    lines = [line.strip("│ ") for line in box.splitlines()[1:]]
    below_title = itertools.dropwhile(_is_rule, lines)
    text = " ".join(itertools.takewhile(lambda line: not _is_rule(line), below_title))
    for said, reworded in REWORDED.items():
        text = re.sub(f"^{said}", reworded, text)
    similar = re.search(r"Perhaps you meant: +(--[\w.-]+)", " ".join(lines))
    return text + (f" (did you mean {similar[1]}?)" if similar else "")


def _is_rule(line: str) -> bool:
    return set(line) <= set("─-╰╯")


@VALUES.primitive_rule
def _number_or_choice(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """How numbers and choices, or None where it is accepted, are read; no rule for other types."""
    is_union = typing.get_origin(info.type) in (types.UnionType, typing.Union)
    kinds = typing.get_args(info.type) if is_union else (info.type,)
    has_none = types.NoneType in kinds
    kinds = tuple(kind for kind in kinds if kind is not types.NoneType)
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    names = typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()
    if not names and kind not in NUMBERS:
        return None

    def read(texts: list[str]) -> Any:
        (text,) = texts
        if text in names:
            return text
        if has_none and text == "None":
            return None
        with contextlib.suppress(TypeError, ValueError):
            return kind(text)
        raise RefusedValueError(text, one_of(names, text) if names else NUMBERS[kind])

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="{" + ",".join(names) + "}" if names else kind.__name__.upper(),
        instance_from_str=read,
        is_instance=lambda value: value in names if names else isinstance(value, kind | int),
        str_from_instance=lambda value: [str(value)],
    )


@VALUES.primitive_rule
def _part(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Part] | None:
    """How a part with settings is read, such as regularisation,task_weight=0.9."""
    if info.type is not Part:
        return None

    def read(texts: list[str]) -> Part:
        try:
            return parse_part(*texts)
        except SettingError as error:
            raise RefusedValueError(*texts, "a part") from error

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="KIND[,NAME=VALUE]",
        instance_from_str=read,
        is_instance=lambda value: isinstance(value, Part),
        str_from_instance=lambda value: [str(value)],
    )


def value_of(arguments: list[str], name: str, default: str) -> str:
    """The value of an option that determines the defaults of others; the last one counts."""
    values = [value for option, value in itertools.pairwise([*arguments, ""]) if option == name]
    return values[-1] if values else default


def read_problem(task: AbstractTask, text: str) -> Problem:
    """A problem from text; numerals need no spaces between them.

    >>> from constrained_dnc.tasks.registry import get_task
    >>> read_problem(get_task("sort"), "31420") == read_problem(get_task("sort"), "3 1 4 2 0")
    True
    """
    if isinstance(task, AbstractNumeralTask) and text.isascii() and text.isdigit():
        text = " ".join(text)
    return task.parse(text)


def is_run(folder: str | Path) -> bool:
    """Whether a folder holds a run."""
    return Path(folder, "config.json").is_file()
