"""metrics.jsonl and the entropy of weights."""

import json
import os
from contextlib import closing

import numpy as np
import pytest
import scipy.stats

from constrained_dnc.training.metrics import MetricsFile, mean_entropy


def opened(path, iteration, warn=pytest.fail):
    return closing(MetricsFile(path, iteration, warn))


def iterations(path):
    return [json.loads(line)["iteration"] for line in path.read_text().splitlines()]


def test_lines_beyond_the_checkpoint_are_dropped(tmp_path):
    path = tmp_path / "m"
    with opened(path, 0) as file:
        for iteration in (1, 2, 3):
            file.append({"iteration": iteration, "loss": float("nan")})
        file.sync()
    with open(path, "ab") as torn:
        torn.write(b'{"iterat')
    with opened(path, 2) as file:
        assert file.last_iteration == 2
        file.append({"iteration": 3})
    assert iterations(path) == [1, 2, 3]
    assert json.loads(path.read_text().splitlines()[0])["loss"] is None


@pytest.mark.parametrize("meddle", ["delete", "replace", "cut"])
def test_a_file_that_another_program_changes_is_noticed(tmp_path, meddle):
    """What was deleted or replaced is restored; what was cut is lost."""
    path, warnings = tmp_path / "m", []
    with opened(path, 0, warnings.append) as file:
        file.append({"iteration": 1})
        file.sync()
        if meddle == "cut":
            os.truncate(path, 0)
        else:
            path.unlink()
        if meddle == "replace":
            path.write_text("edited")
        for iteration in (2, 3):
            file.append({"iteration": iteration})
            file.sync()
    (warning,) = warnings
    assert ("restored" in warning) == (meddle != "cut")
    assert iterations(path) == ([2, 3] if meddle == "cut" else [1, 2, 3])


def test_a_hard_link_of_a_copied_run_leaves_the_original_alone(tmp_path):
    path = tmp_path / "m"
    path.write_text('{"iteration": 1}\n')
    os.link(path, tmp_path / "copy")
    with opened(tmp_path / "copy", 1) as file:
        file.append({"iteration": 2})
    assert (iterations(path), iterations(tmp_path / "copy")) == ([1], [1, 2])


def test_entropy_is_scipys():
    weights = np.random.default_rng(0).random((5, 3, 7)) * 0.1
    weights[0, 0, :6] = 0
    expected = scipy.stats.entropy(weights, axis=-1).mean()
    assert mean_entropy(weights) == pytest.approx(expected, rel=1e-12)
    assert mean_entropy(np.zeros((2, 3))) == 0
