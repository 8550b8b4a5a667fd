"""Training in one process: files, resume, faults, selection."""

import errno
import hashlib
import json
import math
import os
import resource
import shutil
import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import replace
from io import FileIO
from pathlib import Path

import numpy as np
import pytest

from constrained_dnc.approaches import get_approach
from constrained_dnc.errors import BadSetting, RunProblem
from constrained_dnc.files import read_tensors
from constrained_dnc.model.backend import PureBackend, choose_backend
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training import metrics, opening
from constrained_dnc.training.loop import train
from constrained_dnc.training.observer import Observer
from constrained_dnc.training.replay import replay
from constrained_dnc.training.run import initial_model, load_model, load_run
from constrained_dnc.training.streams import draw, training_batch
from constrained_dnc.words import RULES
from tiny_runs import fingerprint, newest_checkpoint, tiny_config

CONFIG = tiny_config()


class Watcher(Observer):
    """Remembers what it is told and acts at an iteration."""

    def __init__(self, at=None, act=None):
        self.at, self.act = at, act
        self.sentences, self.warnings, self.snapshots = [], [], []

    def say(self, sentence):
        self.sentences.append(sentence)

    def warn(self, sentence):
        self.warnings.append(sentence)

    def progress(self, snapshot):
        self.snapshots.append(snapshot)
        if snapshot.iteration == self.at:
            self.act()


class PowerCut(BaseException):
    """Ends a training at once."""


def cut_power():
    raise PowerCut


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """An undisturbed run and what was seen of it."""
    folder, watcher = tmp_path_factory.mktemp("runs") / "finished", Watcher()
    return train(CONFIG, folder, threads=1, observer=watcher), watcher


def faulty_backend(config, is_faulty):
    """The default backend with a NaN in the gradient of some calls, counted from 1."""
    model = initial_model(config)
    backend = choose_backend(
        "auto",
        model,
        get_task(config.task).loss,
        config.approach.regularisation,
        memory_size=config.model.memory_size,
        threads=1,
    )
    calls = iter(range(1, 10**6))
    compute = backend.value_and_grad

    def value_and_grad(model, batch):
        loss, parts, gradient = compute(model, batch)
        if is_faulty(next(calls)):
            bias = np.array(gradient.output_bias)
            bias[0] = np.nan
            gradient = replace_leaf(gradient, bias)
        return loss, parts, gradient

    backend.value_and_grad = value_and_grad
    return backend


def replace_leaf(gradient, bias):
    import equinox as eqx

    return eqx.tree_at(lambda g: g.output_bias, gradient, bias)


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


def test_same_seed_same_files(finished, tmp_path):
    run, _ = finished
    again = train(CONFIG, tmp_path / "again", threads=1)
    for path in run.folder.iterdir():
        if path.name not in ("status.json", "lock"):
            assert path.read_bytes() == (again.folder / path.name).read_bytes(), path.name


def test_another_seed_another_result(finished, tmp_path):
    run, _ = finished
    other = train(replace(CONFIG, seed=1), tmp_path / "other", threads=1)
    assert run.metrics[0]["unseen_loss"] != other.metrics[0]["unseen_loss"]


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
    batch = draw(run.task, CONFIG, 40).unseen
    tensors, _ = newest_checkpoint(run.folder)
    outputs = load_model(CONFIG, tensors, "parameters").unroll(batch.inputs, 4).outputs
    assert line["unseen_score"] == pytest.approx(run.task.score(batch, outputs).score.mean())


def test_selected_parameters_are_those_of_the_iteration(finished, tmp_path):
    run, _ = finished
    for rule in RULES:
        selected = run.selected(rule)
        watcher = Watcher(at=selected.iteration, act=lambda: os.kill(os.getpid(), signal.SIGTERM))
        folder = tmp_path / rule
        with pytest.raises(SystemExit):
            train(CONFIG, folder, threads=1, observer=watcher)
        tensors, about = newest_checkpoint(folder)
        assert about["iteration"] == selected.iteration
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


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, None)])
def test_signals_leave_a_checkpoint_and_the_run_resumes_bit_by_bit(
    finished, tmp_path, number, code
):
    watcher = Watcher(at=13, act=lambda: os.kill(os.getpid(), number))
    handler = signal.getsignal(number)
    with pytest.raises((SystemExit, KeyboardInterrupt)) as raised:
        train(CONFIG, tmp_path / "run", threads=1, observer=watcher)
    assert getattr(raised.value, "code", None) == code
    status = load_run(tmp_path / "run").status
    assert (status.state, status.iteration) == ("stopped", 13)
    assert any(number.name in sentence for sentence in watcher.sentences)
    assert signal.getsignal(number) is handler
    train(CONFIG, tmp_path / "run")
    assert fingerprint(tmp_path / "run") == fingerprint(finished[0].folder)


@pytest.mark.parametrize("at", [5, 20, 40])
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
    assert cut or "longer than before: 12 iterations, now 40" in watcher.sentences
    assert [snapshot.iteration for snapshot in watcher.snapshots] == list(range(13, 41))
    assert fingerprint(folder) == fingerprint(finished[0].folder)


def test_run_without_a_process_is_interrupted(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(PowerCut):
        train(CONFIG, folder, threads=1, observer=Watcher(15, cut_power))
    status = json.loads((folder / "status.json").read_text())
    assert status["state"] == "failed"
    (folder / "status.json").write_text(json.dumps(status | {"state": "training"}))
    assert load_run(folder).status.state == "interrupted"


def test_reading_while_training(tmp_path):
    seen = []

    def look():
        run = load_run(tmp_path / "run")
        seen.append((run.status.state, run.status.iteration, run.selected().iteration))

    train(CONFIG, tmp_path / "run", threads=1, observer=Watcher(25, look))
    assert seen[0][:2] == ("training", 20)
    assert seen[0][2] <= 20


def test_second_process_is_refused_at_once(tmp_path):
    problems = []

    def second():
        with pytest.raises(RunProblem, match="in use by process") as raised:
            train(CONFIG, tmp_path / "run")
        problems.append(raised.value)

    train(CONFIG, tmp_path / "run", threads=1, observer=Watcher(3, second))
    assert len(problems) == 1


def test_trains_outside_the_main_thread_too(finished, tmp_path):
    thread = threading.Thread(target=train, args=(CONFIG, tmp_path / "run"), kwargs={"threads": 1})
    thread.start()
    thread.join()
    assert fingerprint(tmp_path / "run") == fingerprint(finished[0].folder)


@pytest.mark.parametrize(
    ("changes", "settings", "said"),
    [
        ({"seed": 3}, {}, r"seed \(0 and 3\)"),
        (
            {"training": replace(CONFIG.training, iterations=39)},
            {},
            r"training.iterations \(40 and 39\)",
        ),
        (
            {"training": replace(CONFIG.training, iterations=41, learning_rate=0.5)},
            {},
            "different: training.learning_rate",
        ),
        ({"approach": get_approach("reg")}, {}, "approach.name.*approach.regularisation"),
        ({}, {"backend": "pure"}, "backend is 'pure'; accepted: fused"),
        ({}, {"threads": 2}, "threads is 2; accepted: 1"),
    ],
)
def test_another_config_backend_or_thread_count_is_refused(finished, changes, settings, said):
    run, _ = finished
    if run.backend == "pure" and settings.get("backend") == "pure":
        settings, said = {"backend": "fused"}, "backend is 'fused'"
    before = fingerprint(run.folder)
    with pytest.raises(BadSetting, match=said):
        train(replace(CONFIG, **changes), run.folder, **settings)
    assert fingerprint(run.folder) == before


def test_another_environment_costs_a_warning(finished, monkeypatch):
    stored = opening.environment()
    stored["versions"]["jax"] = "0.0.1"
    monkeypatch.setattr(opening, "environment", lambda: stored)
    watcher = Watcher()
    train(CONFIG, finished[0].folder, observer=watcher)
    assert any("jax" in warning and "0.0.1" in warning for warning in watcher.warnings)


def test_folder_with_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(BadSetting, match="empty folder"):
        train(CONFIG, tmp_path)
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_no_threads_are_refused(tmp_path):
    with pytest.raises(BadSetting, match="threads is 0"):
        train(CONFIG, tmp_path / "run", threads=0)


def test_fault_in_a_gradient_is_skipped_and_counted(finished, tmp_path):
    faults = {9, 10, 17}
    backend = faulty_backend(CONFIG, faults.__contains__)
    watcher = Watcher()
    run = train(CONFIG, tmp_path / "run", backend=backend, threads=1, observer=watcher)
    assert run.status.skipped_updates == len(faults)
    assert run.status.state == "finished"
    kept = sorted(path.name for path in (run.folder / "nonfinite").iterdir())
    assert kept == [f"iteration-{i:07d}.safetensors" for i in sorted(faults)]
    tensors, _ = newest_checkpoint(run.folder)
    assert all(np.isfinite(array).all() for array in tensors.values())
    assert int(tensors["optimiser/1.0.count"]) == 40 - len(faults)
    assert len(watcher.warnings) == 3
    assert [line["seen_loss"] for line in run.metrics if line["iteration"] == 10] == [None]
    # the updates before the first fault are those of the undisturbed run
    assert run.metrics[:4] == finished[0].metrics[:4]
    assert run.metrics[-1] != finished[0].metrics[-1]


def test_hundred_faults_in_a_row_are_a_divergence(tmp_path):
    config = tiny_config(iterations=300, checkpoint_every=50)
    run = train(
        config, tmp_path / "run", backend=faulty_backend(config, lambda call: call > 30), threads=1
    )
    status = run.status
    assert (status.state, status.iteration, status.skipped_updates) == ("diverged", 130, 100)
    assert len(list((run.folder / "nonfinite").iterdir())) == 5
    before = fingerprint(run.folder)
    longer = replace(config, training=replace(config.training, iterations=400))
    for asked in (config, longer):
        again = train(asked, run.folder).status
        assert (again.state, again.iterations) == ("diverged", 300)
    assert fingerprint(run.folder) == before


def test_an_update_that_overflows_is_skipped_and_explained(tmp_path):
    config = tiny_config(iterations=12, learning_rate=1e32, clip_norm=1e-30, epsilon=1.2e-38)
    watcher = Watcher()
    run = train(config, tmp_path / "run", threads=1, observer=watcher)
    skipped = run.status.skipped_updates
    assert skipped == 12
    for tensors in (
        newest_checkpoint(run.folder)[0],
        read_tensors(run.folder / "selected.safetensors")[0],
    ):
        assert all(np.isfinite(array).all() for array in tensors.values())
    finite = [warning for warning in watcher.warnings if "the update overflowed" in warning]
    assert finite
    iteration = int(finite[0].split()[1])
    assert "training.learning_rate is 1e+32" in replay(run, iteration).finding


@pytest.mark.parametrize(("faults", "warned"), [(4, False), (5, True)])
def test_skipped_updates_are_told_at_the_end(tmp_path, faults, warned):
    backend = faulty_backend(CONFIG, lambda call: call <= faults)
    for _ in range(2):  # also when there is nothing left to do
        watcher = Watcher()
        run = train(CONFIG, tmp_path / "run", backend=backend, threads=1, observer=watcher)
        assert run.status.reason.endswith(f"{faults} of 40 updates were skipped")
        assert any("more than a tenth" in warning for warning in watcher.warnings) == warned


NAN_TASK = '''
from dataclasses import replace
from io import FileIO
from constrained_dnc.tasks.copy import Copy

class NanCopy(Copy):
    """Copy, with a NaN in the batches whose first and last problem begin with 4."""

    name = "nan-copy"

    def encode(self, problems):
        batch = super().encode(problems)
        if problems[0][0] == problems[-1][0] == 4:
            batch.inputs[0, 0, 0] = float("nan")
        return batch
'''


@pytest.fixture(scope="module")
def nan_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nan")
    (folder / "nan_copy.py").write_text(NAN_TASK)
    config = tiny_config(f"{folder / 'nan_copy.py'}:NanCopy", iterations=80)
    return train(config, folder / "run", threads=1)


def test_nan_in_batches_is_skipped_and_counted(nan_run):
    config, task = nan_run.config, nan_run.task
    faulty = [
        iteration
        for iteration in range(1, 81)
        if np.isnan(training_batch(task, config, iteration).inputs).any()
    ]
    assert faulty
    assert nan_run.status.skipped_updates == len(faulty)
    kept = sorted(int(path.stem[-7:]) for path in (nan_run.folder / "nonfinite").iterdir())
    assert kept == faulty[:5]
    assert nan_run.status.state == "finished"


def test_pure_backend_trains_alike(tmp_path):
    config = tiny_config(
        max_length=1, unseen_length=1, iterations=6, measure_every=1, entropy_every=100
    )
    backend = PureBackend(get_task("copy").loss, None, CONFIG.model.memory_size)
    pure = train(config, tmp_path / "pure", backend=backend, threads=1)
    default = train(config, tmp_path / "default", threads=1)
    assert pure.backend == "pure"
    for ours, theirs in zip(default.metrics, pure.metrics, strict=True):
        assert ours["unseen_loss"] == pytest.approx(theirs["unseen_loss"], rel=1e-4)


def full_disk_is_an_error_and_the_run_resumes(folder, fill, free, finished):
    with pytest.raises(RunProblem, match="cannot be written"):
        train(CONFIG, folder, threads=1, observer=Watcher(15, fill))
    assert newest_checkpoint(folder)[1]["iteration"] >= 10
    free()
    train(CONFIG, folder)
    assert fingerprint(folder) == fingerprint(finished[0].folder)


def test_files_that_may_not_grow(finished, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def free():
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    try:
        full_disk_is_an_error_and_the_run_resumes(
            tmp_path / "run",
            lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1])),
            free,
            finished,
        )
    finally:
        free()


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_disk_with_errors(finished, tmp_path, monkeypatch, call):
    """In the lines of the metrics, or when they are flushed to disk."""
    broken = []

    def fail(*arguments):
        raise OSError(errno.EIO, "Input/output error")

    class Metrics(FileIO):
        def write(self, content):
            return fail() if broken and call == "write" else super().write(content)

    def break_disk():
        broken.append(True)
        if call == "fsync":
            monkeypatch.setattr(os, "fsync", fail)

    def repair():
        broken.clear()
        monkeypatch.undo()

    monkeypatch.setattr(metrics, "open_in_place", lambda path: Metrics(path, "ab+"))
    full_disk_is_an_error_and_the_run_resumes(tmp_path / "run", break_disk, repair, finished)


def test_full_disk(finished, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system is not allowed here")

    def fill():
        with open(disk / "ballast", "wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))

    try:
        full_disk_is_an_error_and_the_run_resumes(
            disk / "run", fill, (disk / "ballast").unlink, finished
        )
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_damaged_checkpoint_costs_a_warning(finished, tmp_path):
    with pytest.raises(PowerCut):
        train(CONFIG, tmp_path / "run", threads=1, observer=Watcher(35, cut_power))
    newest = max((tmp_path / "run").glob("checkpoint-*"), key=lambda path: path.stat().st_mtime_ns)
    content = newest.read_bytes()
    newest.write_bytes(content[:-100])
    watcher = Watcher()
    train(CONFIG, tmp_path / "run", observer=watcher)
    assert any(newest.name in warning for warning in watcher.warnings)
    assert any("after iteration 20" in sentence for sentence in watcher.sentences)
    assert fingerprint(tmp_path / "run") == fingerprint(finished[0].folder)


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"seconds": NaN}', b"[" * 9999, None])
def test_a_damaged_status_is_made_again(finished, tmp_path, damage):
    with pytest.raises(PowerCut):
        train(CONFIG, tmp_path / "run", threads=1, observer=Watcher(15, cut_power))
    status = tmp_path / "run" / "status.json"
    status.unlink() if damage is None else status.write_bytes(damage)
    watcher = Watcher()
    assert train(CONFIG, tmp_path / "run", observer=watcher).status.state == "finished"
    told = [warning for warning in watcher.warnings if "status.json cannot be read" in warning]
    assert len(told) == (damage is not None)
    assert fingerprint(tmp_path / "run") == fingerprint(finished[0].folder)


def test_a_damaged_line_of_the_metrics_is_told_and_the_run_resumes(finished, tmp_path):
    with pytest.raises(PowerCut):
        train(CONFIG, tmp_path / "run", threads=1, observer=Watcher(35, cut_power))
    path = tmp_path / "run" / "metrics.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[2] = b"x" * len(lines[2])
    path.write_bytes(b"\n".join(lines))
    watcher = Watcher()
    run = train(CONFIG, tmp_path / "run", observer=watcher)
    assert f"{path} is damaged in line 3; the rest is kept" in watcher.warnings
    expected = finished[0].metrics
    assert run.metrics == expected[:2] + expected[3:]
    tensors, undisturbed = (newest_checkpoint(f)[0] for f in (run.folder, finished[0].folder))
    assert all(np.array_equal(tensors[name], undisturbed[name]) for name in undisturbed)


def copy_of(finished, tmp_path):
    return Path(shutil.copytree(finished[0].folder, tmp_path / "copy"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda s: s["config"]["model"].update(forget_bias=1.0),
            r"model.forget_bias \(1.0 and 0.0\)",
        ),
        (lambda s: s["config"]["model"].update(memory_size=5), r"model.memory_size \(5 and 4\)"),
        (lambda s: s["config"].update(seed=1), r"seed \(1 and 0\)"),
        (lambda s: s["config"]["evaluation"].update(batches=3), r"evaluation.batches \(3 and 2\)"),
        (lambda s: s.update(threads=2), r"threads \(2 and 1\)"),
        (lambda s: s.update(backend="pure"), r"backend \('pure' and 'fused'\)"),
        (lambda s: s.update(run_id="0" * 16), "its checksum does not match"),
        (lambda s: s["versions"].update(jax="0.0.1"), "its checksum does not match"),
        (lambda s: s["config"]["training"].update(iterations=50), "its checksum does not match"),
    ],
)
def test_a_changed_config_is_refused_with_its_field(finished, tmp_path, change, said):
    path = copy_of(finished, tmp_path) / "config.json"
    stored = json.loads(path.read_text())
    change(stored)
    path.write_text(json.dumps(stored))
    with pytest.raises(RunProblem, match=f"config.json was changed after the run began: {said}"):
        load_run(path.parent)


def test_a_config_without_a_checksum_is_read_and_its_threads_are_checked_on_resume(
    finished, tmp_path
):
    path = copy_of(finished, tmp_path) / "config.json"
    stored = json.loads(path.read_text())
    del stored["checksum"]
    path.write_text(json.dumps(stored))
    assert load_run(path.parent).config == CONFIG
    path.write_text(json.dumps(stored | {"threads": 2}))
    with pytest.raises(RunProblem, match=r"threads \(2 and 1\)"):
        train(CONFIG, path.parent)


def test_damage_to_a_finished_run_is_told(finished, tmp_path):
    folder, watcher = copy_of(finished, tmp_path), Watcher()
    metrics = folder / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace('"iteration": 2,', '"iteration": 3,'))
    train(CONFIG, folder, observer=watcher)
    metrics.unlink()
    train(CONFIG, folder, observer=watcher)
    size = finished[0].folder.joinpath("metrics.jsonl").stat().st_size
    assert watcher.warnings == [
        f"{metrics} is damaged: its checksum does not match, some value was changed",
        f"{metrics} has lost {size} of {size} bytes; the rest is kept",
    ]


def test_counts_come_from_the_checkpoint(finished, tmp_path):
    folder = copy_of(finished, tmp_path)
    status = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps(status | {"skipped_updates": 7}))
    assert load_run(folder).checked_status().skipped_updates == 0
    max(folder.glob("checkpoint-*"), key=lambda path: read_tensors(path)[1]["iteration"]).unlink()
    with pytest.raises(RunProblem, match=r"of iteration 40, the newest .* of iteration 30"):
        load_run(folder).checked_status()
    train(CONFIG, folder)
    assert fingerprint(folder) == fingerprint(finished[0].folder)


def test_two_damaged_checkpoints_are_an_error_and_nothing_changes(tmp_path):
    with pytest.raises(PowerCut):
        train(CONFIG, tmp_path, threads=1, observer=Watcher(35, cut_power))
    for path in tmp_path.glob("checkpoint-*"):
        path.write_bytes(path.read_bytes()[:-100])

    def contents():
        return {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in tmp_path.iterdir()
            if path.name != "lock"
        }

    before = contents()
    with pytest.raises(RunProblem, match="nothing was changed"):
        train(CONFIG, tmp_path)
    assert contents() == before
