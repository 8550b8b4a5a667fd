"""Pretrained models: shipped out of a study, loaded by name, refused when corrupt."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from constrained_dnc import evaluate, load_pretrained, load_run, predict, train, zoo
from constrained_dnc.cli import main
from constrained_dnc.config import run_name, with_min_iterations
from constrained_dnc.errors import SettingError
from constrained_dnc.evaluation.results import results_frame, stored_results
from constrained_dnc.files import write_table
from constrained_dnc.study import read_study
from constrained_dnc.study.plan import open_study
from constrained_dnc.study.trial import Wanted, complete_run
from constrained_dnc.training.folder import EVALUATION
from tiny_runs import tiny_config

SCRIPT = Path(__file__).parents[1] / "scripts" / "ship.py"


def ship(study: Path, results: Path, models: Path, commit: str = "abc") -> int:
    """Run the script; its exit code."""
    options = ["--commit", commit, "--results", str(results), "--zoo", str(models)]
    command = [sys.executable, str(SCRIPT), str(study), *options]
    return subprocess.run(command, check=False, capture_output=True).returncode


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """A study of two trials, and what was shipped of it."""
    folder = tmp_path_factory.mktemp("shipping")
    configs = [tiny_config(seed=seed, iterations=20) for seed in (0, 1)]
    command = ["study", "--study", str(folder / "study")]
    plan = open_study(folder / "study", configs, command=command)
    for run in plan.runs:
        complete_run(run.folder, Wanted())
    assert ship(folder / "study", folder / "results", folder / "zoo") == 0
    return folder, plan


@pytest.fixture
def models(shipped, tmp_path, monkeypatch):
    """A zoo of its own with the shipped model; the current folder is empty."""
    folder = tmp_path / "models"
    shutil.copytree(shipped[0] / "zoo", folder)
    monkeypatch.setattr(zoo, "MODELS", folder)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return folder


def test_the_best_trial_is_that_of_the_rule(shipped, models):
    _, plan = shipped
    best = max(
        map(load_run, (run.folder for run in plan.runs)),
        key=lambda run: run.selected("score").running_mean,
    )
    model, task = load_pretrained("copy", "compr")
    assert task.name == "copy"
    np.testing.assert_array_equal(model.output_weight, best.selected("score").model.output_weight)
    run = load_run("zoo:copy/compr")
    assert zoo.read_origin(run.folder) == zoo.Origin("abc", (0, 1))
    assert (run.config, run.status) == (best.config, best.status)


def test_a_rule_without_parameters_is_named_with_those_that_have_some():
    with pytest.raises(SettingError) as refusal:
        load_pretrained("sort", "compr+reg", "seen")
    sentence = "sort/compr+reg has no parameters selected by 'seen'; available: score"
    assert str(refusal.value) == sentence


def test_a_pretrained_model_has_the_parameters_of_the_requested_rule():
    run = load_run("zoo:copy/compr+reg+used")
    for rule in (None, "score", "unseen"):
        model, _ = load_pretrained("copy", "compr+reg+used", rule)
        right = run.selected(rule or "score").model
        np.testing.assert_array_equal(model.output_weight, right.output_weight)
    assert run.selected("score").iteration != run.selected("unseen").iteration


def test_a_shipped_model_stays_the_best_when_its_run_is_gone(shipped, tmp_path):
    """As on another machine, which trains only further trials."""
    study, models = tmp_path / "study", tmp_path / "zoo"
    shutil.copytree(shipped[0] / "study", study)
    shutil.copytree(shipped[0] / "zoo", models)
    path = models / "copy" / "compr" / "config.json"
    before = json.loads(path.read_text())
    best = load_run(path.parent).config
    shutil.rmtree(study / "runs" / run_name(best))
    own = before["origin"] | {"trials": [best.seed]}
    path.write_text(json.dumps(before | {"origin": own}))
    assert ship(study, tmp_path / "results", models, "other") == 0
    assert json.loads(path.read_text()) == before
    assert load_run(path.parent).config == best


def test_a_run_that_is_further_on_than_its_scores_is_not_shipped(shipped, tmp_path):
    study, models = tmp_path / "study", tmp_path / "zoo"
    shutil.copytree(shipped[0] / "study", study)
    config = load_run(shipped[0] / "zoo/copy/compr").config
    train(with_min_iterations(config, 30), study / "runs" / run_name(config))
    assert ship(study, tmp_path / "results", models) == 0
    run = load_run(models / "copy/compr")
    assert (run.config.seed, run.status.iteration) == (1 - config.seed, 20)


def test_a_mistyped_study_costs_no_results(shipped, tmp_path):
    results = tmp_path / "results"
    shutil.copytree(shipped[0] / "results", results)
    before = sorted(results.rglob("*"))
    assert ship(tmp_path / "stduy", results, tmp_path / "zoo") != 0
    assert sorted(results.rglob("*")) == before


def test_stored_scores_can_be_computed_again(models):
    run = load_run("zoo:copy/compr")
    stored = stored_results(run.folder)
    assert sorted(set(stored["memory"])) == ["4", "40", "growing"]
    is_default = (stored["selection"] == "score") & (stored["inference"] == "network")
    for memory in (4, 40, "growing"):
        rows = stored[is_default & (stored["memory"] == str(memory))]
        again = evaluate(run, memories=[memory])
        pd.testing.assert_frame_equal(again, rows.reset_index(drop=True))
    assert set(stored.query("memory == '4' and selection == 'unseen'")["length"]) == {1, 2, 3, 4}


def test_the_full_list_has_every_rule_and_says_which_are_shipped(models, capsys):
    folder = models / "copy" / "compr"
    row = stored_results(folder).query("inference == 'network'").iloc[0].to_dict()
    rows = [
        row
        | {"selection": rule, "memory": memory, "length": length, "score": score}
        | {"state_count": np.inf if rule == "score" else np.nan}
        for rule, memory, length, score in (
            ("score", "4", 2, 0.96),
            ("score", "4", 9, 0.95),
            ("score", "40", 5, 0.99),
            ("score", "growing", 5, 0.9),
            ("seen", "4", 2, 0.96),
        )
    ]
    write_table(folder / EVALUATION, results_frame(rows))
    (folder / "selected-seen.safetensors").touch()
    assert main(["zoo", "--all"]) == 0
    _, _, head, *rows = capsys.readouterr().out.splitlines()
    assert head.endswith("4 slots  40 slots  growing")
    rows = [line.split() for line in rows[:3]]
    assert rows == [
        ["zoo:copy/compr", "score", "*", str(row["seed"]), "2", "20", ">4096", "9", "5", "0"],
        ["unseen", "-", "-", "-", "-"],
        ["seen", "*", "-", "2", "-", "-"],
    ]


def test_commands_take_a_pretrained_model_and_leave_it_alone(models, capsys):
    before = {path: path.read_bytes() for path in models.rglob("*") if path.is_file()}
    assert main(["zoo"]) == 0
    assert main(["predict", "zoo:copy/compr", "3 1 4"]) == 0
    assert main(["evaluate", "zoo:copy/compr", "--lengths", "2..3"]) == 0
    assert "selected by score" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in models.rglob("*") if path.is_file()} == before


def test_demo_marks_what_is_wrong(models, capsys):
    shutil.copytree(models / "copy" / "compr", models / "copy" / "round+reg")
    arguments = ["demo", "--task", "copy", "--baseline", "compr", "--lengths", "3,4"]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    run = load_run("zoo:copy/compr")
    for length in (3, 4):
        at = lines.index(f"length {length}")
        problem = run.task.sample(0, 1, length).problems[0]
        answer = predict(run, run.task.format_problem(problem))
        assert lines[at + 1].split() == ["problem", "".join(map(str, problem))]
        right = sum(ours == theirs for ours, theirs in zip(answer, problem, strict=True))
        name, _, *count = lines[at + 3].split()
        assert (name, count) == ("compr", [str(right), "of", str(length), "right"])
        marks = lines[at + 4] if right < length else ""
        assert marks.count("^") == length - right
    assert lines[-1] == "cdnc demo --live"
    assert "rounded to integers and not limited" in lines[1]
    assert lines[2] == (
        f"compr: seed {run.config.seed}, {run.status.iteration} iterations (paper: 300000), "
        "4 slots, selected by score."
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--task copy --baseline compr --seed -1", "seed must be an integer of at least 0"),
        ("--task add --baseline compr+reg", "add has problems or answers that are not digits"),
        ("--task sortt", "pretrained model must be "),
    ],
)
def test_demo_refuses_before_it_prints_anything(capsys, arguments, sentence):
    assert main(["demo", *arguments.split()]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"cdnc: {sentence}")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("name", ["zoo:copy/comp", "zoo:", "zoo:../copy/compr"])
def test_unknown_names_are_answered_with_those_available(models, name):
    with pytest.raises(SettingError, match=r"pretrained model must be zoo:copy/compr"):
        load_run(name)


def test_an_empty_zoo_says_so(models, monkeypatch, capsys):
    shutil.rmtree(models)
    assert main(["zoo"]) == 0
    assert "no pretrained models" in capsys.readouterr().out
    with pytest.raises(SettingError, match="this installation has no pretrained models"):
        load_run("zoo:copy/compr")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("config.json", lambda text: "{}"),
        ("selected-score.safetensors", lambda text: text[:-9]),
        ("config.json", lambda text: text.replace('"trials"', '"trails"')),
        ("evaluation.parquet", lambda text: text[:-9]),
    ],
)
def test_corrupt_files_are_named(models, name, change, capsys):
    path = models / "copy" / "compr" / name
    path.write_bytes(change(path.read_bytes().decode("latin-1")).encode("latin-1"))
    commands = [["zoo"], ["predict", "zoo:copy/compr", "3 1 4"]]
    codes = [main(command) for command in commands]
    assert any(codes)
    assert str(path) in capsys.readouterr().err


def test_shipped_results_are_those_of_the_study(shipped):
    folder, plan = shipped
    ours, theirs = read_study(folder / "results"), read_study(plan.folder)
    pd.testing.assert_frame_equal(ours.history, theirs.history)
    assert str(folder) not in (folder / "results" / "study.json").read_text()
    for run_id in theirs.members:
        assert ours.analysis(run_id, "states").keys() == {"states"}
    assert not list((folder / "results").rglob("*.safetensors"))
    assert len(ours.history) == 2 * 20
