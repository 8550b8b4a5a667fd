"""Completion in a real shell."""

import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from constrained_dnc.cli import COMMANDS, main
from constrained_dnc.cli.completion import SHELLS


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_knows_commands_and_options(shell, capsys):
    assert main(["--print-completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)
    for option in ("training.iterations", "preset", "approach", "memory-size"):
        assert option in script


LINES = {  # what is typed before the tabulator, and what the shell makes of it
    "cdnc tr": "train",
    "cdnc train so": "train sort",
    "cdnc train sort --pre": "train sort --preset",
    "cdnc train sort --preset qu": "train sort --preset quick",
    "cdnc train sort --approach stateless": "train sort --approach stateless-baseline",
    "cdnc train sort --training.it": "train sort --training.iterations",
    "cdnc train sort --run-dir ru": "train sort --run-dir runs/",
    "cdnc evaluate ru": "evaluate runs/",
    "cdnc evaluate runs/fi": "evaluate runs/first/",
    "cdnc evaluate runs/first --selection u": "evaluate runs/first --selection unseen",
    "cdnc predict runs/first --selection N": "predict runs/first --selection N",
    "cdnc explore --html pa": "explore --html page.html",
    "cdnc reproduce --tasks sort lo": "reproduce --tasks sort logic",
    "cdnc reproduce --tasks mi": "reproduce --tasks mine.py",
    "cdnc reproduce --approaches reg al": "reproduce --approaches reg all",
}


def test_bash_completes(tmp_path, capsys):
    """Typed into an interactive shell, on a terminal."""
    main(["--print-completion", "bash"])
    (tmp_path / "script").write_text(capsys.readouterr().out)
    (tmp_path / "runs" / "first").mkdir(parents=True)
    for name in ("page.html", "mine.py"):
        (tmp_path / name).touch()
    terminal, end = pty.openpty()
    shell = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        cwd=tmp_path,
        stdin=end,
        stdout=end,
        stderr=end,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "TERM": "dumb"},
        start_new_session=True,
    )
    os.close(end)
    typed = ["source ./script", 'cdnc() { echo "$*" >> typed; }', *(f"{line}\t" for line in LINES)]
    for line in [*typed, "exit"]:
        os.write(terminal, f"{line}\n".encode())
    said = b""
    with suppress(OSError):  # the end of a terminal
        while part := os.read(terminal, 4096):
            said += part
    shell.wait()
    os.close(terminal)
    found = (tmp_path / "typed").read_text().splitlines()
    assert found == list(LINES.values()), said.decode()


@pytest.mark.parametrize("arguments", [[], ["tcsh"], [""]])
def test_another_shell_costs_one_sentence(arguments, capsys):
    assert main(["--print-completion", *arguments]) == 2
    assert "accepted: one of bash, fish, zsh" in capsys.readouterr().err
