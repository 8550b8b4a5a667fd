"""The commands train, evaluate, predict, in processes that are really killed."""

import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pandas as pd
import pytest

from constrained_dnc import Part
from constrained_dnc.cli import main
from constrained_dnc.cli.runs import print_scores
from constrained_dnc.config import SMOKE
from constrained_dnc.training.run import load_run, plan_run
from tiny_runs import fingerprint

SMALL = [
    "--approach=compr", "--preset=smoke", "--threads=1", "--seed=5",
    "--model.memory-size=4", "--model.word-size=3", "--model.hidden-size=6",
    "--training.iterations=400", "--training.batch-size=4", "--training.checkpoint-every=5",
    "--training.max-length=2", "--training.unseen-length=3",
]  # fmt: skip


def start(folder, iterations):
    command = [sys.executable, "-m", "constrained_dnc", "train", "copy", *SMALL]
    command += [f"--training.iterations={iterations}", "--run-dir", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(folder, iterations):
    process = start(folder, iterations)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    return output


def iteration_of(folder):
    try:
        return json.loads((folder / "status.json").read_bytes())["iteration"]
    except FileNotFoundError:
        return 0


def strike(process, folder, number, chance):
    """Send a signal some iterations from now, half of the time while a checkpoint is written."""
    goal = iteration_of(folder) + chance.randint(5, 15)
    deadline = time.monotonic() + 120
    while iteration_of(folder) < goal:
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    if chance.random() < 0.5:
        while not list(folder.glob(".checkpoint-*.unfinished")) and process.poll() is None:
            pass
    else:
        time.sleep(chance.random() * 0.02)
    process.send_signal(number)
    output, _ = process.communicate(timeout=300)
    return process.returncode, output


def struck_run_ends_like_an_undisturbed_one(tmp_path, numbers):
    iterations = 100 * len(numbers)  # on a busy machine a strike comes late
    finish(tmp_path / "undisturbed", iterations)
    folder, chance = tmp_path / "struck", random.Random(2)
    for number in numbers:
        code, output = strike(start(folder, iterations), folder, number, chance)
        if number == signal.SIGKILL:
            assert code == -signal.SIGKILL
            assert load_run(folder).status.state == "interrupted"
        else:
            assert code == 128 + number
            assert "run the same command to resume" in output
            assert load_run(folder).status.state == "stopped"
    assert "resuming after iteration" in finish(folder, iterations)
    assert fingerprint(folder) == fingerprint(tmp_path / "undisturbed")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Compile once for all processes of this file, and leave the user's cache alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.slow
def test_killed_and_stopped_run_ends_with_the_same_bits(tmp_path):
    struck_run_ends_like_an_undisturbed_one(
        tmp_path, [signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGKILL]
    )


@pytest.mark.slow
def test_twenty_kills_change_no_bit(tmp_path):
    struck_run_ends_like_an_undisturbed_one(tmp_path, [signal.SIGKILL] * 20)


@pytest.fixture(scope="module")
def smoke_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "smoke"
    assert main(["train", "sort", "--preset", "smoke", "--run-dir", str(folder)]) == 0
    return folder


def test_train_stores_its_options(tmp_path, capsys):
    arguments = ["train", "copy", "--preset=smoke", "--approach", "reg", "--seed", "7"]
    arguments += ["--training.iterations", "20", "--model.hidden-size", "5"]
    arguments += ["--approach.name", "gentle"]
    arguments += ["--approach.constraints", "noise", "regularisation,task_weight=0.99"]
    assert main([*arguments, "--run-dir", str(tmp_path / "run")]) == 0
    config = load_run(tmp_path / "run").config
    assert (config.seed, config.training.iterations, config.model.hidden_size) == (7, 20, 5)
    assert config.model.memory_size == SMOKE.model.memory_size
    assert (config.approach.name, config.approach.controller) == ("gentle", "peephole")
    assert [str(part) for part in config.approach.constraints] == [
        "noise,sigma=0.1",
        "regularisation,task_weight=0.99,num_pairs=5",
    ]
    result, errors = capsys.readouterr()
    assert f"run {tmp_path / 'run'}: a new run" in errors
    assert errors.splitlines()[-1].startswith("iteration 20/20, ")
    assert re.fullmatch("finished after iteration 20: .*\n", result)


def test_the_folder_alone_resumes_the_run_in_it(tmp_path, capsys):
    run = ["--run-dir", str(tmp_path / "run")]
    assert main(["train", "copy", *SMALL, "--training.iterations=10", *run]) == 0
    assert main(["train", *run, "--training.iterations", "20"]) == 0
    output = capsys.readouterr()
    assert "resuming after iteration 10" in output.err
    assert "finished after iteration 20" in output.out
    config = load_run(tmp_path / "run").config
    assert (config.task, config.seed, config.model.hidden_size) == ("copy", 5, 6)


def test_evaluate_prints_maximum_lengths_then_scores_and_stores_them(smoke_run, capsys):
    assert main(["evaluate", str(smoke_run), "--lengths", "2,4", "--memory", "8,12"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "Maximum length: the longest input with at least 95 % correct, of the lengths 2,4"
    )
    assert lines[1].split() == ["memory", "by", "accuracy", "by", "whole", "answers"]
    rows = [line.split()[:2] for line in lines if line.strip()[:1].isdigit()]
    assert [memory for memory, _ in rows[:2]] == ["8", "12"]
    assert rows[2:] == [["8", "2"], ["8", "4"], ["12", "2"], ["12", "4"]]
    assert "finished after 60" in lines[-1]
    assert set(pd.read_parquet(smoke_run / "evaluation.parquet")["memory"]) >= {"8", "12"}


def test_maximum_lengths_by_entries_and_by_whole_answers(capsys):
    facts = {"task": "sort", "approach": "reg", "seed": 0, "iteration": 9, "selection": "score"}
    facts |= {"status": "finished", "iterations": 9, "skipped_updates": 0, "memory": "8"}
    facts |= {"batches": 1, "score_kind": "accuracy", "floor": 0.2, "inference": "network"}
    scores = {2: (1.0, 1.0), 3: (0.99, 0.95), 4: (0.95, 0.2), 5: (0.94, 0.0)}
    rows = [
        facts | {"length": n, "score": s, "sequence_accuracy": w} for n, (s, w) in scores.items()
    ]
    print_scores(pd.DataFrame(rows))
    assert capsys.readouterr().out.splitlines()[2].split() == ["8", "4", "3"]
    print_scores(pd.DataFrame(rows[2:]))  # shorter inputs were not measured: nothing is known
    assert capsys.readouterr().out.splitlines()[2].split() == ["8", "4", "none"]
    print_scores(pd.DataFrame(rows).assign(floor=[0.2, 0.2, 0.95, 0.97]))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "(not counted, as the floor reaches that: 4..5)"
    assert lines[3].split() == ["8", "3", "3"]


def test_a_model_without_a_memory_takes_no_number_of_slots(smoke_run, tmp_path, capsys):
    config = load_run(smoke_run).config
    approach = replace(config.approach, name="plain", memory=Part("none"))
    plan_run(tmp_path, replace(config, approach=approach))
    assert main(["evaluate", str(tmp_path), "--memory", "80"]) == 2
    assert capsys.readouterr().err == "cdnc: plain has no memory for --memory to change\n"


def test_lengths_at_which_a_growing_memory_was_given_up_are_mentioned(smoke_run, capsys):
    """An untrained model is near the floor at training lengths, 1 to 3, and beyond them."""
    arguments = ["evaluate", str(smoke_run), "--memory", "growing", "--batches", "1"]
    assert main([*arguments, "--lengths", "2,5,6"]) == 0
    lines = capsys.readouterr().out.splitlines()
    lengths = [line.split()[1] for line in lines[5:] if line.startswith("growing")]
    assert lengths == ["2"]
    assert any(line.startswith("memory growing: 2 longer inputs were left out") for line in lines)
    assert main([*arguments, "--lengths", "2,5,6", "--all-lengths"]) == 0
    lines = capsys.readouterr().out.splitlines()
    lengths = [line.split()[1] for line in lines[5:] if line.startswith("growing")]
    assert lengths == ["2", "5", "6"]
    assert not any("left out" in line for line in lines)


def test_an_approach_in_a_file_is_trained(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from constrained_dnc import Approach, Part\n"
        "gentle = Approach('gentle', controller='peephole', constraints=(Part('compression'),))\n"
    )
    arguments = ["--preset=smoke", "--approach=mine.py:gentle", "--training.iterations=10"]
    assert main(["train", "copy", *arguments]) == 0
    approach = load_run(tmp_path / "runs" / "copy-gentle-0").config.approach
    assert (approach.name, *map(str, approach.constraints)) == ("gentle", "compression")


def test_predict_shows_problem_and_answers(smoke_run, capsys):
    assert main(["predict", str(smoke_run), "31243", "--memory", "20", "--selection", "seen"]) == 0
    output = capsys.readouterr()
    lines = [line.split() for line in output.out.splitlines()]
    assert lines[0] == ["problem", *"31243"]
    assert lines[1] == ["right", *"12334"]
    assert (lines[2][0], len(lines[2])) == ("model", 6)
    right = sum(x == y for x, y in zip(lines[1][1:], lines[2][1:], strict=True))
    assert lines[3] == [str(right), *["of", "5", "entries", "right"]]
    assert output.err.splitlines()[-1] == "note: trained on lengths 1 to 3; not on 5"


def test_predict_answers_several_problems_as_it_answers_each(smoke_run, capsys, monkeypatch):
    texts = ["3 1 2", "4", "0 0 1", "2 1"]
    assert main(["predict", str(smoke_run), *texts, "--json"]) == 0
    together = json.loads(capsys.readouterr().out)
    assert [row["problem"] for row in together] == texts
    assert [row["right"] for row in together] == [[1, 2, 3], [4], [0, 0, 1], [1, 2]]
    assert [row["entries"] for row in together] == [3, 1, 3, 2]
    for text, row in zip(texts, together, strict=True):
        assert main(["predict", str(smoke_run), text, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == [row]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(texts) + "\n\n"))
    assert main(["predict", str(smoke_run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == together
    assert main(["predict", str(smoke_run), *texts]) == 0
    assert capsys.readouterr().out.count("problem  ") == 4


def test_predict_without_a_problem_costs_one_sentence(smoke_run, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n \n"))
    assert main(["predict", str(smoke_run)]) == 2
    assert capsys.readouterr().err.startswith("cdnc: a problem is missing: ")


def test_evaluate_in_json_is_the_stored_table(smoke_run, capsys):
    assert main(["evaluate", str(smoke_run), "--lengths", "2,3", "--json"]) == 0
    rows = pd.DataFrame(json.loads(capsys.readouterr().out))
    stored = pd.read_parquet(smoke_run / "evaluation.parquet")
    stored = stored[(stored["memory"] == "8") & stored["length"].isin([2, 3])]
    assert rows["score"].tolist() == pytest.approx(stored["score"].tolist())
    assert rows.columns.tolist() == stored.columns.tolist()


def test_folder_without_a_run_is_refused(tmp_path, capsys):
    assert main(["predict", str(tmp_path), "1 2"]) == 2
    assert "a run directory" in capsys.readouterr().err


FAULTY = """
from constrained_dnc.tasks.numeral import Copy

class Faulty(Copy):
    name = "faulty"

    def encode(self, problems):
        batch = super().encode(problems)
        batch.inputs[0, 0, 0] = float("inf")
        return batch
"""


def test_divergence_has_exit_code_3(tmp_path, capsys):
    (tmp_path / "faulty.py").write_text(FAULTY)
    task, folder = f"{tmp_path / 'faulty.py'}:Faulty", str(tmp_path / "run")
    arguments = ["train", task, *SMALL, "--run-dir", folder]
    assert main(arguments) == 3
    assert "diverged after iteration 100" in capsys.readouterr().out
    assert len(os.listdir(f"{folder}/nonfinite")) == 5


def test_a_signal_in_the_last_iteration_changes_nothing(tmp_path, monkeypatch, capsys):
    def strike_at_the_end(bar, snapshot):
        if snapshot.iteration == snapshot.iterations:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("constrained_dnc.cli.progress.ProgressBar.progress", strike_at_the_end)
    arguments = ["train", "copy", *SMALL, "--training.iterations=10"]
    assert main([*arguments, "--run-dir", str(tmp_path / "run")]) == 0
    output = capsys.readouterr()
    assert "stopped" not in output.out + output.err
    assert "finished after iteration 10" in output.out
