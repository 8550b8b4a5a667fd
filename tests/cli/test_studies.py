"""The commands about studies: what they print, and their exit codes."""

import io
import os
import re
import signal

import pandas as pd
import pytest
from filelock import FileLock

from constrained_dnc.cli import main, studies
from constrained_dnc.cli.studies import _tell_estimate
from constrained_dnc.config import make_config
from constrained_dnc.study import read_study
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
    assert "differs from that of the study" in capsys.readouterr().err
    assert len(plan.configs) == 2


def test_the_estimate_is_of_updates_and_measures(monkeypatch):
    config = make_config("copy", "compr", preset="smoke")
    times = iter([2.0, 30.0, 1.0, 1.0, 1.0])
    monkeypatch.setattr(trial, "_seconds", lambda work: next(times))
    expected = 2.0 * config.training.iterations
    expected += 30.0 * config.training.iterations / config.training.measure_every
    assert estimate_seconds(config)[0] == pytest.approx(expected)


def test_runs_still_in_hand_and_missing_workers_are_told(tmp_path, capsys):
    plan = open_study(tmp_path, make_request("smoke"))
    plan.lock(plan.configs[0]).parent.mkdir()
    lock = plan.lock(plan.configs[0])
    with FileLock(lock):
        lock.write_text("process 7 on head")
        _tell_estimate(plan, plan.to_do(), 0)
    waiting, no_workers = capsys.readouterr().err.splitlines()
    assert waiting == "waiting for a run of another sweep: process 7 on head"
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
    assert "bad compr trial 0 failed: OSError: no data" in told
    assert "copy compr trial 0: finished" in told
    last = output.splitlines()[-2:]
    assert last[0] == "failed: bad compr trial 0: OSError: no data"
    assert last[1].startswith(f"{study}/failures has the tracebacks")
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


def test_results_are_maximum_lengths(tmp_path, monkeypatch, capsys):
    request = Request(("sort",), ("reg", "compr"), trials=2, analysis=False, extended=False)
    study = str(write_study(tmp_path, request))
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["results", study]) == 0
    text = capsys.readouterr().out
    assert "Maximum lengths by the rule unseen: ours (paper's)\n" in text
    assert re.search(r"sort +\d+ \(\d+\) +\d+ \(\d+\)", text)


def test_results_as_csv(tmp_path, capsys):
    request = Request(("sort",), ("reg", "compr"), trials=2, analysis=False, extended=False)
    study = str(write_study(tmp_path, request))
    assert main(["results", study, "--csv"]) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out), dtype={"memory": str})
    pd.testing.assert_frame_equal(table, read_study(study).history, check_dtype=False)


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
