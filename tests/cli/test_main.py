"""Help, completion, and what a mistake or a shortage costs: one sentence."""

import errno
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest

from constrained_dnc import cli
from constrained_dnc.cli import COMMANDS, SHELLS, main

PYTHON = shlex.quote(sys.executable)


def test_help_names_every_command(capsys):
    assert main([]) == 0
    text = capsys.readouterr().out
    assert [name for name in COMMANDS if f"\n  {name} " not in text] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_is_for_people_and_complete(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["help", command])
    text = capsys.readouterr().out
    assert f"cdnc {command}" in text
    for oddity in ("{None}", "default: )", "default: ''", "default: None", ">>>", "{True,False}"):
        assert oddity not in text


def test_help_after_other_arguments_is_complete_and_shows_the_preset(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["train", "sort", "--preset", "smoke", "--approach", "reg", "-h"])
    text = " ".join(capsys.readouterr().out.split())
    assert "Determines the initial parameters" in text
    assert "Updates of the parameters. (default: 60)" in text


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("shwo", "unknown command 'shwo' (did you mean show?); see cdnc -h"),
        ("train sort --traning.window=5", "--traning.window, 5 (did you mean --training.window?)"),
        ("show sort --seed 1e3", "--seed: must be an integer, not '1e3'; see cdnc"),
        ("show sort --length 1e3", "--length: must be an integer, not '1e3'; see"),
        ("show sort --seed ٣", "--seed: must be an integer, not '٣'; see cdnc"),
        ("train sort --threads 1_0", "--threads: must be an integer, not '1_0'; see cdnc"),
        ("train sort --training.batch-size 1000000000", "must be an integer from 1 to 1000000, no"),
        ("train sort --threads", "--threads needs a value"),
        ("train sort --training.window 0", "training.window must be an integer of at least 1, no"),
        ("train sort --backend fusd", "--backend must be one of "),
        ("study --rules score sen", "--rules must be one of "),
        (
            "train sort --preset fast",
            "preset must be one of chomsky, demo, nam, paper, quick, smoke",
        ),
        ("train sort --approach regg", "(did you mean reg?), or file.py:NAME"),
        ("train sort --approach none.py:gentle", "none.py"),
        ("train sort --approach.constraints noise compresion", "(did you mean compression?)"),
        ("train sort --approach.constraints noise,sgima=1", "noise has no setting 'sgima' (did yo"),
        ("study --rules", "--rules needs at least one name"),
        ("train", "TASK is missing"),
        ("train --from zoo:copy/compr --run-dir zoo:copy/compr", "--from and --run-dir name the s"),
        ("evaluate", "RUN is missing"),
        ("show srot", "task must be one of add, chomsky/"),
        ("show sort --length 0", "length must be an integer of at least 1, not 0"),
        ("show sort 31 --length 9", "--length cannot be combined with a problem"),
        ("show sort 3x", "problem must be numerals from 0 to 4"),
        ("predict zoo:sort/compr+reg 31 --memory grow", "a number of slots from 1 to 16777216"),
        ("--print-completion tcsh", "must be one of bash, fish, zsh"),
    ],
)
def test_a_mistake_costs_one_sentence(command, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert error.count("\n") == 1
    assert sentence in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "a"), 1, "[Errno 13] Permission"),
        (MemoryError("std::bad_alloc"), 1, "not enough memory (std::bad_alloc)"),
        (RuntimeError("RESOURCE_EXHAUSTED: 9 bytes\nand more"), 1, "not enough memory (RESOURCE_E"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_a_shortage_and_an_interrupt_are_one_sentence(monkeypatch, capsys, error, code, sentence):
    monkeypatch.setattr(cli, "_run", Mock(side_effect=error))
    assert main(["zoo"]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"cdnc: {sentence}")


def test_a_bug_is_not_hidden(monkeypatch):
    monkeypatch.setattr(cli, "_run", Mock(side_effect=RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        main(["zoo"])


def test_a_full_output_is_one_sentence_and_a_reader_that_leaves_none():
    command = f"{PYTHON} -m constrained_dnc show sort --length 5000"
    full = subprocess.run(
        ["sh", "-c", f"{command} > /dev/full"], stderr=subprocess.PIPE, text=True, check=False
    )
    assert full.returncode == 1
    assert full.stderr == "cdnc: [Errno 28] No space left on device\n"
    left = subprocess.run(f"{command} | head -1", shell=True, stderr=subprocess.PIPE, check=True)
    assert left.stderr == b""


def test_closed_streams_take_no_file_in_their_place(tmp_path):
    """The first file that a process opens would be its standard output."""
    train = "train copy --preset smoke --training.iterations 10 --run-dir run"
    for command, streams in ((train, "<&- >&-"), ("predict run 31", ">&- 2>&-"), ("show", ">&-")):
        call = f"{PYTHON} -m constrained_dnc {command} {streams}"
        done = subprocess.run(
            call, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert "Traceback" not in done.stderr
    for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines():
        assert json.loads(line)["iteration"] == 10


def test_a_terminal_that_lacks_characters():
    for arguments, code in ((["show", "sort", "31"], 0), (["show", "sort", "--seed", "x"], 2)):
        command = [sys.executable, "-m", "constrained_dnc", *arguments]
        ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
        done = subprocess.run(command, env=ascii_only, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert "---" not in done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_completes_commands_and_options(shell, capsys):
    assert main(["--print-completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)
    for option in ("training.iterations", "preset", "approach", "memory"):
        assert option in script


LINES = {  # what is typed before the tabulator, and what the shell makes of it
    "cdnc tr": "train",
    "cdnc train sort --pre": "train sort --preset",
    "cdnc train sort --preset qu": "train sort --preset quick",
    "cdnc train sort --training.it": "train sort --training.iterations",
    "cdnc evaluate runs/fi": "evaluate runs/first/",
    "cdnc evaluate runs/first --selection u": "evaluate runs/first --selection unseen",
    "cdnc explore --html pa": "explore --html page.html",
}


def test_bash_completes(tmp_path, capsys):
    """Typed into an interactive shell, on a terminal."""
    main(["--print-completion", "bash"])
    (tmp_path / "script").write_text(capsys.readouterr().out)
    (tmp_path / "runs" / "first").mkdir(parents=True)
    (tmp_path / "page.html").touch()
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
    completed = (tmp_path / "typed").read_text().splitlines()
    assert completed == list(LINES.values()), said.decode()


def test_ctrl_c_while_a_model_computes_is_one_line():
    command = [sys.executable, "-m", "constrained_dnc", "evaluate", "zoo:copy/compr+reg"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stderr.readline().startswith(b"percent ")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == b"cdnc: interrupted"
    assert b"Traceback" not in errors
