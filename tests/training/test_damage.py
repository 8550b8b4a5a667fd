"""Full and broken disks, corrupt files."""

import errno
import os
import resource
import shutil
import subprocess
from contextlib import suppress
from io import FileIO

import numpy as np
import pytest

from constrained_dnc.errors import RunError
from constrained_dnc.training import metrics
from constrained_dnc.training.loop import train
from constrained_dnc.training.run import load_run
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


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A run that was killed in iteration 35, after the checkpoints of 20 (b) and 30 (a)."""
    folder = tmp_path_factory.mktemp("killed") / "run"
    with pytest.raises(PowerCut):
        train(CONFIG, folder, threads=1, observer=Watcher(35, cut_power))
    return folder


DAMAGES = {
    "deleted": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b""),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "of another kind": lambda path: path.write_bytes(b"{}"),
    "flipped": lambda path: flip(path, path.stat().st_size // 2),
}


def flip(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    "name", ["checkpoint-a.safetensors", "checkpoint-b.safetensors", "status.json", "selected.*"]
)
def test_a_run_with_a_damaged_file_resumes_to_the_same_bits(
    finished, killed, tmp_path, name, damage
):
    folder, watcher = shutil.copytree(killed, tmp_path / "run"), Watcher()
    (path,) = folder.glob(name)
    DAMAGES[damage](path)
    train(CONFIG, folder, observer=watcher)
    assert fingerprint(folder) == fingerprint(finished[0].folder)
    is_noticed = name.startswith("checkpoint") and damage != "deleted"
    assert [name in warning for warning in watcher.warnings] == [True] * is_noticed
    resumed = 20 if name == "checkpoint-a.safetensors" else 30
    assert any(f"after iteration {resumed}" in sentence for sentence in watcher.sentences)


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name != "deleted"])
@pytest.mark.parametrize("name", ["checkpoint-?.safetensors", "config.json"])
def test_a_run_that_cannot_resume_is_one_sentence_and_nothing_changes(
    killed, tmp_path, name, damage
):
    folder = shutil.copytree(killed, tmp_path / "run")
    for path in folder.glob(name):
        if name == "config.json" and damage == "flipped":  # in a setting, not in a version
            flip(path, path.read_bytes().index(b'"iterations": 40') + 14)
        else:
            DAMAGES[damage](path)
    before = contents(folder)
    with pytest.raises(RunError, match=r"nothing was changed|config\.json") as raised:
        train(CONFIG, folder)
    assert len(str(raised.value).splitlines()) == 1
    assert contents(folder) == before


def test_a_damaged_line_of_the_metrics_costs_a_warning_and_the_run_resumes(
    finished, killed, tmp_path, caplog
):
    folder = shutil.copytree(killed, tmp_path / "run")
    path = folder / "metrics.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[2] = b"x" * len(lines[2])
    path.write_bytes(b"\n".join(lines))
    run = train(CONFIG, folder)
    expected = finished[0].metrics
    assert run.metrics == expected[:2] + expected[3:]
    assert f"{path}: line 3 is corrupt and skipped" in caplog.messages
    tensors, undisturbed = (newest_checkpoint(f)[0] for f in (folder, finished[0].folder))
    assert all(np.array_equal(tensors[name], undisturbed[name]) for name in undisturbed)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_status_is_one_sentence_to_its_reader(finished, tmp_path, damage):
    path = shutil.copytree(finished[0].folder, tmp_path / "run") / "status.json"
    if damage == "flipped":
        flip(path, path.read_bytes().index(b'"iteration"') + 3)
    else:
        DAMAGES[damage](path)
    with pytest.raises(RunError, match=f"^{path} cannot be read: .*$"):
        load_run(path.parent).status  # noqa: B018
