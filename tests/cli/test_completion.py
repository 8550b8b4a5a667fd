"""Completion in a real shell."""

import subprocess

import pytest

from constrained_dnc.cli import COMMANDS, main
from constrained_dnc.cli.completion import SHELLS


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_knows_commands_and_options(shell, capsys):
    assert main(["--print-completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)
    for option in ("training.iterations", "preset", "approach", "memory-sizes"):
        assert option in script


def test_bash_completes(tmp_path, capsys):
    main(["--print-completion", "bash"])
    (tmp_path / "script").write_text(capsys.readouterr().out)
    asked = "source ./script; COMP_WORDS=({words}); COMP_CWORD={place}; _tyro_cdnc; "
    asked += "echo ${{COMPREPLY[@]}}"
    for words, found in (
        ("cdnc tr", "train"),
        ("cdnc train sort --pre", "--preset"),
        ("cdnc evaluate run --selection s", "seen"),
    ):
        command = asked.format(words=words, place=len(words.split()) - 1)
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert found in done.stdout.split()


@pytest.mark.parametrize("arguments", [[], ["tcsh"], [""]])
def test_another_shell_costs_one_sentence(arguments, capsys):
    assert main(["--print-completion", *arguments]) == 2
    assert "accepted: one of bash, fish, zsh" in capsys.readouterr().err
