"""The command `cdnc`: parsing and printing only.

A command is a frozen dataclass whose fields are its options and whose method `run` returns the exit
code. Its module is imported when it is used, so that help is instant.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from constrained_dnc.cli.terminal import print_stderr
from constrained_dnc.errors import RunError, SettingError, did_you_mean, first_line

GROUPS = {  # title: {command: (module, summary)}
    "look at tasks and trained models": {
        "demo": (
            "demo",
            "the same problems for a baseline and a constrained model",
        ),
        "zoo": ("zoo", "list the pretrained models and the lengths they reach"),
        "show": ("library", "list tasks and approaches, or draw one sample step by step"),
        "predict": ("runs", "answer problems with a trained model"),
        "explore": ("explore", "see what the memory does, in a browser"),
        "machine": ("machine", "extract the finite-state machine inside a model"),
    },
    "train and evaluate one model": {
        "train": ("train", "train a model, or resume a run that was stopped"),
        "evaluate": ("runs", "score a model at every length"),
    },
    "compare approaches": {
        "study": ("studies", "train, evaluate and analyse many runs, then report"),
        "gather": ("studies", "make a study from runs that were trained one by one"),
        "report": ("studies", "rebuild the tables, figures and page of a study"),
        "results": ("studies", "print a study's maximum lengths, or export all results as CSV"),
    },
}
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}
SHELLS = ("bash", "fish", "zsh")

HELP = """usage: cdnc COMMAND [OPTIONS]

Differentiable neural computers that keep working on longer inputs.
"""
EXAMPLES = """cdnc COMMAND --help lists the options of a command.

examples:
  cdnc demo
  cdnc predict zoo:sort/compr+reg "3 1 4 1 0"
  cdnc train copy --run-dir runs/first
  cdnc evaluate runs/first
  cdnc study --preset quick

cdnc --print-completion bash|fish|zsh prints a completion script for your shell."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. A user's mistake gives one sentence and exit code 2, a bad file code 1."""
    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # where its encoding lacks a character
    try:
        code = _run(*(sys.argv[1:] if arguments is None else arguments))
        print(end="", flush=True)  # a full disk is noticed here
        return code
    except SettingError as error:
        return _fail(error, 2)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except BrokenPipeError:  # the reader has left, as with `| head`
        _discard_output()
        return 141
    except (RunError, OSError) as error:
        _discard_output()
        return _fail(error, 1)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):  # of JAX
            raise
        return _fail(f"not enough memory ({first_line(error)})", 1)


def _open_closed_streams() -> None:
    """Connect closed standard streams to /dev/null: otherwise the next file takes their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - to the end of the process


def _fail(reason: object, code: int) -> int:
    print_stderr(f"cdnc: {reason}")
    return code


def _discard_output() -> None:
    """Redirect standard output to /dev/null if it is full or gone, for the interpreter's exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(name: str = "--help", *arguments: str) -> int:
    if name == "help" and arguments:  # `cdnc help train`
        name, arguments = arguments[0], ("--help",)
    if name in ("-h", "--help", "help"):
        print(_help())
    elif name in ("-V", "--version"):
        print(import_module("constrained_dnc").__version__)
    elif name == "--print-completion":
        _print_completion(*arguments[:1])
    elif name not in COMMANDS:
        raise SettingError(f"unknown command {name!r}{did_you_mean(name, COMMANDS)}; see cdnc -h")
    else:
        from constrained_dnc.cli.parsing import parse  # noqa: PLC0415 - slow to import

        code: int = parse(_command(name), list(arguments), f"cdnc {name}").run()
        return code
    return 0


def _command(name: str) -> Any:
    """The class of a command."""
    return getattr(import_module(f"{__name__}.{COMMANDS[name][0]}"), name.capitalize())


def _help() -> str:
    lines = [HELP]
    for title, commands in GROUPS.items():
        lines += [f"{title}:"]
        lines += [f"  {name:8}  {summary}" for name, (_, summary) in commands.items()]
        lines += [""]
    return "\n".join([*lines, EXAMPLES])


def _print_completion(shell: str = "") -> None:
    if shell not in SHELLS:
        raise SettingError(f"--print-completion must be one of {', '.join(SHELLS)}")
    from tyro.extras import subcommand_cli_from_dict  # noqa: PLC0415 - for completion only

    script = ["--tyro-print-completion", shell]
    try:
        subcommand_cli_from_dict({n: _command(n) for n in COMMANDS}, prog="cdnc", args=script)
    except SystemExit:  # the script is printed
        if shell == "bash":  # where the parser has no suggestions, the shell completes paths
            print('_cdnc() { _tyro_cdnc; [[ "${COMPREPLY[*]}" ]] || COMPREPLY=(); }')
            print("complete -o bashdefault -o default -F _cdnc cdnc")
