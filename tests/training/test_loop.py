"""Training in one process: files, selection, resume, refusals."""

import math
import os
import shutil
import signal
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from constrained_dnc.config import RULES
from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.training import resuming
from constrained_dnc.training.batches import sample_iteration
from constrained_dnc.training.loop import resume, train
from constrained_dnc.training.parameters import load_model
from constrained_dnc.training.run import load_run
from tiny_runs import fingerprint, newest_checkpoint
from watched_runs import CONFIG, PowerCut, Watcher, cut_power


def test_run_directory_has_what_it_should(finished):
    run, watcher = finished
    names = {path.name for path in run.folder.iterdir()}
    assert names == {
        "config.json",
        "metrics.jsonl",
        "checkpoint-a.safetensors",
        "checkpoint-b.safetensors",
        "selected.safetensors",
        "selected-seen.safetensors",
        "selected-score.safetensors",
        "status.json",
        "lock",
    }
    status = run.status
    assert (status.state, status.iteration, status.iterations) == ("finished", 40, 40)
    assert load_run(run.folder).config == CONFIG
    assert any("backend" in sentence for sentence in watcher.sentences)
    assert [snapshot.iteration for snapshot in watcher.snapshots] == list(range(1, 41))
    assert watcher.lines == run.metrics


def test_same_seed_same_files(finished, tmp_path):
    run, _ = finished
    again = train(CONFIG, tmp_path / "again", threads=1)
    for path in run.folder.iterdir():
        if path.name not in ("status.json", "lock"):
            assert path.read_bytes() == (again.folder / path.name).read_bytes(), path.name


def test_selection_follows_from_the_metrics(finished):
    """Independent code: all running means at once, the first smallest full window."""
    run, _ = finished
    window = CONFIG.training.window
    for rule in ("unseen", "seen"):
        lines = [line for line in run.metrics if f"{rule}_loss" in line]
        assert [line["iteration"] for line in lines] == list(range(2, 41, 2))
        losses = [line[f"{rule}_loss"] for line in lines]
        means = [math.fsum(losses[i - window : i]) / window for i in range(window, len(losses) + 1)]
        best = min(range(len(means)), key=means.__getitem__)
        selected = run.selected(rule)
        assert selected.iteration == lines[best + window - 1]["iteration"]
        assert selected.running_mean == means[best]
        assert run.status.best_iteration[rule] == selected.iteration


def test_selection_by_score_follows_from_the_metrics(finished):
    run, _ = finished
    window = CONFIG.training.window
    lines = [line for line in run.metrics if "unseen_score" in line]
    losses = [line["seen_loss"] for line in lines]
    medians = [np.median(losses[max(0, i + 1 - window) : i + 1]) for i in range(len(losses))]
    calm = [
        line for line, middle in zip(lines, medians, strict=True) if line["seen_loss"] <= 3 * middle
    ]
    scores = [line["unseen_score"] for line in calm]
    means = [np.mean(scores[i - window : i]) for i in range(window, len(scores) + 1)]
    selected = run.selected("score")
    assert selected.iteration == calm[int(np.argmax(means)) + window - 1]["iteration"]
    assert selected.running_mean == pytest.approx(max(means), rel=1e-12)
    assert run.status.running_mean["score"] == selected.running_mean


def test_the_score_is_that_of_the_batch_of_the_loss(finished, tmp_path):
    run, _ = finished
    line = [line for line in run.metrics if "unseen_score" in line][-1]
    assert line["iteration"] == 40
    batch = sample_iteration(run.task, CONFIG, 40).unseen
    tensors, _ = newest_checkpoint(run.folder)
    outputs = load_model(CONFIG, tensors, run.folder).unroll(batch.inputs).outputs
    assert line["unseen_score"] == pytest.approx(run.task.score(batch, outputs).score.mean())


def test_selected_parameters_are_those_of_the_iteration(finished, tmp_path):
    run, _ = finished
    for rule in RULES:
        selected = run.selected(rule)
        training = replace(CONFIG.training, iterations=selected.iteration)
        train(replace(CONFIG, training=training), tmp_path / rule, threads=1)
        tensors, _ = newest_checkpoint(tmp_path / rule)
        np.testing.assert_array_equal(
            tensors["parameters/output_weight"], selected.model.output_weight
        )


def test_metrics_average_the_iterations_since_the_last_line(finished):
    run, watcher = finished
    losses = {s.iteration: s.loss for s in watcher.snapshots}
    lines = [line for line in run.metrics if "loss" in line]
    assert [line["iteration"] for line in lines] == [7, 14, 21, 28, 35]
    for line in lines:
        block = [losses[i] for i in range(line["iteration"] - 6, line["iteration"] + 1)]
        assert line["loss"] == pytest.approx(np.mean(block), rel=1e-12)
        assert line["gradient_norm"] > 0
        assert line["skipped_updates"] == 0
    looks = [line for line in run.metrics if "read_entropy" in line]
    assert [line["iteration"] for line in looks] == [15, 30]
    assert all(0 < line["write_entropy"] <= np.log(4) + 1e-6 for line in looks)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, None)],
)
def test_signals_leave_a_checkpoint_and_the_run_resumes_bit_by_bit(
    finished, tmp_path, number, code
):
    watcher = Watcher(at=13, act=lambda: os.kill(os.getpid(), number))
    handler = signal.getsignal(number)
    if handler is signal.SIG_IGN:
        pytest.skip("these tests run under nohup, which a training run respects")
    with pytest.raises((SystemExit, KeyboardInterrupt)) as raised:
        train(CONFIG, tmp_path / "run", threads=1, observer=watcher)
    assert getattr(raised.value, "code", None) == code
    status = load_run(tmp_path / "run").status
    assert (status.state, status.iteration) == ("stopped", 13)
    assert "Stopped at iteration 13 of 40; run the same command to resume." in watcher.sentences
    assert signal.getsignal(number) is handler
    train(CONFIG, tmp_path / "run")
    assert fingerprint(tmp_path / "run") == fingerprint(finished[0].folder)


@pytest.mark.parametrize("at", [5, 40])
def test_a_power_cut_costs_nothing_but_time(finished, tmp_path, at):
    with pytest.raises(PowerCut):
        train(CONFIG, tmp_path / "run", threads=1, observer=Watcher(at, cut_power))
    with open(tmp_path / "run" / "metrics.jsonl", "ab") as file:
        file.write(b'{"iteration": 1')
    lines = load_run(tmp_path / "run").metrics
    assert lines
    assert lines == finished[0].metrics[: len(lines)]
    train(CONFIG, tmp_path / "run")
    assert fingerprint(tmp_path / "run") == fingerprint(finished[0].folder)


def test_finished_run_is_left_as_it_is(finished):
    run, _ = finished
    before = fingerprint(run.folder)
    watcher = Watcher()
    assert train(CONFIG, run.folder, observer=watcher).status.state == "finished"
    assert watcher.snapshots == []
    assert fingerprint(run.folder) == before


@pytest.mark.parametrize("cut", [False, True])
def test_a_run_may_become_longer_and_is_what_it_would_have_been(finished, tmp_path, cut):
    training, folder = CONFIG.training, tmp_path / "run"
    train(replace(CONFIG, training=replace(training, iterations=12)), folder, threads=1)
    if cut:  # before the first checkpoint of the longer run
        with pytest.raises(PowerCut):
            train(CONFIG, folder, observer=Watcher(13, cut_power))
    watcher = Watcher()
    train(CONFIG, folder, observer=watcher)
    assert cut or "extended from 12 to 40 iterations" in watcher.sentences
    assert [snapshot.iteration for snapshot in watcher.snapshots] == list(range(13, 41))
    assert fingerprint(folder) == fingerprint(finished[0].folder)


def test_a_run_that_ends_while_its_status_is_read_is_not_interrupted(
    finished, tmp_path, monkeypatch
):
    folder = tmp_path / "run"
    shutil.copytree(finished[0].folder, folder)
    text = (folder / "status.json").read_text()
    (folder / "status.json").write_text(text.replace('"finished"', '"training"'))

    def end(path):
        (folder / "status.json").write_text(text)
        return False

    monkeypatch.setattr("constrained_dnc.training.run.is_locked", end)
    assert load_run(folder).status.state == "finished"


def test_a_run_in_training_can_be_read_but_not_trained_or_moved(tmp_path):
    statuses = []

    def meddle():
        run = load_run(tmp_path / "run")
        statuses.append(run.status)
        assert run.selected().iteration <= 20
        for restart in (False, True):
            with pytest.raises(RunError, match="in use by process"):
                train(CONFIG, tmp_path / "run", restart=restart)

    train(CONFIG, tmp_path / "run", threads=1, observer=Watcher(25, meddle))
    assert [(status.state, status.iteration) for status in statuses] == [("training", 20)]
    assert os.listdir(tmp_path) == ["run"]


def test_trains_outside_the_main_thread_too(finished, tmp_path):
    thread = threading.Thread(target=train, args=(CONFIG, tmp_path / "run"), kwargs={"threads": 1})
    thread.start()
    thread.join()
    assert fingerprint(tmp_path / "run") == fingerprint(finished[0].folder)


def test_another_environment_costs_a_warning(finished, monkeypatch):
    stored = resuming.environment()
    stored["versions"]["jax"] = "0.0.1"
    monkeypatch.setattr(resuming, "environment", lambda: stored)
    watcher = Watcher()
    train(CONFIG, finished[0].folder, observer=watcher)
    assert any("jax" in warning and "0.0.1" in warning for warning in watcher.warnings)


def test_folder_with_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(SettingError, match="neither empty nor a run directory"):
        train(CONFIG, tmp_path)
    assert os.listdir(tmp_path) == ["thesis.tex"]


@pytest.mark.parametrize("name", ["metrics.jsonl", "lock", "nonfinite", "tensorboard"])
@pytest.mark.parametrize("is_longer", [False, True])
def test_nothing_is_written_through_a_link(finished, tmp_path, name, is_longer):
    folder, outside = shutil.copytree(finished[0].folder, tmp_path / "run"), tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text('{"iteration": 99}\nprecious')
    if (folder / name).exists():
        (folder / name).unlink()
    is_folder = name in ("nonfinite", "tensorboard")
    (folder / name).symlink_to(outside if is_folder else outside / "precious")
    config = replace(CONFIG, training=replace(CONFIG.training, iterations=40 + 4 * is_longer))
    with pytest.raises(RunError, match=f"{name} is a link, and nothing is written through links"):
        train(config, folder)
    assert (outside / "precious").read_text() == '{"iteration": 99}\nprecious'
    assert os.listdir(outside) == ["precious"]


def test_a_pretrained_model_is_not_trained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingError, match="a folder, not a pretrained model; --from"):
        resume("zoo:copy/compr")
    with pytest.raises(SettingError, match="a folder, not a pretrained model; --from"):
        train(CONFIG, "zoo:copy/compr")
    assert os.listdir(tmp_path) == []


def test_lost_lines_of_the_metrics_are_said(finished, tmp_path):
    folder = shutil.copytree(finished[0].folder, tmp_path / "run")
    path = folder / "metrics.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:5]))
    watcher = Watcher()
    train(CONFIG, folder, observer=watcher)
    last = load_run(folder).metrics[-1]["iteration"]
    assert f"{path} has lost its lines after iteration {last}; the rest is kept" in watcher.warnings


def test_a_model_that_is_too_large_is_one_sentence(tmp_path):
    config = replace(CONFIG, model=replace(CONFIG.model, hidden_size=2**31 - 1))
    with pytest.raises(SettingError, match="model is too large"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_user_code_that_exits_is_an_error_of_the_run(tmp_path):
    with pytest.raises(RunError, match=r"user-defined code ended the process: SystemExit\(0\)"):
        train(CONFIG, tmp_path / "run", threads=1, observer=Watcher(3, lambda: sys.exit(0)))
    assert load_run(tmp_path / "run").status.state == "failed"
