"""Disks that are small, full or read-only: one sentence, and everything works afterwards."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from constrained_dnc.cli import main
from synthetic import Request, write_study

TRAIN = ["train", "copy", "--preset", "smoke", "--threads", "1", "--run-dir"]


class Disk:
    """A file system of its own in memory, mounted at a path."""

    def __init__(self, path: Path, size: str):
        self.path = path
        path.mkdir()
        mounting = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
        if os.geteuid() or subprocess.run(mounting, capture_output=True, check=False).returncode:
            pytest.skip("mounting a file system is not allowed here")

    def __enter__(self) -> "Disk":
        return self

    def change(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.path)], check=True)

    def __exit__(self, *error: object) -> None:
        subprocess.run(["umount", str(self.path)], check=True)


def refused(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    """The last line, which is a sentence of ours."""
    assert main(list(arguments)) == code
    output, errors = capsys.readouterr()
    assert not output
    sentence = errors.splitlines()[-1]
    assert sentence.startswith("cdnc: ")
    return sentence


def test_a_new_run_on_a_full_disk(tmp_path, capsys):
    for size, file in (("4k", "config.json"), ("32k", "checkpoint-a"), ("128k", "checkpoint-b")):
        with Disk(tmp_path / size, size) as disk:
            sentence = refused(capsys, 1, *TRAIN, str(disk.path / "run"))
            assert file in sentence
            assert sentence.endswith("cannot be written: No space left on device")
            disk.change("size=10m")
            assert main([*TRAIN, str(disk.path / "run")]) == 0
            assert "finished after iteration 60" in capsys.readouterr().out


def test_a_disk_that_is_read_only(tmp_path, capsys):
    with Disk(tmp_path / "disk", "30m") as disk:
        place = disk.path
        assert main([*TRAIN, f"{place}/run"]) == 0
        write_study(place / "study", Request(("sort",), ("reg",), trials=1, analysis=False))
        disk.change("ro")
        capsys.readouterr()
        for code, words in (
            (1, [*TRAIN, f"{place}/run", "--training.iterations", "80"]),
            (2, [*TRAIN, f"{place}/new"]),
            (1, ["explore", f"{place}/run", "1 2", "--html", f"{place}/page.html"]),
            (1, ["report", f"{place}/study"]),
            (2, ["study", "--preset", "smoke", "--study", f"{place}/new"]),
        ):
            assert "Read-only file system" in refused(capsys, code, *words)
        assert main(["evaluate", f"{place}/run", "--lengths", "2"]) == 1
        printed, errors = capsys.readouterr()
        assert "whole answers" in printed  # what was computed is not lost
        assert "Read-only file system" in errors.splitlines()[-1]
        assert main(["predict", f"{place}/run", "1 2"]) == 0
        assert main(["results", f"{place}/study"]) == 0
        disk.change("rw")
        assert main([*TRAIN, f"{place}/run", "--training.iterations", "80"]) == 0
        assert "finished after iteration 80" in capsys.readouterr().out
        shutil.rmtree(place / "study")
