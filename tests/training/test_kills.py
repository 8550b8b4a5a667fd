"""SIGKILL in an iteration and in the middle of writing a checkpoint."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from constrained_dnc.training.loop import train
from constrained_dnc.training.run import load_run
from tiny_runs import fingerprint
from watched_runs import CONFIG

SCRIPT = """
import os, signal, sys
from constrained_dnc.training.loop import train
from watched_runs import CONFIG, Watcher

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def kill_in_second_write():  # the first is that of the metrics
    calls = iter((lambda: None, kill))
    os.fsync = lambda descriptor: next(calls)()

act = {"iteration": kill, "write": kill_in_second_write}[sys.argv[2]]
train(CONFIG, sys.argv[1], threads=1, observer=Watcher(35, act))
"""


@pytest.mark.parametrize(("moment", "num_unfinished"), [("iteration", 0), ("write", 1)])
def test_a_killed_training_resumes_bit_by_bit(finished, tmp_path, moment, num_unfinished):
    folder = tmp_path / "run"
    environment = os.environ | {
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "JAX_COMPILATION_CACHE_DIR": jax.config.jax_compilation_cache_dir,
    }
    command = [sys.executable, "-c", SCRIPT, str(folder), moment]
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    status = load_run(folder).status
    assert (status.state, status.iteration) == ("interrupted", 30)
    assert len(list(folder.glob(".*.unfinished"))) == num_unfinished
    train(CONFIG, folder)
    assert fingerprint(folder) == fingerprint(finished[0].folder)
    assert not list(folder.glob(".*.unfinished"))
