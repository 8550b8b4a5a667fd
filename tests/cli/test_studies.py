"""The commands about studies: what they print, and their exit codes."""

import csv
import io
import os
import re
import signal
from collections import Counter

import pytest

from constrained_dnc.cli import main, studies
from constrained_dnc.files import locked, read_json
from constrained_dnc.study import executors
from constrained_dnc.study.executors import choose_executor
from constrained_dnc.study.plan import Plan, open_study, reopen_study, requested_configs
from smoke_studies import finish, open_smoke, owners, start, wait_for
from synthetic import Request, write_study


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--approaches magic", "approach must be one of compr, "),
        ("--workers 0", "workers must be an integer of at least 1, not 0"),
        ("--approaches --trials 1", "--approaches needs at least one name"),
        ("--scheduler tcp://127.0.0.1:1", "scheduler must be the address of a running"),
        ("--study other", "other has runs with other settings: model.memory_size is 16, not 8"),
        ("--study strange", "strange is not empty and has no study.json"),
        ("--training.schedule cosine,final=2", "cosine.final must be a number from 0 to 1, not 2"),
        ("--approaches mine.py", "regularisation.task_weight must be a number from 0 to 1, not 2"),
    ],
)
def test_a_bad_request_costs_one_sentence(options, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(executors, "SECONDS_TO_CONNECT", 0.5)
    open_study(tmp_path / "other", requested_configs("quick"))
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "thesis.tex").touch()
    (tmp_path / "mine.py").write_text(
        "from constrained_dnc import Approach, parse_part\n"
        'a = Approach("a", constraints=(parse_part("regularisation,task_weight=2.0"),))\n'
    )
    assert main(["study", "--preset", "smoke", *options.split()]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"cdnc: {sentence}")
    assert not (tmp_path / "studies").exists()


@pytest.mark.parametrize("form", ["--study={}", "--workers 1 --study {}"])
def test_the_folder_alone_resumes_what_was_requested(form, tmp_path, monkeypatch, capsys):
    plan = open_smoke(tmp_path, ["sort"], ["compr"], trials=2)
    monkeypatch.setattr(Plan, "to_do", lambda _: [])
    monkeypatch.setattr(studies, "write_report", lambda folder: None)
    before = (tmp_path / "study.json").read_bytes()
    assert main(["study", *form.format(tmp_path).split()]) == 0
    assert "2 runs, 2 ended, 0 to go" in capsys.readouterr().err
    assert (tmp_path / "study.json").read_bytes() == before
    assert main(["study", *form.format(tmp_path).split(), "--trials", "3"]) == 0
    assert "3 runs, 3 ended, 0 to go" in capsys.readouterr().err
    larger = open_smoke(tmp_path, ["sort"], ["compr"], trials=3)
    assert {it.folder for it in larger.runs} > {it.folder for it in plan.runs}
    assert read_json(tmp_path / "study.json")["preset"] == "smoke"
    assert len(list((tmp_path / "runs").iterdir())) == 3


def test_another_evaluation_asks_for_no_other_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(Plan, "to_do", lambda _: [])
    monkeypatch.setattr(studies, "write_report", lambda folder: None)
    open_smoke(tmp_path, ["sort"], ["compr"], trials=2)
    open_smoke(tmp_path, ["copy"], ["reg"], iterations=120)
    before = {run.folder: run.config.training for run in reopen_study(tmp_path).runs}
    assert main(["study", "--study", str(tmp_path), "--evaluation.lengths", "2..4"]) == 0
    runs = reopen_study(tmp_path).runs
    assert {run.folder: run.config.training for run in runs} == before
    assert {run.config.evaluation.lengths for run in runs} == {"2..4"}


def test_fewer_iterations_than_a_study_has_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Plan, "to_do", lambda _: [])
    open_smoke(tmp_path, ["sort"], ["compr"], iterations=4000)
    for preset in ([], ["--preset", "smoke"]):
        options = ["--tasks", "sort", "--approaches", "compr", "--training.iterations", "200"]
        assert main(["study", *preset, "--study", str(tmp_path), *options]) == 2
        sentence = f"cdnc: {tmp_path} has 1 runs of 4000 iterations, not 200; use another --study"
        assert capsys.readouterr().err.startswith(sentence)


def test_runs_that_another_command_is_working_on_are_named(tmp_path, monkeypatch, capsys):
    plan = open_smoke(tmp_path)
    monkeypatch.setattr("constrained_dnc.study.executors.execute", lambda *_: None)
    with locked(plan.runs[0].folder / "completing.lock"):
        studies._execute(plan, choose_executor(), None)
    first, waiting = capsys.readouterr().err.splitlines()
    assert first.endswith("2 runs, 0 ended, 2 to go")
    assert waiting.startswith(
        "waiting for runs that an earlier study is still working on: process "
    )
    assert waiting.count(f"process {os.getpid()} on ") == 1


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
    assert "2 runs, 0 ended, 2 to go" in errors
    assert len(re.findall(r"bad-compr-0 failed: .*OSError: no data", errors)) == 1
    assert "copy-compr-0: finished" in errors
    last = output.splitlines()[-3:]
    assert re.match(r"failed: bad compr trial 0: .*OSError: no data", last[0])
    assert last[1:] == [
        f"  traceback: {study}/runs/bad-compr-0/failure.txt",
        "the same command tries again",
    ]
    page = (study / "report" / "index.html").read_text()
    assert "OSError: no data" in page


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
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


def test_a_file_has_tasks_approaches_and_settings_of_a_study(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Plan, "to_do", lambda _: [])
    monkeypatch.setattr(studies, "write_report", lambda folder: None)
    (tmp_path / "mine.yaml").write_text(
        "tasks: [sort, copy]\napproaches: [compr]\ntrials: 2\ntraining: {learning_rate: 1e-2}\n"
    )
    assert main(["study", "--preset", "smoke", "--config", "mine.yaml", "--study", "s"]) == 0
    runs = reopen_study(tmp_path / "s").runs
    names = [f"{task}-compr-{seed}" for seed in (0, 1) for task in ("copy", "sort")]
    assert [run.folder.name for run in runs] == names
    assert {run.config.training.learning_rate for run in runs} == {1e-2}

    of_a_run = ["--config", "s/runs/sort-compr-1/config.json", "--trials", "1", "--study", "t"]
    assert main(["study", "--preset", "quick", *of_a_run]) == 0
    (run,) = reopen_study(tmp_path / "t").runs
    assert run.config == runs[1].config

    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    capsys.readouterr()
    for text, sentence in {
        "task: [sort]": "config.task must be of type str",
        "tasks: sort": "tasks must be a list of names, not 'sort'",
        "learning_rate: 1": "mine.yaml has a setting learning_rate that does not exist",
        "approaches: [evil.py]": "mine.yaml names user-defined code that you have not trained with",
        "tasks: ['evil.py:T']": "mine.yaml names user-defined code that you have not trained with",
    }.items():
        (tmp_path / "mine.yaml").write_text(text)
        assert main(["study", "--config", "mine.yaml", "--study", "u"]) in (1, 2)
        assert capsys.readouterr().err.startswith(f"cdnc: {sentence}")
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "u").exists()
