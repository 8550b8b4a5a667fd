"""The commands about tasks and approaches, and how typos are answered."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from constrained_dnc.approaches import APPROACHES
from constrained_dnc.cli import COMMANDS, main
from constrained_dnc.tasks.registry import task_names


def test_help_names_every_command(capsys):
    assert main([]) == 0
    text = capsys.readouterr().out
    assert [name for name in COMMANDS if f"\n  {name} " not in text] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert f"cdnc {command}" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["report", "show", "evaluate"])
def test_help_is_whole_after_other_arguments(command, capsys):
    texts = []
    for before in ([], ["sort"]):
        with pytest.raises(SystemExit) as stop:
            main([command, *before, "-h"])
        assert stop.value.code == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_for_people(command, capsys):
    for _ in range(2):  # the second time is as good
        with pytest.raises(SystemExit):
            main(["help", command])
        text = capsys.readouterr().out
        text = text.replace("--model.clip-value {None}|FLOAT", "")  # where None is a value
        for oddity in (
            "{None}",
            "default: )",
            "default: '')",
            "default: None",
            ">>>",
        ):
            assert oddity not in text


def test_lists_have_one_line_each(capsys):
    main(["tasks"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[: len(task_names())]] == list(task_names())
    main(["approaches"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(APPROACHES)


def test_show_draws_a_sample_step_by_step(capsys):
    assert main(["show", "sort", "3 1 2"]) == 0
    table = capsys.readouterr().out.splitlines()[4:13]
    assert table == [
        "step   numeral  control  |    result  signal",
        "   1   3 (0.5)           |         ·       ·",
        "   2  1 (-0.5)           |         ·       ·",
        "   3     2 (0)           |         ·       ·",
        "   4                  1  |         ·       ·",
        "   5                     |  1 (-0.5)",
        "   6                     |     2 (0)",
        "   7                     |   3 (0.5)",
        "   8                     |                 1",
    ]


def test_show_draws_numbers_of_a_task_without_labels(tmp_path, capsys):
    (tmp_path / "plain.py").write_text(
        "from constrained_dnc.tasks.copy import Copy\n\n\nclass Plain(Copy):\n"
        '    name = "plain"\n\n    def cell_labels(self, problem):\n        return None\n'
    )
    assert main(["show", f"{tmp_path / 'plain.py'}:Plain", "3 2"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[5:11]]
    assert rows[:2] == [["1", "0.5", "0", "|", "·", "·"], ["2", "0", "0", "|", "·", "·"]]
    assert rows[3:5] == [["4", "0", "0", "|", "0.5", "0"], ["5", "0", "0", "|", "0", "0"]]


def test_show_draws_any_length(capsys):
    assert main(["show", "logic", "--length", "11", "--seed", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4 + 1 + 13 + 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["shwo"], ["command is 'shwo'", "did you mean show?"]),
        (["show", "srot"], ["task is 'srot'", "accepted: one of add, copy"]),
        (["show", "sort", "--length", "0"], ["length is 0", "at least 1"]),
        (["show", "sort", "3 1", "--length", "9"], ["length is 9", "nothing beside a problem"]),
        (["show", "sort", "--seed", "-1"], ["seed is -1"]),
        (["show", "sort", "3 1 x"], ["3 1 x", "accepted"]),
        (["show", "nowhere.py:Task"], ["a file that exists"]),
        (["tour", "--approach", "compre"], ["approach is 'compre'", "compr+reg"]),
    ],
)
def test_a_wrong_value_costs_one_sentence(arguments, words, capsys):
    assert main(arguments) == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert all(word in text for word in words)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["show", "sort", "--lenght", "3"], "--length INT"),
        (["show", "sort", "--lenght=3"], "--length INT"),
        (["train", "sort", "--aproach", "reg"], "--approach NAME"),
        (["train", "sort", "--aproach=reg"], "--approach NAME"),
        (["train", "sort", "--prest", "smoke"], "--preset NAME"),
        (["train", "sort", "--traning.iterations=5"], "--training.iterations INT"),
        (["evaluate", "run", "--memory_sise", "5"], "--memory-size"),
    ],
)
def test_a_wrong_option_is_refused_with_the_one_that_was_meant(arguments, meant, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    text = capsys.readouterr().err
    assert arguments[2].partition("=")[0] in text
    assert f"Perhaps you meant: {meant}" in text
    assert text.count("\n") == 1


def test_a_reader_that_leaves_is_no_error():
    command = f"{shlex.quote(sys.executable)} -m constrained_dnc show sort --length 5000 | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_tour_shows_every_task(capsys):
    assert main(["tour", "--length", "3"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n{name}: " in text for name in task_names())
    assert text.count("    model  ") == 3 * len(task_names())
    assert text.count("trained\n") == len(task_names())
