"""Full and broken disks, corrupt files."""

import errno
import os
import resource
import subprocess
from contextlib import suppress
from io import FileIO

import numpy as np
import pytest

from constrained_dnc.errors import RunError
from constrained_dnc.training import metrics
from constrained_dnc.training.loop import train
from tiny_runs import contents, fingerprint, newest_checkpoint
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

    monkeypatch.setattr(
        metrics, "open", lambda path, mode, buffering: Metrics(path, mode), raising=False
    )
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


def test_a_corrupt_checkpoint_costs_a_warning(finished, tmp_path):
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


@pytest.mark.parametrize("damage", [b"{}", None])
def test_a_corrupt_status_is_rewritten(finished, tmp_path, damage):
    with pytest.raises(PowerCut):
        train(CONFIG, tmp_path / "run", threads=1, observer=Watcher(15, cut_power))
    status = tmp_path / "run" / "status.json"
    status.unlink() if damage is None else status.write_bytes(damage)
    assert train(CONFIG, tmp_path / "run").status.state == "finished"
    assert fingerprint(tmp_path / "run") == fingerprint(finished[0].folder)


def test_a_corrupt_line_of_the_metrics_costs_a_warning_and_the_run_resumes(
    finished, tmp_path, caplog
):
    with pytest.raises(PowerCut):
        train(CONFIG, tmp_path / "run", threads=1, observer=Watcher(35, cut_power))
    path = tmp_path / "run" / "metrics.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[2] = b"x" * len(lines[2])
    path.write_bytes(b"\n".join(lines))
    run = train(CONFIG, tmp_path / "run")
    expected = finished[0].metrics
    assert run.metrics == expected[:2] + expected[3:]
    assert f"{path}: line 3 is corrupt and skipped" in caplog.messages
    tensors, undisturbed = (newest_checkpoint(f)[0] for f in (run.folder, finished[0].folder))
    assert all(np.array_equal(tensors[name], undisturbed[name]) for name in undisturbed)


def test_two_corrupt_checkpoints_are_an_error_and_nothing_changes(tmp_path):
    with pytest.raises(PowerCut):
        train(CONFIG, tmp_path, threads=1, observer=Watcher(35, cut_power))
    for path in tmp_path.glob("checkpoint-*"):
        path.write_bytes(path.read_bytes()[:-100])
    before = contents(tmp_path)
    with pytest.raises(RunError, match="nothing was changed"):
        train(CONFIG, tmp_path)
    assert contents(tmp_path) == before
