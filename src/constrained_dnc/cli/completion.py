"""Completion of commands and options by the shell."""

from __future__ import annotations

import contextlib
import importlib
import io
from typing import Annotated, Any, Union

import tyro

from constrained_dnc.cli.parsing import Nothing, options_of
from constrained_dnc.errors import BadSetting, one_of

SHELLS = ("bash", "fish", "zsh")


def completion_script(shell: str, commands: dict[str, tuple[str, str]]) -> str:
    """What a shell has to read to complete `cdnc`, from the options of every command."""
    if shell not in SHELLS:
        raise BadSetting("--print-completion", shell, one_of(SHELLS))
    kinds: list[Any] = []
    for name, (module, summary) in commands.items():
        home = importlib.import_module(f"constrained_dnc.cli.{module}")
        kind = options_of(getattr(home, f"_{name.title()}", Nothing))
        kinds.append(Annotated[kind, tyro.conf.subcommand(name, description=summary)])
    any_command: Any = Union[tuple(kinds)]  # noqa: UP007 - made at run time
    script = io.StringIO()
    with contextlib.redirect_stdout(script), contextlib.suppress(SystemExit):
        tyro.cli(any_command, prog="cdnc", args=["--tyro-print-completion", shell])
    return script.getvalue()
