"""The command `cdnc`: parsing and printing only. One module per group of commands."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence

import constrained_dnc
from constrained_dnc.cli.telling import tell
from constrained_dnc.errors import RunError, SettingError, did_you_mean, first_line

COMMANDS = {  # name: (module, what it does)
    "tasks": ("library", "list the tasks"),
    "approaches": ("library", "list the approaches"),
    "show": ("library", "draw one sample of a task, step by step"),
    "tour": ("library", "problems of every task and a model's answers"),
    "demo": ("demo", "a baseline and a constrained model on the same problems"),
    "zoo": ("zoo", "list the pretrained models and what they reach"),
    "bench": ("bench", "time a training iteration: fused, pure, floor"),
    "parity": ("parity", "compare with vectors of another implementation"),
    "train": ("runs", "train a model, or resume a run that was stopped"),
    "evaluate": ("runs", "score a run for every length and memory size"),
    "predict": ("runs", "answer problems with a trained model"),
    "explore": ("explore", "see what the memory does, in a browser"),
    "replay": ("runs", "say why updates of a run were skipped"),
    "frontier": ("runs", "map a run's score over input length and memory size"),
    "reproduce": ("studies", "train, evaluate and analyse a whole study, then report"),
    "report": ("studies", "rebuild tables, figures and page of a study"),
    "results": ("studies", "ask the results of a study a question in SQL"),
}

LEAST_ADDRESS_SPACE = 2 * 10**9
"""Bytes; a paper-size model trains within it."""

EXAMPLES = """examples:
  cdnc show sort --length 8
  cdnc tour
  cdnc train copy --preset smoke --run-dir runs/first
  cdnc evaluate runs/first
  cdnc predict runs/first "3 1 4"
  cdnc explore runs/first
  cdnc reproduce --preset quick
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; a value that is not accepted gives a one-sentence error and exit code 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] == ["help"] and arguments[1:]:  # `cdnc help train`
        arguments = [arguments[1], "--help"]
    if sys.stdout is None:
        return _tell("standard output is closed; to discard it, redirect it to /dev/null", 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # where its encoding lacks a character
    try:
        code = _run(*arguments)
        sys.stdout.flush()
    except SettingError as error:
        code = _tell(error, 2)
    except RunError as error:
        code = _tell(error, 1)
    except KeyboardInterrupt:
        code = _tell("interrupted", 130)
    except BrokenPipeError:  # the reader of our output has left, as with `| head`
        _drop_output()
        code = 141
    except (OSError, MemoryError, RuntimeError, ImportError) as error:
        reason = _shortage(error)
        if reason is None:
            raise
        _drop_output()
        code = _tell(reason, 1)
    return code


def _tell(problem: object, code: int) -> int:
    tell(f"cdnc: {problem}")
    return code


def _shortage(error: BaseException) -> str | None:
    """What the system could not give, in one sentence; None for any other error."""
    text = first_line(error)
    if isinstance(error, OSError):
        return ": ".join(map(str, filter(None, (error.filename, error.strerror)))) or text
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text or "Out of memory" in text:
        return f"there is not enough memory for this ({text})"
    short_of = ("Too many open files", "Cannot allocate", "temporarily unavailable", "new thread")
    return text if any(words in text for words in short_of) else None


def _require_address_space() -> None:
    """Refuse a limit (ulimit -v) within which XLA ends the process without a word."""
    try:
        import resource  # noqa: PLC0415
    except ImportError:  # not a Unix system
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESS_SPACE:
        accepted = f"at least {LEAST_ADDRESS_SPACE // 10**6}, or unlimited"
        raise SettingError("the address space (ulimit -v) in MB", limit // 10**6, accepted)


def _drop_output() -> None:
    """Let nothing more be said to a standard output that is full or gone."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(name: str = "help", *arguments: str) -> int:
    if name in ("-h", "--help", "help"):
        print(_help())
        return 0
    if name in ("--version", "-V"):
        print(constrained_dnc.__version__)
        return 0
    if name == "--print-completion":
        from constrained_dnc.cli.completion import completion_script  # noqa: PLC0415

        print(completion_script(arguments[0] if arguments else "", COMMANDS))
        return 0
    if name not in COMMANDS:
        accepted = f"one of {', '.join(COMMANDS)}{did_you_mean(name, COMMANDS)}"
        raise SettingError("command", name, accepted)
    _require_address_space()
    module = importlib.import_module(f"constrained_dnc.cli.{COMMANDS[name][0]}")
    code: int = getattr(module, name)(list(arguments))
    return code


def _help() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {what}" for name, (_, what) in COMMANDS.items())
    return (
        "usage: cdnc COMMAND [OPTIONS]\n\n"
        "Differentiable neural computers that keep working on longer inputs.\n\n"
        f"commands (cdnc COMMAND --help says more):\n{commands}\n\n{EXAMPLES}"
        "\ncdnc --print-completion bash|fish|zsh prints what your shell needs to complete this."
    )
