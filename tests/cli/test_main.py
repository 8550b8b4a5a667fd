"""What the system does not give is one sentence."""

import errno
import json
import os
import shlex
import subprocess
import sys

import pytest

from constrained_dnc import cli
from constrained_dnc.cli import main

PYTHON = shlex.quote(sys.executable)
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="as Linux has it")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EIO, "Input/output error", "/disk/file"), "/disk/file: Input/output error"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files"),
        (MemoryError("std::bad_alloc"), "not enough memory for this (std::bad_alloc)"),
        (MemoryError(), "not enough memory for this (MemoryError)"),
        (RuntimeError("RESOURCE_EXHAUSTED: 9 bytes\nand more"), "not enough memory for this (RES"),
        (RuntimeError("INTERNAL: Out of memory allocating 9 bytes."), "not enough memory"),
        (RuntimeError("can't start new thread"), "can't start new thread"),
        (ImportError("x.so: Too many open files"), "x.so: Too many open files"),
    ],
)
def test_a_shortage_is_one_sentence(monkeypatch, capsys, error, said):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(cli, "_run", fail)
    assert main(["tasks"]) == 1
    told = capsys.readouterr().err
    assert said in told
    assert len(told.splitlines()) == 1


def test_a_mistake_of_ours_is_not_hidden(monkeypatch):
    def fail(*arguments):
        raise RuntimeError("a mistake")

    monkeypatch.setattr(cli, "_run", fail)
    with pytest.raises(RuntimeError, match="a mistake"):
        main(["tasks"])


@on_linux
@pytest.mark.parametrize(
    ("output", "said"),
    [("> /dev/full", "No space left on device"), (">&-", "standard output is closed")],
)
def test_a_full_or_closed_output_is_one_sentence(output, said):
    command = f"{PYTHON} -m constrained_dnc tasks {output}"
    ended = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 1
    assert said in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@on_linux
def test_too_small_an_address_space_is_one_sentence():
    command = f"ulimit -v 1900000; {PYTHON} -m constrained_dnc tasks"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == (
        "cdnc: the address space (ulimit -v) in MB is 1945; accepted: at least 2000, or unlimited\n"
    )


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("show sort --length 1e3", "--length: '1e3'; accepted: an integer;"),
        ("show sort --seed abc", "--seed: 'abc'; accepted: an integer;"),
        ("show sort --seed 1_0", "--seed: '1_0'; accepted: an integer;"),
        ("show sort --seed ٣", "--seed: '٣'; accepted: an integer;"),
        ("show sort --seed " + 5000 * "1", "more characters"),
        ("train sort --training.learning-rate x", "'x'; accepted: a number;"),
        ("train sort --threads=x", "--threads: 'x'; accepted: an integer;"),
        ("evaluate x --selection scor", "one of score, seen, unseen (did you mean score?);"),
        ("train sort --backend fusd", "one of auto, fused, pure (did you mean fused?);"),
    ],
)
def test_a_value_of_an_option_that_is_none(command, said, capsys):
    with pytest.raises(SystemExit):
        main(command.split())
    (sentence,) = capsys.readouterr().err.splitlines()
    assert said in sentence
    assert len(sentence) < 500
    assert not any(words in sentence for words in ("None", "Argument helptext"))


def test_help_in_a_terminal_of_one_column():
    command = [sys.executable, "-m", "constrained_dnc", "zoo", "--help"]
    environment = os.environ | {"COLUMNS": "1"}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)


def test_without_standard_error_nothing_goes_among_the_results():
    program = f"{PYTHON} -m constrained_dnc"
    results = f"{program} evaluate zoo:copy/compr+reg --lengths 2 --batches 1 --json 2>&-"
    shown = subprocess.run(["sh", "-c", results], stdout=subprocess.PIPE, text=True, check=True)
    assert json.loads(shown.stdout)[0]["length"] == 2
    wrong = f"{program} zoo --nothing 2>&-"
    shown = subprocess.run(["sh", "-c", wrong], stdout=subprocess.PIPE, text=True, check=False)
    assert (shown.returncode, shown.stdout) == (2, "")
