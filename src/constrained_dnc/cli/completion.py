"""Completion of commands and options by the shell."""

from __future__ import annotations

import contextlib
import importlib
import io
from typing import Annotated, Any, Union

import tyro

from constrained_dnc.approaches import APPROACHES
from constrained_dnc.cli.parsing import Nothing, options_of
from constrained_dnc.config import PRESETS
from constrained_dnc.errors import SettingError, one_of
from constrained_dnc.tasks.registry import task_names

SHELLS = ("bash", "fish", "zsh")

BASH = """
# Names that the parser does not know; paths, where there is nothing else, are the shell's.
_cdnc() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" place=$((COMP_CWORD - 1)) words=""
  while ((place > 1)) && [[ "${{COMP_WORDS[place]}}" != -* ]]; do ((place--)); done
  case "${{COMP_WORDS[place]}}" in
    --tasks) words="{tasks}" ;;
    --approach) words="{approaches}" ;;
    --approaches) words="{approaches} all" ;;
    --preset) words="{presets}" ;;
    train | show) ((COMP_CWORD == 2)) && words="{tasks}" ;;
  esac
  COMPREPLY=()
  [[ "$current" == -* ]] || COMPREPLY=($(compgen -W "$words" -- "$current"))
  ((${{#COMPREPLY[@]}})) && return
  _tyro_cdnc
  local found=("${{COMPREPLY[@]}}") word
  COMPREPLY=()
  for word in "${{found[@]}}"; do
    [[ -z "$word" || "$word" == None || -e "$word" ]] || COMPREPLY+=("$word")
  done
}}
complete -o bashdefault -o default -F _cdnc cdnc
"""


def completion_script(shell: str, commands: dict[str, tuple[str, str]]) -> str:
    """What a shell has to read to complete `cdnc`, from the options of every command."""
    if shell not in SHELLS:
        raise SettingError("--print-completion", shell, one_of(SHELLS))
    kinds: list[Any] = []
    for name, (module, summary) in commands.items():
        home = importlib.import_module(f"constrained_dnc.cli.{module}")
        kind = options_of(getattr(home, f"_{name.title()}", Nothing))
        kinds.append(Annotated[kind, tyro.conf.subcommand(name, description=summary)])
    any_command: Any = Union[tuple(kinds)]  # noqa: UP007 - made at run time
    script = io.StringIO()
    with contextlib.redirect_stdout(script), contextlib.suppress(SystemExit):
        tyro.cli(any_command, prog="cdnc", args=["--tyro-print-completion", shell])
    return script.getvalue() + (_names_for_bash() if shell == "bash" else "")


def _names_for_bash() -> str:
    """What completes the names of tasks, approaches and presets, and paths."""
    lists = {"tasks": task_names(), "approaches": APPROACHES, "presets": PRESETS}
    return BASH.format(**{what: " ".join(names) for what, names in lists.items()})
