"""Training that starts from another model: recorded, resumable without it, bit by bit."""

import shutil
from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest

from constrained_dnc.cli import main
from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.files import read_json
from constrained_dnc.model.backend import PureBackend
from constrained_dnc.training.batches import training_batch
from constrained_dnc.training.loop import resume, train
from constrained_dnc.training.run import load_run
from tiny_runs import fingerprint, tiny_config
from watched_runs import PowerCut, Watcher, cut_power

TUNING = tiny_config(
    iterations=24,
    max_length=3,
    optimiser="adamw",
    weight_decay=0.1,
    schedule="warmup-cosine,warmup=4",
    log_every=1,
)


@pytest.fixture(scope="module")
def tuned(finished, tmp_path_factory):
    """A run that was fine-tuned without a break."""
    folder = tmp_path_factory.mktemp("tuned") / "run"
    return train(TUNING, folder, threads=1, start=finished[0].model)


def test_the_first_batch_meets_the_parameters_of_the_start(finished, tuned):
    batch = training_batch(tuned.task, tuned.config, 1)
    model = finished[0].model
    loss, _, _ = PureBackend(tuned.task.loss).value_and_grad(model, batch)
    assert tuned.metrics[0]["loss"] == pytest.approx(float(loss), rel=1e-4)
    assert tuned.metrics[0]["learning_rate"] == 0
    assert tuned.metrics[3]["learning_rate"] == pytest.approx(0.75 * 1e-3)


@pytest.mark.parametrize("at", [5, 15])
def test_a_killed_fine_tuning_resumes_without_its_origin(finished, tuned, tmp_path, at):
    """Before and after the first checkpoint."""
    origin = shutil.copytree(finished[0].folder, tmp_path / "origin")
    model = load_run(origin).model
    with pytest.raises(PowerCut):
        train(TUNING, tmp_path / "run", threads=1, start=model, observer=Watcher(at, cut_power))
    shutil.rmtree(origin)
    resume(tmp_path / "run")
    assert fingerprint(tmp_path / "run") == fingerprint(tuned.folder)


def test_the_identity_depends_on_the_parameters_alone(finished, tuned, tmp_path, capsys):
    """Named on the command line, the start is recorded with its origin."""
    folder, run = str(tmp_path / "run"), finished[0]
    arguments = ["train", "--from", str(run.folder), "--threads", "1", "--run-dir", folder]
    arguments += ["--training.iterations=24", "--training.max-length=3", "--training.log-every=1"]
    arguments += ["--training.optimiser=adamw", "--training.weight-decay=0.1"]
    arguments += ["--training.schedule", "warmup-cosine,warmup=4"]
    assert main(arguments) == 0
    config = load_run(folder).config
    assert config.start.run == run.config.run_id
    assert config.start.selection == "score"
    assert replace(config, start=tuned.config.start) == tuned.config
    assert config.run_id == tuned.config.run_id != TUNING.run_id
    for rule in ("unseen", "seen", "score"):
        ours, theirs = (each.selected(rule).model for each in (load_run(folder), tuned))
        assert eqx.tree_equal(ours, theirs)
    assert main(arguments) == 0  # resumes
    assert main(["train", "--run-dir", folder]) == 0
    assert capsys.readouterr().err.count("nothing to do") == 2
    assert main([*arguments, "--selection", "seen"]) == 2
    assert "holds a run with another config: start is" in capsys.readouterr().err


def test_a_pretrained_model_brings_its_approach_and_sizes(tmp_path):
    folder = tmp_path / "run"
    arguments = ["train", "copy", "--from", "zoo:copy/compr+reg", "--preset", "smoke"]
    arguments += ["--training.iterations", "10", "--run-dir", str(folder)]
    assert main(arguments) == 0
    config, origin = load_run(folder).config, load_run("zoo:copy/compr+reg").config
    assert (config.approach, config.model) == (origin.approach, origin.model)
    assert (config.training.batch_size, config.seed) == (8, 0)
    stored = read_json(folder / "config.json")["config"]["start"]
    assert (stored["run"], stored["selection"]) == (origin.run_id, "score")


def test_a_model_that_does_not_fit_is_one_sentence(finished, tmp_path):
    model = finished[0].model
    for config in (tiny_config("add"), tiny_config(approach="stateless-baseline")):
        with pytest.raises(SettingError, match="to start from does not fit the config: param"):
            train(config, tmp_path / "run", start=model)
    assert not (tmp_path / "run").exists()


def test_another_model_or_none_is_refused(finished, tuned, tmp_path):
    other = jax.tree.map(lambda leaf: leaf + 1, finished[0].model, is_leaf=eqx.is_inexact_array)
    with pytest.raises(SettingError, match="start records parameters that are not"):
        train(tuned.config, tmp_path / "run", start=other)
    with pytest.raises(SettingError, match="pass it as start=model"):
        train(tuned.config, tmp_path / "run")
    folder = shutil.copytree(tuned.folder, tmp_path / "copy")
    with pytest.raises(SettingError, match="holds a run with another config: start is"):
        train(TUNING, folder)
    with pytest.raises(SettingError, match="to start over from another model, name it"):
        train(tuned.config, folder, restart=True)
    shutil.copy(folder / "selected.safetensors", folder / "start.safetensors")
    with pytest.raises(RunError, match="other parameters than the run started from"):
        resume(folder)


def test_parameters_move_to_another_constraint_of_equal_shape(finished, tmp_path):
    config = tiny_config(approach="reg", iterations=2)
    run = train(config, tmp_path / "run", threads=1, start=finished[0].model)
    change = run.model.output_weight - finished[0].model.output_weight
    assert 0 < np.abs(change).max() < 0.01
