"""Parses arguments into the dataclass of a command; options that several commands share."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import tyro
from tyro.constructors import PrimitiveConstructorSpec, PrimitiveTypeInfo

from constrained_dnc.config import Inference, SelectionRule
from constrained_dnc.errors import SettingError
from constrained_dnc.model.config import BackendChoice
from constrained_dnc.parts import Part, parse_part

if TYPE_CHECKING:
    from constrained_dnc.training.run import Run

Command = TypeVar("Command")
RULES = tyro.constructors.ConstructorRegistry()
MARKERS = (tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone)
REWORDED = {  # tyro's messages and ours
    r"Error parsing (\S+):": r"\1:",
    r"(\S+:) no type matching .*Got errors: - <.*?>: (.*)": r"\1 \2",
    r"Missing from .*?: (\S+) .*": r"\1 is missing",
    r"Missing value for argument '(\S+)'.*": r"\1 needs a value",
    r"Unrecognized options: (.*)": r"unrecognized arguments: \1",
    r"(\S+:) invalid literal for int\(\) with base 10: (.*)": r"\1 must be an integer, not \2",
    r"(\S+:) could not convert string to float: (.*)": r"\1 must be a number, not \2",
    r"invalid choice (.*) for argument '(\S+)'. Expected one of \((.*)\).": (
        r"\2 must be one of \3, not \1"
    ),
}


def option(help: str | None = None, metavar: str | None = None) -> Any:
    """An option whose help says what happens without it, rather than `(default: None)`."""
    return tyro.conf.arg(help=help, metavar=metavar, help_behavior_hint="")


Flag: TypeAlias = Annotated[bool, option()]
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


@dataclass(frozen=True)
class ModelOptions:
    """The options of all commands that read a trained model."""

    run_name: Annotated[
        Path,
        tyro.conf.Positional,
        option("A run directory, or a pretrained model such as zoo:sort/compr+reg.", "RUN"),
    ]
    trust_code: TrustCode = False

    def open_run(self) -> Run:
        """Open the run or pretrained model, with the compilation cache on."""
        from constrained_dnc.training.process import use_compilation_cache  # noqa: PLC0415
        from constrained_dnc.training.run import load_run  # noqa: PLC0415 - slow to import

        use_compilation_cache()
        return load_run(self.run_name, trust_code=self.trust_code)


def parse(kind: type[Command], arguments: list[str], program: str) -> Command:
    """Fill `kind` from arguments; `--help` prints its fields and exits."""
    arguments = [  # tyro suggests a similar option only if its value is a separate argument
        part
        for argument in arguments
        for part in (argument.split("=", 1) if argument.startswith("--") else [argument])
    ]
    defaults: Any = getattr(kind, "defaults", None)
    options = {} if defaults is None else {"default": defaults(arguments)}
    if {"-h", "--help"} & set(arguments):  # after other arguments, tyro's help is incomplete
        arguments = ["--help"]
    box = io.StringIO()
    try:
        with contextlib.redirect_stderr(box):
            return tyro.cli(
                kind, args=arguments, prog=program, registry=RULES, config=MARKERS, **options
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        error: BaseException | None = stop
        while error is not None and not isinstance(error, SettingError):
            error = error.__context__  # ours, which the parser caught and replaced
        raise error or SettingError(
            f"{sentence_in(box.getvalue())}; see {program} --help"
        ) from None


def sentence_in(box: str) -> str:
    """The text of the parser's error box, without its title, on one line.

    >>> sentence_in("╭─ Error ─╮\\n│ Error parsing --seed: too large │\\n│ ──── │\\n│ See │\\n╰──╯")
    '--seed: too large'
    >>> sentence_in(" Error \\n -----\\n Error parsing --seed: too large \\n ---- \\n See")
    '--seed: too large'
    """
    below_title = box.partition("\n")[2].replace("│", " ")
    parts = [" ".join(part.split()) for part in re.split("[─-]{4,}", below_title)]
    text = next(filter(None, parts), "")
    for said, reworded in REWORDED.items():
        text = re.sub(f"^{said}", reworded, text)
    similar = re.search(r"Perhaps you meant: (--[\w.-]+)", " ".join(parts))
    text = text.replace("'None', ", "").replace(", 'None'", "")
    return text + (f" (did you mean {similar[1]}?)" if similar else "")


@RULES.primitive_rule
def _integer(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
    """Reads an integer in plain digits: `int` also takes spaces, 1_0 and the digits of others."""
    if info.type is not int:
        return None

    def read(texts: list[str]) -> int:
        if not re.fullmatch(r"[+-]?[0-9]+", texts[0]):
            raise ValueError(f"invalid literal for int() with base 10: {texts[0]!r}")
        return int(texts[0])

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=read,
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    )


@RULES.primitive_rule
def _number_or_none(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[float | None] | None:
    """Reads a number, or None."""
    if info.type != float | None:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="FLOAT",
        instance_from_str=lambda texts: None if texts == ["None"] else float(texts[0]),
        is_instance=lambda value: value is None or isinstance(value, float | int),
        str_from_instance=lambda value: [str(value)],
    )


@RULES.primitive_rule
def _part(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Part] | None:
    """Reads a part with settings, such as regularisation,task_weight=0.9."""
    if info.type is not Part:
        return None

    def read(texts: list[str]) -> Part:
        try:
            return parse_part(*texts)
        except SettingError:
            sys.exit(2)  # within a list, tyro would drop the message

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


def is_run(folder: str | Path) -> bool:
    """Whether a folder holds a run."""
    return Path(folder, "config.json").is_file()
