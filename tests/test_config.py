"""The config: presets, JSON, refusals."""

import json
import subprocess
import sys
from dataclasses import replace
from itertools import chain

import pytest

from constrained_dnc.config import (
    PAPER,
    PRESETS,
    Config,
    EvaluationConfig,
    TrainingConfig,
    make_config,
    parse_lengths,
    with_absolute_paths,
    with_min_iterations,
)
from constrained_dnc.errors import SettingError
from constrained_dnc.model.build import ModelConfig
from constrained_dnc.parts import Approach, parse_part
from constrained_dnc.report import published


def test_the_paper_preset_has_the_papers_tasks_and_settings():
    tables = published.max_lengths(extended=False)
    assert PAPER.tasks == tuple(dict.fromkeys(task for task, _ in tables))
    config = make_config("sort", "compr+reg", preset="paper")
    training, model = config.training, config.model
    assert (training.iterations, training.batch_size, training.clip_norm) == (300_000, 64, 50)
    assert (training.learning_rate, training.beta_1, training.beta_2) == (1e-3, 0.9, 0.999)
    assert training.epsilon == 1e-8
    assert (training.min_length, training.max_length, training.unseen_length) == (5, 15, 30)
    assert (training.measure_every, training.window) == (10, 500)
    assert (model.memory_size, model.word_size, model.num_reads, model.hidden_size) == (
        50,
        16,
        4,
        128,
    )
    evaluation = config.evaluation
    assert parse_lengths(evaluation.lengths) == tuple(range(2, 101))
    extended = chain(
        [2], range(5, 51, 5), range(60, 101, 10), range(150, 501, 50), range(600, 1001, 100)
    )
    assert parse_lengths(evaluation.extension_lengths) == tuple(extended)
    assert (evaluation.batches, evaluation.extension_batches, evaluation.batch_size) == (10, 3, 64)


@pytest.mark.parametrize("preset", PRESETS)
def test_json_round_trip(preset):
    approach = Approach("mine", "peephole", (parse_part("regularisation,task_weight=0.5"),))
    for config in (make_config("sort", "compr", preset=preset), make_config("add", approach)):
        again = Config.from_json(config.to_json())
        assert again == config
        assert again.run_id == config.run_id


def test_run_id_depends_on_all_that_changes_parameters():
    config = make_config("sort", "compr")
    others = [
        make_config("copy", "compr"),
        make_config("sort", "reg"),
        *(
            replace(config, approach=replace(config.approach, name="mine", memory=parse_part(text)))
            for text in ("dnc,lookup=used-slots", "ntm", "a.b:Stack", "a.b:Stack,depth=2")
        ),
        replace(config, seed=1),
        replace(config, model=replace(config.model, hidden_size=64)),
        replace(config, training=TrainingConfig(window=499)),
    ]
    assert len({c.run_id for c in (config, *others)}) == len(others) + 1


def test_run_id_does_not_depend_on_evaluation_logging_checkpoints_and_iterations():
    config = make_config("sort", "compr")
    training = TrainingConfig(400_000, log_every=3, entropy_every=4, checkpoint_every=5)
    other = replace(config, training=training, evaluation=EvaluationConfig("2..5", seed=1))
    assert other.run_id == config.run_id
    assert with_min_iterations(config, 400_000).run_id == config.run_id


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c.update(sead=1), "sead"),
        (lambda c: c.update(seed=2**63), "seed must be .*, not 9223372036854775808"),
        (lambda c: c.pop("seed"), "config must be .* the fields task, approach, seed"),
        (lambda c: c["training"].pop("window"), "config.training must be .*window"),
        (lambda c: c["training"].update(window="500"), "training.window"),
        (lambda c: c["training"].update(learning_rate=10**400), "learning_rate must be"),
        (lambda c: c.update(model=3), "config.model"),
        (lambda c: c["approach"].update(constraints=[{"kind": "noise"}]), "constraints"),
        (
            lambda c: c["approach"].update(constraints=[]),
            "compr is the name of a built-in",
        ),
    ],
)
def test_strange_json_is_refused_by_name(change, said):
    values = json.loads(make_config("sort", "compr").to_json())
    change(values)
    with pytest.raises(SettingError, match=said):
        Config.from_dict(values)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (TrainingConfig, {"iterations": 9}),
        (TrainingConfig, {"min_length": 5, "max_length": 4}),
        (TrainingConfig, {"learning_rate": 0.0}),
        (TrainingConfig, {"learning_rate": float("nan")}),
        (TrainingConfig, {"clip_norm": float("inf")}),
        (TrainingConfig, {"beta_1": 1.0}),
        (TrainingConfig, {"beta_2": 0.99999999}),  # 1 in float32
        (TrainingConfig, {"clip_norm": 1e-300}),
        (TrainingConfig, {"unseen_length": 10**12}),
        (ModelConfig, {"clip_value": float("inf")}),
        (ModelConfig, {"forget_bias": float("nan")}),
        (ModelConfig, {"memory_size": 2**63}),
        (EvaluationConfig, {"seed": 2**63}),
        (EvaluationConfig, {"lengths": "1..99999999999"}),
        (EvaluationConfig, {"batches": 0}),
        (EvaluationConfig, {"extension_lengths": "5..2"}),
        *(
            (EvaluationConfig, {"lengths": text})
            for text in ("", "a", "0..3", "3,2", "2..", "2,2", "5..10:0", "-1..4", "2,1000001")
        ),
    ],
)
def test_impossible_values_are_refused(kind, settings):
    with pytest.raises(SettingError, match=list(settings)[-1]):
        kind(**settings)


def test_user_defined_files_get_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    training = TrainingConfig(optimiser="a.py:f,x=1", schedule="b.py:f", curriculum="c.py:f")
    config = with_absolute_paths(replace(make_config("sort", "compr"), training=training))
    assert config.training.optimiser == f"{tmp_path}/a.py:f,x=1"
    assert config.user_code == tuple(f"{tmp_path}/{name}.py:f" for name in "abc")


@pytest.mark.parametrize("task", ["copyy", ""])
def test_an_unknown_task_is_refused_at_once(task):
    with pytest.raises(SettingError, match=r"task must be one of add, .*, copy, "):
        make_config(task, "compr")


NUMPY = """
import dataclasses
import numpy as np
from constrained_dnc import Config, make_config

config = make_config("copy", "compr", preset="smoke", seed=np.int64(3))
model = dataclasses.replace(config.model, memory_size=np.int32(9), clip_value=np.float32(20))
training = dataclasses.replace(config.training, learning_rate=1, iterations=np.int64(10))
config = dataclasses.replace(config, model=model, training=training)
again = Config.from_json(config.to_json())
assert again == config and again.run_id == config.run_id
"""


def test_numbers_of_numpy_are_numbers():
    """In a process without the tests' type checks."""
    subprocess.run([sys.executable, "-c", NUMPY], check=True)
