"""The commands about studies: what they print, and their exit codes."""

import io
import os
import re
import signal
import sys

import pytest

from constrained_dnc.cli import main, studies
from constrained_dnc.cli.studies import _tell_estimate
from constrained_dnc.config import make_config
from constrained_dnc.files import locked
from constrained_dnc.sweep import executors, trial
from constrained_dnc.sweep.plan import Plan, make_request, open_study
from constrained_dnc.sweep.trial import estimate_seconds
from constrained_dnc.training.loop import train
from smoke_studies import finish, owners, start, wait_for
from synthetic import Request, write_study
from tiny_runs import tiny_config


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ("--tasks juggle", "task"),
        ("--approaches magic", "approach"),
        ("--trials 0", "trials"),
        ("--iterations 3", "training.iterations"),
        ("--workers 0", "workers"),
        ("--trials 2000000000", "trials"),
        ("--model.hidden-size 0", "model.hidden_size"),
        ("--approaches nowhere.py:Gru", "approaches"),
        ("--tasks", "--tasks"),
        ("--approaches --trials 1", "--approaches"),
        ("--scheduler tcp://127.0.0.1:1", "scheduler"),
        ("--scheduler nonsense", "scheduler"),
        ("--study other", "preset"),
        ("--study strange", "study"),
    ],
)
def test_a_bad_request_costs_one_sentence(options, setting, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(executors, "SECONDS_TO_CONNECT", 0.5)
    open_study(tmp_path / "other", make_request("quick"))
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "thesis.tex").touch()
    assert main(["reproduce", "--preset", "smoke", *options.split()]) == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    assert re.match(rf"cdnc: {setting} is .*; accepted: ", sentence)


@pytest.mark.parametrize("form", ["--study {}", "--study={}", "--workers 1 --study {}"])
def test_the_folder_alone_resumes_what_was_asked_of_it(form, tmp_path, monkeypatch, capsys):
    plan = open_study(tmp_path, make_request("smoke", ["sort"], ["compr"], trials=2))
    monkeypatch.setattr(Plan, "is_done", lambda *_: True)
    monkeypatch.setattr(studies, "write_report", lambda folder: None)
    before = (tmp_path / "study.json").read_bytes()
    assert main(["reproduce", *form.format(tmp_path).split()]) == 0
    assert "2 runs, 2 ended, 0 to go" in capsys.readouterr().err
    assert (tmp_path / "study.json").read_bytes() == before
    assert main(["reproduce", *form.format(tmp_path).split(), "--trials", "3"]) == 2
    assert "preset is 'quick'; accepted: 'smoke'" in capsys.readouterr().err
    assert len(plan.configs) == 2


def test_the_estimate_is_of_updates_and_measures(monkeypatch):
    config = make_config("copy", "compr", preset="smoke")
    assert estimate_seconds(config) > 0
    times = iter([2.0, 30.0])
    monkeypatch.setattr(trial, "_seconds", lambda work: next(times))
    expected = 2.0 * config.training.iterations
    expected += 30.0 * config.training.iterations / config.training.measure_every
    assert estimate_seconds(config) == pytest.approx(expected)


def test_runs_still_in_hand_and_missing_workers_are_told(tmp_path, capsys):
    plan = open_study(tmp_path, make_request("smoke"))
    plan.lock(plan.configs[0]).parent.mkdir()
    with locked(plan.lock(plan.configs[0])):
        _tell_estimate(plan, plan.to_do(), 0)
    waiting, no_workers = capsys.readouterr().err.splitlines()
    assert waiting.startswith(
        "waiting for runs that an earlier sweep is still working on: process "
    )
    assert waiting.count(f"process {os.getpid()} on ") == 1
    assert no_workers == "the scheduler has no workers yet; runs start as they come"


def test_a_raising_task_is_given_up_and_the_rest_is_reported(tmp_path):
    """A whole study in real processes: about 20 s, nearly all of it start-up."""
    (tmp_path / "bad.py").write_text(
        "from constrained_dnc.tasks.copy import Copy\n\n\nclass Bad(Copy):\n"
        '    name = "bad"\n\n    def encode(self, problems):\n        raise OSError("no data")\n'
    )
    study = tmp_path / "study"
    tasks = ["--tasks", f"{tmp_path}/bad.py:Bad", "copy", "--approaches", "compr"]
    code, output, told = finish(start(study, *tasks, "--iterations", "10"))
    assert code == 1
    assert told.startswith("starting workers\n")
    assert "2 runs, 0 ended, 2 to go" in told
    assert "the first run cannot be timed (OSError)" in told
    assert told.count("failed and is tried again: OSError: no data") == 2
    assert "copy compr trial 0: finished" in told
    last = output.splitlines()[-2:]
    assert last[0] == "failed 3 times: bad compr trial 0: OSError: no data"
    assert last[1].startswith(f"{study}/attempts has the tracebacks")
    page = (study / "report" / "index.html").read_text()
    assert "OSError: no data" in page


@pytest.mark.slow
def test_interrupted_it_says_how_to_resume_and_leaves_nobody_behind(tmp_path):
    process = start(tmp_path / "study", "--iterations", "50000")
    wait_for(lambda: owners(tmp_path / "study"))
    os.killpg(process.pid, signal.SIGINT)  # what Ctrl-C does
    code, output, told = finish(process)
    assert (code, output) == (130, "")
    assert told.endswith("interrupted; the same command resumes from here\n")
    for worker in owners(tmp_path / "study"):
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_report_rebuilds_the_page_and_prints_the_table(tmp_path, capsys):
    request = Request(("sort",), ("compr",), trials=1, analysis=False, extended=False)
    study = write_study(tmp_path / "study", request)
    assert main(["report", str(study)]) == 0
    output = capsys.readouterr().out
    assert re.search(r"sort +\d+ \(\d+\)", output)
    assert "Reduced budget: 20 000 of the paper's 300 000 iterations" in " ".join(output.split())
    assert output.endswith(f"report: {study / 'report' / 'index.html'}\n")


def test_results_are_maximum_lengths_or_answers(tmp_path, monkeypatch, capsys):
    request = Request(("sort",), ("reg", "compr"), trials=2, analysis=False, extended=False)
    study = str(write_study(tmp_path, request))
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["results", study]) == 0
    text = capsys.readouterr().out
    assert "Maximum lengths by the rule unseen: ours (paper's)\n" in text
    assert re.search(r"sort +\d+ \(\d+\) +\d+ \(\d+\)", text)
    many = ", ".join(f"'{name}' AS column_{name}" for name in "abcdefghijklmnop")
    assert main(["results", study, "--sql", f"SELECT repeat('x', 90) AS wide, {many}"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["wide", *(f"column_{name}" for name in "abcdefghijklmnop")]
    assert row.split() == ["x" * 90, *"abcdefghijklmnop"]


def test_results_as_csv(tmp_path, monkeypatch):
    request = Request(("sort",), ("reg", "compr"), trials=2, analysis=False, extended=False)
    study = str(write_study(tmp_path, request))

    def printed(*options):
        page = io.TextIOWrapper(io.BytesIO())
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", page)
            assert main(["results", study, "--csv", *options]) == 0
        return page.buffer.getvalue()

    sql = "SELECT approach, count(*) AS n FROM results GROUP BY ALL ORDER BY ALL"
    assert printed("--sql", sql) == b'"approach","n"\n"compr",198\n"reg",198\n'
    assert len(printed().splitlines()) == 1 + 2 * 198


def test_columns_of_one_name_keep_their_values(tmp_path, capsys):
    request = Request(("sort",), ("reg",), trials=1, analysis=False, extended=False)
    study = str(write_study(tmp_path, request))
    assert main(["results", study, "--sql", "SELECT 1 AS a, 2 AS a, 3 AS b"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["1", "2", "3"]


@pytest.mark.parametrize("sql", ["", "  ", ";", "-- nothing"])
def test_an_empty_question_costs_one_sentence(sql, tmp_path, capsys):
    request = Request(("sort",), ("reg",), trials=1, analysis=False, extended=False)
    assert main(["results", str(write_study(tmp_path, request)), "--sql", sql]) == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    assert re.match("cdnc: sql is .*; accepted: one SQL query", sentence)


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("[/foo]", "[/foo]"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
        (":x: :smile:", ":x: :smile:"),
        ("\x1b]0;owned\x07\x1b[2J", "?]0;owned??[2J"),
        ("\u202etxt", "?txt"),
        ("\\[red]", "\\[red]"),
        ("http://a/{x}", "http://a/{x}"),
    ],
)
def test_cells_are_printed_as_they_are(tmp_path, capsys, cell, shown):
    study = write_study(tmp_path, Request(("sort",), ("reg",), trials=1, analysis=False))
    quoted = cell.replace("'", "''")
    sql = f"""SELECT '{quoted}' AS "{cell}" """
    assert main(["results", str(study), "--sql", sql]) == 0
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == [shown, shown]


@pytest.mark.parametrize("options", [[], ["--csv"]])
def test_cells_that_cannot_be_printed_cost_one_sentence(tmp_path, capsys, options):
    study = write_study(tmp_path, Request(("sort",), ("reg",), trials=1, analysis=False))
    sql = "SELECT '290000-01-01'::DATE AS day, [1, 2] AS list"
    assert main(["results", str(study), "--sql", sql, *options]) == 2
    assert re.fullmatch(r"cdnc: sql is .*\n", capsys.readouterr().err)


def test_csv_is_whole_or_nothing(tmp_path, monkeypatch):
    study = write_study(tmp_path, Request(("sort",), ("reg",), trials=1, analysis=False))
    output = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", output)
    assert main(["results", str(study), "--csv", "--sql", "SELECT INTERVAL 1 month"]) == 2
    output.flush()
    assert output.buffer.getvalue() == b""


@pytest.mark.parametrize("command", ["report", "results"])
def test_not_a_study_costs_one_sentence(command, tmp_path, capsys):
    assert main([command, str(tmp_path)]) == 2
    assert re.fullmatch(r"cdnc: study is .*; accepted: .*\n", capsys.readouterr().err)


def test_frontier_writes_a_picture_and_a_table(tmp_path, capsys):
    train(tiny_config(iterations=10), tmp_path, threads=1)
    options = ["--lengths", "1..3", "--memory-size", "2,4"]
    assert main(["frontier", str(tmp_path), *options]) == 0
    assert capsys.readouterr().out.endswith(f"frontier: {tmp_path / 'frontier.png'}\n")
    assert (tmp_path / "frontier.parquet").exists()
    capsys.readouterr()
    for sizes in ("0", "x", "", "8,4"):
        assert main(["frontier", str(tmp_path), "--memory-size", sizes]) == 2
        error = capsys.readouterr().err
        assert re.match(r"cdnc: memory_size is .*; accepted: .*number(s)? of slots", error)
        assert "length" not in error
