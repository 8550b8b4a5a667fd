"""metrics.jsonl and the entropy of weights."""

import json

import numpy as np
import pytest
import scipy.stats

from constrained_dnc.errors import RunProblem
from constrained_dnc.training.metrics import MetricsFile, mean_entropy


def test_lines_behind_the_checkpoint_are_cut_off(tmp_path):
    path = tmp_path / "m"
    with MetricsFile(path, 0) as file:
        file.append({"iteration": 1, "loss": 0.5})
        covered = file.sync()
        file.append({"iteration": 2, "loss": float("nan")})
    assert [json.loads(line) for line in path.read_text().splitlines()][1]["loss"] is None
    with open(path, "ab") as torn:
        torn.write(b'{"iterat')
    with MetricsFile(path, covered) as file:
        file.append({"iteration": 2, "loss": 0.25})
        assert file.sync() == path.stat().st_size
    assert path.read_text() == '{"iteration": 1, "loss": 0.5}\n{"iteration": 2, "loss": 0.25}\n'


def test_lost_lines_are_an_error(tmp_path):
    (tmp_path / "m").write_text("{}\n")
    with pytest.raises(RunProblem, match="shorter"):
        MetricsFile(tmp_path / "m", 10)
    assert (tmp_path / "m").read_text() == "{}\n"


def test_entropy_is_scipys():
    weights = np.random.default_rng(0).random((5, 3, 7)) * 0.1
    weights[0, 0, :6] = 0
    expected = scipy.stats.entropy(weights, axis=-1).mean()
    assert mean_entropy(weights) == pytest.approx(expected, rel=1e-12)
    assert mean_entropy(np.zeros((2, 3))) == 0
