"""metrics.jsonl and the entropy of weights."""

import json
import os
from hashlib import sha256

import numpy as np
import pytest
import scipy.stats

from constrained_dnc.errors import RunError
from constrained_dnc.training.metrics import MetricsFile, mean_entropy, parse_lines


def test_lines_after_the_checkpoint_are_cut_off(tmp_path):
    path = tmp_path / "m"
    with MetricsFile(path, 0, None, pytest.fail) as file:
        file.append({"iteration": 1, "loss": 0.5})
        covered = file.sync()
        file.append({"iteration": 2, "loss": float("nan")})
    assert [json.loads(line) for line in path.read_text().splitlines()][1]["loss"] is None
    with open(path, "ab") as torn:
        torn.write(b'{"iterat')
    with MetricsFile(path, *covered, pytest.fail) as file:
        file.append({"iteration": 2, "loss": 0.25})
        assert file.sync() == (path.stat().st_size, sha256(path.read_bytes()).hexdigest())
    assert path.read_text() == '{"iteration": 1, "loss": 0.5}\n{"iteration": 2, "loss": 0.25}\n'


def test_lost_lines_are_told_and_the_rest_is_kept(tmp_path):
    path, told = tmp_path / "m", []
    path.write_text('{"iteration": 1}\n{"iter')
    with MetricsFile(path, 34, None, told.append) as file:
        file.append({"iteration": 3})
    assert told == [f"{path} has lost 17 of 34 bytes; the rest is kept"]
    assert path.read_text() == '{"iteration": 1}\n{"iteration": 3}\n'


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\xff\xfe",
        b'{"iteration": 2',
        b'{"itexation": 2}',
        b'{"iteration": "2"}',
        b'{"iteration": true}',
        b'{"iteration": 2, "loss": []}',
        b"[2]",
        b"2",
        b"[" * 100_000,
        b'{"iteration": ' + b"9" * 5000 + b"}",
    ],
)
def test_a_damaged_line_is_told_and_the_rest_is_kept(tmp_path, damaged):
    path, told = tmp_path / "m", []
    content = b'{"iteration": 1}\n' + damaged + b'\n{"iteration": 3}\n'
    path.write_bytes(content)
    with MetricsFile(path, len(content), "any", told.append):
        pass
    assert told == [f"{path} is damaged in line 2; the rest is kept"]
    assert path.read_bytes() == content
    assert parse_lines(content) == ([{"iteration": 1}, {"iteration": 3}], [2])


def test_a_changed_value_is_told(tmp_path):
    path, told = tmp_path / "m", []
    with MetricsFile(path, 0, None, pytest.fail) as file:
        file.append({"iteration": 1, "loss": 0.5})
        covered = file.sync()
    path.write_text(path.read_text().replace("0.5", "0.4"))
    with MetricsFile(path, *covered, told.append):
        pass
    assert told == [f"{path} is damaged: its checksum does not match, some value was changed"]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_only_a_file_of_its_own_is_written_to(tmp_path, kind):
    path, other = tmp_path / "m", tmp_path / "other"
    other.write_text("precious")
    {
        "link": lambda: path.symlink_to(other),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
    }[kind]()
    with pytest.raises(RunError, match=f"{path} cannot be written: "):
        MetricsFile(path, 0, None, pytest.fail)
    assert other.read_text() == "precious"


def test_entropy_is_scipys():
    weights = np.random.default_rng(0).random((5, 3, 7)) * 0.1
    weights[0, 0, :6] = 0
    expected = scipy.stats.entropy(weights, axis=-1).mean()
    assert mean_entropy(weights) == pytest.approx(expected, rel=1e-12)
    assert mean_entropy(np.zeros((2, 3))) == 0
