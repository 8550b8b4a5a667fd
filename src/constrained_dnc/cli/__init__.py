"""The command `cdnc`: parsing and printing only. One module per group of commands."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import constrained_dnc
from constrained_dnc.errors import BadSetting, RunProblem, printable

COMMANDS = {  # name: (module, what it does)
    "tasks": ("library", "list the tasks"),
    "approaches": ("library", "list the approaches"),
    "show": ("library", "draw one sample of a task, step by step"),
    "tour": ("library", "problems of every task and a model's answers"),
    "demo": ("demo", "a baseline and a constrained model on the same problems"),
    "zoo": ("zoo", "list the pretrained models and what they reach"),
    "bench": ("bench", "time a training iteration: fused, pure, floor"),
    "train": ("runs", "train a model, or go on with a run that was stopped"),
    "evaluate": ("runs", "score a run for every length and memory size"),
    "predict": ("runs", "answer problems with a trained model"),
    "explore": ("explore", "see what the memory does, in a browser"),
    "replay": ("runs", "say why updates of a run were skipped"),
    "frontier": ("studies", "map a run's score over input length and memory size"),
    "reproduce": ("studies", "train, evaluate and analyse a whole study, then report"),
    "report": ("studies", "rebuild tables, figures and page of a study"),
    "results": ("studies", "ask the results of a study a question in SQL"),
}

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
    """Run one command; a value that is not accepted costs one sentence and exit code 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] == ["help"] and arguments[1:]:  # `cdnc help train`
        arguments = [arguments[1], "--help"]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    try:
        code = _run(*arguments)
        sys.stdout.flush()
    except BadSetting as error:
        print(printable(f"cdnc: {error}"), file=sys.stderr)
        code = 2
    except RunProblem as error:
        print(printable(f"cdnc: {error}"), file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:  # the reader of our output has left, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    return code


def _run(name: str, *arguments: str) -> int:
    if name in ("--version", "-V"):
        print(constrained_dnc.__version__)
        return 0
    if name == "--print-completion":
        from constrained_dnc.cli.completion import completion_script  # noqa: PLC0415

        print(completion_script(arguments[0] if arguments else "", COMMANDS))
        return 0
    if name not in COMMANDS:
        import difflib  # noqa: PLC0415 - only for typos

        close = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise BadSetting("command", name, f"one of {', '.join(COMMANDS)}{hint}")
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
