"""metrics.jsonl and the entropy of weights."""

import json
from contextlib import closing

import numpy as np
import pytest
import scipy.stats

from constrained_dnc.training.metrics import MetricsFile, mean_entropy


def opened(path, num_bytes, warn=pytest.fail):
    return closing(MetricsFile(path, num_bytes, warn))


def test_lines_after_the_checkpoint_are_cut_off(tmp_path):
    path = tmp_path / "m"
    with opened(path, 0) as file:
        file.append({"iteration": 1, "loss": 0.5})
        covered = file.sync()
        file.append({"iteration": 2, "loss": float("nan")})
    assert [json.loads(line) for line in path.read_text().splitlines()][1]["loss"] is None
    with open(path, "ab") as torn:
        torn.write(b'{"iterat')
    with opened(path, covered) as file:
        file.append({"iteration": 2, "loss": 0.25})
        assert file.sync() == path.stat().st_size
    assert path.read_text() == '{"iteration": 1, "loss": 0.5}\n{"iteration": 2, "loss": 0.25}\n'


def test_lost_lines_cost_a_warning_and_the_rest_is_kept(tmp_path):
    path, warnings = tmp_path / "m", []
    path.write_text('{"iteration": 1}\n{"iter')
    with opened(path, 34, warnings.append) as file:
        file.append({"iteration": 3})
    assert warnings == [f"{path} has lost 17 of 34 bytes; the rest is kept"]
    assert path.read_text() == '{"iteration": 1}\n{"iteration": 3}\n'


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_deleted_or_replaced_is_restored(tmp_path, replaced):
    path, warnings = tmp_path / "m", []
    with opened(path, 0, warnings.append) as file:
        file.append({"iteration": 1})
        path.unlink()
        if replaced:
            path.write_text("edited")
        file.append({"iteration": 2})
        size = file.sync()
        file.append({"iteration": 3})
        assert file.sync() > size
    assert warnings == [f"{path} was deleted or replaced during training and is restored"]
    assert [json.loads(line)["iteration"] for line in path.read_text().splitlines()] == [1, 2, 3]


def test_entropy_is_scipys():
    weights = np.random.default_rng(0).random((5, 3, 7)) * 0.1
    weights[0, 0, :6] = 0
    expected = scipy.stats.entropy(weights, axis=-1).mean()
    assert mean_entropy(weights) == pytest.approx(expected, rel=1e-12)
    assert mean_entropy(np.zeros((2, 3))) == 0
