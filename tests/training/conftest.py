"""A finished run, trained once."""

import pytest

from constrained_dnc.training.loop import train
from watched_runs import CONFIG, Watcher


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """An undisturbed run and its observer."""
    folder, watcher = tmp_path_factory.mktemp("runs") / "finished", Watcher()
    return train(CONFIG, folder, threads=1, observer=watcher), watcher
