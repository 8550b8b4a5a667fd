"""The command `cdnc explore`."""

import os
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from constrained_dnc import zoo
from constrained_dnc.cli import main
from constrained_dnc.cli.explore import split_arguments
from constrained_dnc.evaluation.results import results_frame, stored_results
from constrained_dnc.explorer.server import _second
from constrained_dnc.files import write_table
from constrained_dnc.training.folder import EVALUATION
from constrained_dnc.training.loop import train
from tiny_runs import tiny_config


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of two runs, of two tasks."""
    folder = tmp_path_factory.mktemp("runs")
    for task in ("copy", "sort"):
        train(tiny_config(task, iterations=10), folder / task)
    return folder


def test_one_file(folder, tmp_path, capsys):
    page = tmp_path / "copy.html"
    assert main(["explore", str(folder / "copy"), "314", "--html", str(page)]) == 0
    assert re.search(r"copy.html: \d\.\d MB", capsys.readouterr().out)
    text = page.read_text("utf-8")
    assert '"problem": "3 1 4"' in text
    assert len(text) < 10e6


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["zoo:none/such"], "pretrained model must be "),
        (["nowhere", "3 1 4"], "'nowhere' is not a run directory, a folder of them, or zoo:TASK"),
        (["copy", "sortt"], "'sortt' is neither a run directory, a folder of them, or zoo:TASK/AP"),
        (["copy", "1 " * 251], "nor a problem: the problem has length 251; the explorer draws"),
        (["copy", "--memory", "1001"], "a number of slots from 1 to 1000"),
        (["copy", "sort", "--html", "a.html"], "copy and sort are models of different tasks"),
        (
            ["copy", "--html", "typo/a.html"],
            "a.html cannot be written: there is no folder typo",
        ),
        (["copy", "--port", "99999"], "port must be an integer from 0 (any)"),
    ],
)
def test_what_is_not_accepted_costs_one_sentence(folder, monkeypatch, capsys, arguments, sentence):
    monkeypatch.chdir(folder)
    assert main(["explore", *arguments]) == 2
    complaint = capsys.readouterr().err
    assert sentence in complaint
    assert complaint.count("\n") == 1


def test_the_page_is_served_until_ctrl_c(folder):
    command = [sys.executable, "-m", "constrained_dnc", "explore", ".", "--no-browser"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:  # fmt: skip
        try:
            address = process.stdout.readline().split()[0]
            assert re.match(
                r"from another machine: ssh -N -L (\d+):127.0.0.1:\1 ", process.stdout.readline()
            )
            with urllib.request.urlopen(address, timeout=300) as answer:
                text = answer.read().decode()
            assert '"name": "copy"' in text
            assert '"name": "sort"' in text
            process.send_signal(signal.SIGINT)
            assert process.wait(300) == 130
            assert process.stderr.read() == "cdnc: interrupted\n"
        finally:
            process.kill()  # after an assertion that failed it would be waited for


def test_two_runs_of_one_task_are_compared():
    baseline, constrained = "zoo:sort/stateful-baseline", "zoo:sort/compr+reg"
    assert _second([baseline, constrained]) == constrained
    assert _second([baseline, "zoo:copy/compr+reg"]) is None
    assert _second([baseline]) is None
    assert _second([baseline, constrained, baseline]) is None


def test_the_page_opens_with_the_model_that_goes_farthest(monkeypatch, tmp_path):
    row = stored_results(zoo.find("zoo:copy/compr+reg")).query("memory == '50'").iloc[0].to_dict()
    row |= {"selection": "score", "inference": "network"}
    for name, scores in (
        ("copy/compr+reg", {15: 0.99}),
        ("copy/compr+reg+used", {40: 0.99}),
        ("sort/compr+reg", {15: 1.0, 32: 0.96, 33: 0.9}),
    ):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.json").touch()
        rows = [row | {"length": length, "score": score} for length, score in scores.items()]
        write_table(tmp_path / name / EVALUATION, results_frame(rows))
    monkeypatch.setattr(zoo, "MODELS", tmp_path)
    names, text = split_arguments(())
    order = ["sort/compr+reg", "copy/compr+reg", "copy/compr+reg+used"]
    assert names == [f"zoo:{name}" for name in order]
    assert text is None
