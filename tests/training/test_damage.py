"""Disks that are full or broken, and files that were damaged or changed."""

import errno
import hashlib
import json
import os
import resource
import shutil
import subprocess
from contextlib import suppress
from io import FileIO
from pathlib import Path

import numpy as np
import pytest

from constrained_dnc.errors import RunError
from constrained_dnc.files import read_tensors
from constrained_dnc.training import metrics
from constrained_dnc.training.loop import train
from constrained_dnc.training.run import load_run
from tiny_runs import fingerprint, newest_checkpoint
from watched_runs import CONFIG, PowerCut, Watcher, cut_power


def full_disk_is_an_error_and_the_run_resumes(folder, fill, free, finished):
    with pytest.raises(RunError, match="cannot be written"):
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
    with pytest.raises(RunError, match=f"config.json was changed after the run began: {said}"):
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
    with pytest.raises(RunError, match=r"threads \(2 and 1\)"):
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
    with pytest.raises(RunError, match=r"of iteration 40, the newest .* of iteration 30"):
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
    with pytest.raises(RunError, match="nothing was changed"):
        train(CONFIG, tmp_path)
    assert contents() == before
