"""The commands about studies: what they print, and their exit codes."""

import csv
import io
import os
import re
import signal
from collections import Counter

import pytest

from constrained_dnc.cli import main, studies
from constrained_dnc.cli.studies import _print_estimate
from constrained_dnc.config import make_config
from constrained_dnc.files import locked, read_json
from constrained_dnc.sweep import executors, trial
from constrained_dnc.sweep.plan import Plan, memories_of, open_study, plan_study
from constrained_dnc.sweep.trial import estimate_seconds
from smoke_studies import finish, open_smoke, owners, start, wait_for
from synthetic import Request, write_study


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--approaches magic", "approach must be one of compr, "),
        ("--workers 0", "workers must be an integer of at least 1, not 0"),
        ("--approaches --trials 1", "--approaches needs at least one name"),
        ("--scheduler tcp://127.0.0.1:1", "scheduler must be the address of a running"),
        ("--study other", "model.memory_size differs from the study"),
        ("--study strange", "strange is not empty and has no study.json"),
    ],
)
def test_a_bad_request_costs_one_sentence(options, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(executors, "SECONDS_TO_CONNECT", 0.5)
    open_study(plan_study(tmp_path / "other", "quick"))
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "thesis.tex").touch()
    assert main(["study", "--preset", "smoke", *options.split()]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"cdnc: {sentence}")


@pytest.mark.parametrize("form", ["--study={}", "--workers 1 --study {}"])
def test_the_folder_alone_resumes_what_was_requested(form, tmp_path, monkeypatch, capsys):
    plan = open_smoke(tmp_path, ["sort"], ["compr"], trials=2)
    monkeypatch.setattr(Plan, "is_done", lambda *_: True)
    monkeypatch.setattr(studies, "write_report", lambda folder: None)
    before = (tmp_path / "study.json").read_bytes()
    assert main(["study", *form.format(tmp_path).split()]) == 0
    assert "2 runs, 2 ended, 0 to go" in capsys.readouterr().err
    assert (tmp_path / "study.json").read_bytes() == before
    assert main(["study", *form.format(tmp_path).split(), "--trials", "3"]) == 0
    assert "3 runs, 3 ended, 0 to go" in capsys.readouterr().err
    larger = open_smoke(tmp_path, ["sort"], ["compr"], trials=3)
    assert set(larger.configs) > set(plan.configs)
    assert read_json(tmp_path / "study.json")["preset"] == "smoke"
    assert {*read_json(tmp_path / "study.json")["runs"]} == {it.run_id for it in larger.configs}


def test_the_estimate_is_of_updates_and_measures(monkeypatch, tmp_path):
    config = make_config("copy", "compr", preset="smoke")
    times = iter([2.0, 30.0, *[0.0] * len(memories_of(config)), 7.0])
    monkeypatch.setattr(trial, "_seconds", lambda work: next(times))
    expected = 2.0 * config.training.iterations
    expected += 30.0 * config.training.iterations / config.training.measure_every
    estimate = estimate_seconds(Plan(tmp_path), config)
    assert estimate["training"] == pytest.approx(expected)
    assert (estimate["evaluation"], estimate["analysis"]) == (0.0, 7.0)


def test_runs_of_an_earlier_study_and_missing_workers_are_named(tmp_path, capsys):
    plan = open_smoke(tmp_path)
    plan.lock(plan.configs[0]).parent.mkdir()
    with locked(plan.lock(plan.configs[0])):
        _print_estimate(plan, plan.to_do(), 0)
    waiting, no_workers = capsys.readouterr().err.splitlines()
    assert waiting.startswith(
        "waiting for runs that an earlier study is still working on: process "
    )
    assert waiting.count(f"process {os.getpid()} on ") == 1
    assert no_workers == "the scheduler has no workers yet; runs start when workers connect"


def test_a_raising_task_is_given_up_and_the_rest_is_reported(tmp_path):
    """A whole study in real processes: about 20 s, nearly all of it start-up."""
    (tmp_path / "bad.py").write_text(
        "from constrained_dnc.tasks.numeral import Copy\n\n\nclass Bad(Copy):\n"
        '    name = "bad"\n\n    def encode(self, problems):\n        raise OSError("no data")\n'
    )
    study = tmp_path / "study"
    tasks = ["--tasks", f"{tmp_path}/bad.py:Bad", "copy", "--approaches", "compr"]
    code, output, errors = finish(start(study, *tasks, "--training.iterations", "10"))
    assert code == 1
    assert errors.startswith("starting workers\n")
    assert "2 runs, 0 ended, 2 to go" in errors
    assert "the first run cannot be timed: sample of the task bad failed (" in errors
    assert len(re.findall(r"bad compr trial 0 failed: .*OSError: no data", errors)) == 1
    assert "copy compr trial 0: finished" in errors
    last = output.splitlines()[-2:]
    assert re.match(r"failed: bad compr trial 0: .*OSError: no data", last[0])
    assert last[1].startswith(f"tracebacks are in {study}/failures; ")
    page = (study / "report" / "index.html").read_text()
    assert "OSError: no data" in page


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_it_says_how_to_resume_and_leaves_nobody_behind(tmp_path, number):
    process = start(tmp_path / "study", "--training.iterations", "50000")
    wait_for(lambda: owners(tmp_path / "study"))
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # what Ctrl-C does
    else:
        process.send_signal(number)
    code, output, errors = finish(process)
    assert (code, output) == (130, "")
    assert errors.endswith("stopped; the same command resumes from here\n")
    for worker in owners(tmp_path / "study"):
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_report_rebuilds_the_page_and_prints_the_table(tmp_path, capsys):
    request = Request(("sort",), ("compr",), trials=1, analysis=False, extended=False)
    study = write_study(tmp_path / "study", request)
    assert main(["report", str(study)]) == 0
    output = capsys.readouterr().out
    assert re.search(r"sort +compr +\d+ +\d+ +45", output)
    assert "Not the paper's budget: 20 000 of the paper's 300 000 iterations" in " ".join(
        output.split()
    )
    assert output.endswith(f"report: {study / 'report' / 'index.html'}\n")


def test_results_are_maximum_lengths_or_all_rows(tmp_path, monkeypatch, capsys):
    request = Request(("sort",), ("reg", "compr"), trials=2, analysis=False, extended=False)
    study = str(write_study(tmp_path, request))
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["results", study]) == 0
    seeds = r" +\d+ \(\d+, \d+\)"
    assert re.search(
        rf"sort +compr{seeds}{seeds} +45 *\n +reg{seeds}{seeds} +46", capsys.readouterr().out
    )
    assert main(["results", study, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert Counter(row["approach"] for row in rows) == {"compr": 198, "reg": 198}


@pytest.mark.parametrize("command", ["report", "results"])
def test_not_a_study_costs_one_sentence(command, tmp_path, capsys):
    assert main([command, str(tmp_path)]) == 2
    assert re.fullmatch(r"cdnc: study must be .*\n", capsys.readouterr().err)
