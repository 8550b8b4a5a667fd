"""A trained model is never overwritten, and a run resumes with its own settings only."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from constrained_dnc.cli import main
from constrained_dnc.config import EvaluationConfig
from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.model.backend import PureBackend
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.loop import resume, train
from constrained_dnc.training.run import load_run
from tiny_runs import contents, fingerprint, newest_checkpoint, tiny_config
from watched_runs import CONFIG, PowerCut, Watcher, cut_power


@pytest.fixture
def without_checkpoints(finished, tmp_path):
    """A finished run whose checkpoints were deleted to save space."""
    folder = shutil.copytree(finished[0].folder, tmp_path / "run")
    for path in folder.glob("checkpoint-*"):
        path.unlink()
    return folder


def test_a_finished_run_needs_no_checkpoint_to_stay_finished(without_checkpoints):
    before, watcher = contents(without_checkpoints), Watcher()
    assert train(CONFIG, without_checkpoints, observer=watcher).status.state == "finished"
    assert watcher.sentences == [f"nothing to do: {without_checkpoints} has ended"]
    assert contents(without_checkpoints) == before


@pytest.mark.parametrize("deleted", ["none", "selected*"])
def test_a_trained_model_without_a_checkpoint_is_not_overwritten(without_checkpoints, deleted):
    for path in without_checkpoints.glob(deleted):
        path.unlink()
    before = contents(without_checkpoints)
    config = replace(CONFIG, training=replace(CONFIG.training, iterations=60))
    with pytest.raises(RunError, match=r"no checkpoint to resume from.*--restart.*run\.old-1"):
        train(config, without_checkpoints, threads=1)
    assert contents(without_checkpoints) == before


def test_restart_moves_the_old_run_aside(finished, without_checkpoints):
    before = contents(without_checkpoints)
    for number in (1, 2):
        watcher = Watcher()
        train(CONFIG, without_checkpoints, threads=1, observer=watcher, restart=True)
        assert fingerprint(without_checkpoints) == fingerprint(finished[0].folder)
        aside = without_checkpoints.with_name(f"run.old-{number}")
        assert any(str(aside) in sentence for sentence in watcher.sentences)
    assert contents(without_checkpoints.with_name("run.old-1")) == before


def test_a_training_writes_only_into_the_folder_it_locked(finished, tmp_path):
    """`mv run run-old` while it trains, then another training in `run`."""
    folder, moved, written = tmp_path / "run", tmp_path / "run-old", {}

    def move():
        folder.rename(moved)
        train(replace(CONFIG, seed=1), folder, threads=1)
        written.update(contents(folder))

    with pytest.raises(RunError, match="run was moved, deleted or replaced during training"):
        train(CONFIG, folder, threads=1, observer=Watcher(15, move))
    assert contents(folder) == written
    train(CONFIG, moved)
    assert fingerprint(moved) == fingerprint(finished[0].folder)


def test_evaluation_logging_and_checkpoints_may_change_on_resume(finished, tmp_path):
    with pytest.raises(PowerCut):
        train(CONFIG, tmp_path, threads=1, observer=Watcher(25, cut_power))
    training = replace(CONFIG.training, log_every=3, entropy_every=6, checkpoint_every=4)
    other = replace(CONFIG, training=training, evaluation=EvaluationConfig("2..3", batches=1))
    run = train(other, tmp_path)
    assert run.config == other
    tensors, expected = (newest_checkpoint(each)[0] for each in (tmp_path, finished[0].folder))
    assert tensors.keys() == expected.keys()
    assert all(np.array_equal(tensors[name], expected[name]) for name in expected)


@pytest.mark.parametrize(
    ("changes", "settings", "said"),
    [
        ({"seed": 3}, {}, "another config: seed is 0, not 3$"),
        (
            {"training": replace(CONFIG.training, iterations=39)},
            {},
            "training.iterations is 40, not 39$",
        ),
        (
            {"training": replace(CONFIG.training, iterations=41, learning_rate=0.5)},
            {},
            "another config: training.learning_rate is 0.001, not 0.5$",
        ),
        ({}, {"backend": "pure"}, "began with the backend fused"),
        ({}, {"threads": 2}, "began with 1 threads"),
    ],
)
def test_what_changes_parameters_may_not_change_on_resume(finished, changes, settings, said):
    run, _ = finished
    before = fingerprint(run.folder)
    with pytest.raises(SettingError, match=said):
        train(replace(CONFIG, **changes), run.folder, **settings)
    assert fingerprint(run.folder) == before


class Scaled(PureBackend):
    """A user's backend with a loss of half the size."""

    def value_and_grad(self, model, batch, key=None):
        import jax

        loss, parts, gradient = super().value_and_grad(model, batch, key)
        return loss / 2, parts, jax.tree.map(lambda leaf: leaf / 2, gradient)


def test_a_run_with_a_user_defined_backend_resumes_only_with_it(finished, tmp_path):
    config = tiny_config(max_length=1, iterations=4, entropy_every=100)
    longer = replace(config, training=replace(config.training, iterations=6))
    backend = Scaled(get_task("copy").loss)
    train(config, tmp_path / "run", backend=backend, threads=1)
    stored = json.loads((tmp_path / "run" / "config.json").read_text())
    assert stored["backend"] == f"{__name__}.Scaled"
    for other in ("auto", "pure"):
        with pytest.raises(SettingError, match=r"began with the backend .*\.Scaled"):
            train(longer, tmp_path / "run", backend=other)
    with pytest.raises(SettingError, match="began with the backend fused"):
        train(CONFIG, finished[0].folder, backend=backend)
    assert train(longer, tmp_path / "run", backend=backend).status.iteration == 6


def test_resume_needs_the_folder_only(finished, tmp_path):
    for name in ("python", "command"):
        with pytest.raises(PowerCut):
            train(CONFIG, tmp_path / name, threads=1, observer=Watcher(25, cut_power))
    resume(tmp_path / "python")
    assert main(["train", "--run-dir", str(tmp_path / "command")]) == 0
    for name in ("python", "command"):
        assert fingerprint(tmp_path / name) == fingerprint(finished[0].folder)


def test_the_command_refuses_and_restarts(without_checkpoints, tmp_path, capsys):
    command = ["train", "--run-dir", str(without_checkpoints)]
    assert main(command) == 0
    assert "nothing to do" in capsys.readouterr().err
    command += ["--training.iterations", "44"]
    assert main(command) == 1
    assert "no checkpoint to resume from" in capsys.readouterr().err
    assert main([*command, "--restart"]) == 0
    assert load_run(without_checkpoints).status.iteration == 44
    assert load_run(tmp_path / "run.old-1").status.iteration == 40


def test_metrics_deleted_during_training_cost_a_warning(finished, tmp_path):
    watcher = Watcher(15, (tmp_path / "run" / "metrics.jsonl").unlink)
    train(CONFIG, tmp_path / "run", threads=1, observer=watcher)
    assert ["was deleted or replaced" in warning for warning in watcher.warnings] == [True]
    assert fingerprint(tmp_path / "run") == fingerprint(finished[0].folder)
