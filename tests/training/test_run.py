"""Opening run directories that are not whole."""

import json
import math
from dataclasses import asdict

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.evaluation.prediction import predict
from constrained_dnc.explorer.models import open_model
from constrained_dnc.files import read_tensors, write_json, write_tensors
from constrained_dnc.training.checkpoint import Checkpoints, Progress
from constrained_dnc.training.disk import SELECTED
from constrained_dnc.training.loop import train
from constrained_dnc.training.run import initial_model, load_run, write_config, write_selected
from constrained_dnc.training.selection import new_selections
from tiny_runs import STATUS, fingerprint, newest_checkpoint, tiny_config


@pytest.fixture
def folder(tmp_path):
    write_config(tmp_path, tiny_config(), "pure", 3)
    return tmp_path


def test_config_backend_and_threads_come_back(folder):
    run = load_run(str(folder))
    assert (run.config, run.backend, run.threads) == (tiny_config(), "pure", 3)
    stored = json.loads((folder / "config.json").read_text())
    assert stored["run_id"] == run.config.run_id
    assert {"jax", "numpy", "python"} <= stored["versions"].keys()
    assert "machine" in stored["platform"]


def test_what_is_missing_is_said(folder):
    run = load_run(folder)
    with pytest.raises(RunError, match=r"status\.json"):
        run.status  # noqa: B018
    with pytest.raises(RunError, match="no selected parameters yet"):
        run.model  # noqa: B018
    with pytest.raises(SettingError, match="a run directory"):
        load_run(folder / "nowhere")


def test_damaged_config_is_refused(folder):
    stored = json.loads((folder / "config.json").read_text())
    del stored["backend"]
    (folder / "config.json").write_text(json.dumps(stored))
    with pytest.raises(RunError, match="'backend' is missing"):
        load_run(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(RunError, match="cannot be read"):
        load_run(folder)


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


def test_a_loaded_model_has_the_slots_of_its_training(folder):
    config = tiny_config()
    parameters = eqx.filter(initial_model(config), eqx.is_inexact_array)
    write_selected(folder, tiny_config().run_id, "unseen", parameters, 3, 0.5)
    assert load_run(folder).model.memory_size == config.model.memory_size


def test_parameters_of_another_model_are_refused_with_their_file(folder):
    parameters = eqx.filter(initial_model(tiny_config(approach="reg")), eqx.is_inexact_array)
    write_selected(folder, tiny_config().run_id, "unseen", {"others": parameters}, 3, 0.5)
    with pytest.raises(RunError, match=r"selected\.safetensors .*another model.*is missing"):
        load_run(folder).model  # noqa: B018


def store_selected(folder, config, rule="unseen"):
    parameters = eqx.filter(initial_model(config), eqx.is_inexact_array)
    write_selected(folder, config.run_id, rule, parameters, 3, 0.5)
    return folder / SELECTED[rule]


def refused(folder, sentence):
    """By all that read selected parameters, in one sentence."""
    for read in (lambda: load_run(folder).model, lambda: open_model(str(folder))):
        with pytest.raises(RunError, match=sentence):
            read()


def test_parameters_of_another_run_are_refused(folder):
    write_json(folder / "status.json", STATUS)
    path = store_selected(folder, tiny_config())
    assert open_model(str(folder)).iteration == load_run(folder).selected().iteration == 3
    other = tiny_config(seed=1)
    store_selected(folder, other)
    refused(folder, rf"{path} is of another run: '{other.run_id}', not {tiny_config().run_id}$")
    tensors, about = read_tensors(path)
    del about["run_id"]  # as earlier versions wrote it
    write_tensors(path, tensors, about)
    assert open_model(str(folder)).iteration == load_run(folder).selected().iteration == 3


def test_parameters_of_another_rule_are_refused(folder):
    write_json(folder / "status.json", STATUS)
    path = store_selected(folder, tiny_config(), "score").rename(folder / SELECTED["unseen"])
    refused(folder, rf"{path} has the parameters of another rule: 'score'$")


def store_checkpoint(folder, config, **progress):
    parameters = eqx.filter(initial_model(config), eqx.is_inexact_array)
    made = Progress(parameters, {}, new_selections(4), iteration=40, **progress)
    Checkpoints(folder, config, "pure", 3).save(made)
    return newest_checkpoint(folder)


def test_a_checkpoint_in_place_of_selected_parameters_is_refused(folder):
    write_json(folder / "status.json", STATUS)
    path = folder / SELECTED["unseen"]
    write_tensors(path, *store_checkpoint(folder, tiny_config()))
    refused(folder, rf"{path} cannot be read: running_mean is missing$")


def test_a_checkpoint_of_another_run_vouches_for_nothing(folder):
    write_json(folder / "status.json", STATUS)
    (folder / "metrics.jsonl").write_text("{}")
    store_checkpoint(folder, tiny_config(), skipped_updates=2)
    assert load_run(folder).checked_status().skipped_updates == 2
    store_checkpoint(folder, tiny_config(seed=1), skipped_updates=7)
    for read in (lambda: load_run(folder).checked_status(), lambda: load_run(folder).metrics):
        with pytest.raises(RunError, match=r"another config; different: seed \(0 and 1\)$"):
            read()


def test_status_comes_back(folder):
    write_json(folder / "status.json", STATUS)
    assert asdict(load_run(folder).status) == STATUS


def test_the_status_of_another_run_is_refused(folder):
    path = folder / "status.json"
    for run_id in (tiny_config().run_id, tiny_config(seed=1).run_id):
        write_json(path, {"run_id": run_id, **STATUS})
        if run_id == tiny_config().run_id:
            assert asdict(load_run(folder).status) == STATUS
    with pytest.raises(RunError, match=rf"{path} is of another run: '{run_id}'"):
        _ = load_run(folder).status


DAMAGES = st.sampled_from(
    [None, True, -1, 10**400, math.inf, "x", [], {}, {"a": "b"}, {"a": None}, [[]]]
)


@given(name=st.sampled_from([*STATUS, "stranger"]), value=DAMAGES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_status_that_does_not_fit_is_one_sentence(folder, name, value):
    (folder / "status.json").write_text(json.dumps(STATUS | {name: value}))
    if type(value) is type(STATUS.get(name)) and value in ("x", {}):
        return  # nothing is wrong with it
    said = f"{name} is " if value != math.inf else "Infinity"
    with pytest.raises(RunError, match=f"status.json cannot be read: {said}.*$"):
        _ = load_run(folder).status


@given(place=st.integers(0, 10**6), byte=st.integers(0, 255), cut=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
def test_a_damaged_status_is_one_sentence(folder, place, byte, cut):
    write_json(folder / "status.json", STATUS)
    content = bytearray((folder / "status.json").read_bytes())
    place %= len(content)
    content[place:] = b"" if cut else bytes([byte]) + content[place + 1 :]
    (folder / "status.json").write_bytes(content)
    try:
        _ = load_run(folder).status
    except RunError as error:
        sentence = str(error)
    else:
        return  # a damage that changes no meaning
    assert sentence.startswith(str(folder / "status.json"))
    assert len(sentence.splitlines()) == 1


@pytest.mark.parametrize("name", STATUS)
def test_a_missing_field_of_the_status_is_named(folder, name):
    write_json(folder / "status.json", {key: STATUS[key] for key in STATUS if key != name})
    with pytest.raises(RunError, match=f"{name} is missing"):
        _ = load_run(folder).status
