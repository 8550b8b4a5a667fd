"""Opening run directories, also incomplete and corrupt ones."""

import json
from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest

from constrained_dnc.cli import main
from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.evaluation.prediction import predict
from constrained_dnc.files import write_json
from constrained_dnc.training.folder import SELECTED
from constrained_dnc.training.loop import train
from constrained_dnc.training.parameters import initial_model
from constrained_dnc.training.run import load_run, save_run, write_config, write_selected
from tiny_runs import STATUS, fingerprint, tiny_config


@pytest.fixture
def folder(tmp_path):
    write_config(tmp_path, tiny_config(), "pure", 3)
    return tmp_path


def store_selected(folder, rule, approach="compr"):
    model = initial_model(tiny_config(approach=approach))
    write_selected(folder, tiny_config(), rule, model, 3, 0.5)
    return folder / SELECTED[rule]


@pytest.mark.parametrize("approach", ["compr+reg", "stateless-baseline"])
def test_a_saved_model_is_a_run(tmp_path, approach):
    config, folder = tiny_config(approach=approach), tmp_path / "saved"
    model = jax.tree.map(lambda a: a + 0.5, initial_model(config))
    save_run(model, config, folder, iteration=30)
    run = load_run(folder)
    assert eqx.tree_equal(run.model, model)
    assert (run.status.state, run.status.iteration, run.rules) == ("finished", 30, ["score"])
    assert (run.config, run.metrics) == (config, [])
    assert predict(run, "1 2 3") == predict(model, "1 2 3", task="copy")
    assert main(["evaluate", str(folder), "--lengths", "2"]) == 0
    with pytest.raises(SettingError, match="saved is not empty"):
        save_run(model, config, folder)
    longer = replace(config, training=replace(config.training, iterations=100))
    with pytest.raises(RunError, match="no checkpoint to resume from"):
        train(longer, folder)


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (tiny_config("add"), r"parameters/controller\.weight is float32 of shape"),
        (tiny_config(approach="reg"), "missing|of shape|not the parts"),
        (replace(tiny_config(), model=replace(tiny_config().model, memory_size=5)), "with 4 slots"),
    ],
)
def test_a_model_that_the_config_does_not_describe_is_not_saved(tmp_path, other, sentence):
    with pytest.raises(SettingError, match=f"config does not describe this model.*({sentence})"):
        save_run(initial_model(other), tiny_config(), tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_config_backend_and_threads_come_back(folder):
    run = load_run(str(folder))
    assert (run.config, run.backend, run.threads) == (tiny_config(), "pure", 3)
    stored = json.loads((folder / "config.json").read_text())
    assert stored["run_id"] == run.config.run_id
    assert {"jax", "numpy", "python"} <= stored["versions"].keys()
    assert "machine" in stored["platform"]


def test_missing_files_are_named(folder):
    run = load_run(folder)
    with pytest.raises(RunError, match=r"status\.json cannot be read: No such file"):
        run.status  # noqa: B018
    with pytest.raises(RunError, match="no selected parameters yet"):
        run.model  # noqa: B018
    store_selected(folder, "score")
    with pytest.raises(SettingError, match="no parameters selected by 'seen'; available: score"):
        run.selected("seen")
    with pytest.raises(SettingError, match="is not a run directory"):
        load_run(folder / "nowhere")
    with pytest.raises(SettingError, match="did you mean zoo:copy/compr\\?"):
        load_run("copy/compr")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"backend"', '"backed"', "cannot be read: 'backend' is missing"),
        ('"hidden_size": 6', '"hidden_size": "6"', "cannot be read: .*hidden_size"),
        ('"learning_rate": 0.001', '"learning_rate": 0.002', f"edited.* {tiny_config().run_id}"),
    ],
)
def test_a_config_that_was_edited_is_one_sentence(folder, old, new, said):
    path = folder / "config.json"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(RunError, match=rf"config\.json .*{said}"):
        load_run(folder)


@pytest.mark.parametrize(
    ("stored", "default"),
    [
        (("unseen", "seen", "score"), "score"),
        (("unseen", "seen"), "unseen"),
        (("seen",), "seen"),
        ((), "unseen"),
    ],
)
def test_the_default_rule_is_one_that_has_parameters(folder, stored, default):
    for rule in stored:
        store_selected(folder, rule)
    assert load_run(folder).default_rule == default


@pytest.mark.parametrize("backend", ["fused", "pure"])
def test_double_precision_by_default_changes_no_bit(tmp_path, backend):
    config = tiny_config(iterations=6)
    train(config, tmp_path / "single", backend=backend, threads=1)
    with jax.enable_x64(True):
        run = train(config, tmp_path / "double", backend=backend, threads=1)
        assert run.model.interface_bias.dtype == np.float32
        assert len(predict(run, "3 1 4", backend=backend)) == 3
        outputs = run.model.unroll(np.zeros((2, 1, 2), np.float32)).outputs
        assert outputs.dtype == np.float32
    assert fingerprint(tmp_path / "double") == fingerprint(tmp_path / "single")


def test_files_of_another_run_are_refused(folder):
    other = tiny_config(seed=1)
    write_selected(folder, other, "score", initial_model(other), 3, 0.5)
    write_json(folder / "status.json", STATUS | {"run_id": other.run_id})
    run = load_run(folder)
    with pytest.raises(
        RunError, match=rf"score\.safetensors belongs to another run, {other.run_id}"
    ):
        run.model  # noqa: B018
    with pytest.raises(RunError, match=rf"status\.json belongs to another run, {other.run_id}"):
        run.status  # noqa: B018


def test_parameters_of_another_model_or_rule_are_refused_with_their_file(folder):
    path = store_selected(folder, "unseen", "stateless-baseline")
    with pytest.raises(RunError, match=rf"{path} holds the parameters of another model: .*missing"):
        load_run(folder).model  # noqa: B018
    store_selected(folder, "score").rename(path)
    with pytest.raises(RunError, match=f"{path} does not hold parameters selected by 'unseen'"):
        load_run(folder).model  # noqa: B018
