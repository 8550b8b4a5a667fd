"""Settings from a file: --config."""

import json
from dataclasses import replace

import pytest

from constrained_dnc.cli import main
from constrained_dnc.cli.parsing import parse
from constrained_dnc.cli.train import Train
from constrained_dnc.config import as_dict, make_config
from constrained_dnc.parts import Approach, parse_part

YAML = """
task: sort
approach:
  name: gentle
  controller: peephole
  constraints: [compression, "regularisation,task_weight=0.99"]
seed: 3
model: {hidden_size: 24}
training:
  learning_rate: 1e-4
  iterations: 5000
  curriculum: "0:1..2,40:1..3"
"""


def expected():
    """The settings of YAML with the preset smoke, made in Python."""
    config = make_config("sort", "compr", seed=3, preset="smoke")
    gentle = parse_part("regularisation,task_weight=0.99")
    return replace(
        config,
        approach=Approach("gentle", "peephole", (parse_part("compression"), gentle)),
        model=replace(config.model, hidden_size=24),
        training=replace(
            config.training,
            learning_rate=1e-4,
            iterations=5000,
            curriculum="0:1..2,40:1..3",
        ),
    )


def settings_of(command):
    options = parse(Train, command.split(), "cdnc train")
    names = ("task", "approach", "seed", "model", "training", "evaluation")
    return {name: getattr(options, name) for name in names}


def values_of(config):
    return {name: getattr(config, name) for name in settings_of("sort")}


@pytest.mark.parametrize("kind", ["yaml", "part", "whole"])
def test_a_file_has_the_settings_that_options_would(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / ("mine.yaml" if kind == "yaml" else "mine.json")
    if kind == "yaml":
        path.write_text(YAML)
    elif kind == "part":  # as in a run's config.json
        path.write_text(json.dumps(as_dict(expected())))
    else:
        path.write_text(json.dumps({"run_id": "abc", "config": as_dict(expected())}))
    command = f"--config {path.name} --preset smoke"
    assert settings_of(command) == values_of(expected())
    other = settings_of(f"copy {command} --seed 4 --training.iterations 60")
    assert (other["task"], other["seed"], other["training"].iterations) == ("copy", 4, 60)
    assert other["model"] == expected().model
    assert settings_of(f"{command} --approach reg")["approach"].name == "reg"


def test_an_approach_has_its_name_and_another_run_its_parameters(tmp_path):
    path = tmp_path / "mine.yml"
    path.write_text("approach: reg\nseed: 5\ntraining: {iterations: 70}")
    settings = settings_of(f"copy --config {path}")
    assert (settings["approach"].name, settings["seed"]) == ("reg", 5)
    settings = settings_of(f"--from zoo:copy/compr+reg --config {path} --approach compr+reg")
    assert settings["training"].iterations == 70
    assert settings["model"].memory_size == 50  # of the pretrained model


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.yaml", "training: {learning_rte: 1}", "training.learning_rte that does not exist (di"),
        ("a.yaml", "training: {window: 1.5}", "config.training.window must be of type int, not 1"),
        ("a.yaml", "model: {hidden_size: 0}", "hidden_size must be an integer of at least 1"),
        ("a.yaml", "model:\n", "config.model must be an object with the fields"),
        ("a.yaml", "approach: rge", "approach must be one of"),
        ("a.yaml", "approach: {name: x, memory: 'dnc,look=1'}", "dnc has no setting 'look'"),
        ("a.yaml", "seed: 3\n- 4", "a.yaml cannot be read: "),
        ("a.yaml", "seed: 3\nmodel: [1", "line 2"),
        ("a.yaml", "seed: !!python/object:os.system x", "could not determine a constructor"),
        ("a.yaml", "", "a.yaml cannot be read: it has no settings"),
        ("a.json", "{", "a.json cannot be read"),
        ("a.json", "[]", "a.json cannot be read: it is not a JSON object"),
        ("b.json", "{}", "a.json cannot be read: No such file"),
        ("a.json", '{"task": "mine.py:T"}', "a.json names user-defined code that you have not tr"),
        ("a.json", '{"training": {"curriculum": "mine.py:T"}}', "names user-defined code"),
        ("a.json", '{"start": {"digest": "x"}}', "add --from"),
    ],
)
def test_a_mistake_in_a_file_is_one_sentence(tmp_path, monkeypatch, capsys, name, text, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    (tmp_path / "mine.py").write_text("open('executed', 'w')")
    assert main(["train", "sort", "--config", f"a.{name[2:]}"]) in (1, 2)
    (sentence,) = capsys.readouterr().err.splitlines()
    assert said in sentence
    assert not (tmp_path / "executed").exists()
    assert not (tmp_path / "runs").exists()
