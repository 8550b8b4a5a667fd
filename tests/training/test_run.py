"""Opening run directories that are not whole."""

import json

import pytest

from constrained_dnc.errors import BadSetting, RunProblem
from constrained_dnc.training.run import load_run, write_config
from tiny_runs import tiny_config


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
    with pytest.raises(RunProblem, match=r"status\.json"):
        run.status  # noqa: B018
    with pytest.raises(RunProblem, match="no selected parameters yet"):
        run.model  # noqa: B018
    with pytest.raises(BadSetting, match="a run directory"):
        load_run(folder / "nowhere")


def test_damaged_config_is_refused(folder):
    stored = json.loads((folder / "config.json").read_text())
    del stored["backend"]
    (folder / "config.json").write_text(json.dumps(stored))
    with pytest.raises(RunProblem, match="'backend' is missing"):
        load_run(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(RunProblem, match="cannot be read"):
        load_run(folder)
