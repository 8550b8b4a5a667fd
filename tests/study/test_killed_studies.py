"""Studies in real processes, some of which are killed: all of it takes minutes."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import distributed
import numpy as np
import pandas as pd
import pytest

from constrained_dnc.files import read_json
from constrained_dnc.study import read_study
from smoke_studies import (
    finish,
    is_alive,
    is_training,
    iterations_done,
    owners,
    results,
    start,
    wait_for,
)
from tiny_runs import REVERSE


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A study that ran without disturbance."""
    study = tmp_path_factory.mktemp("undisturbed") / "study"
    code, output, errors = finish(start(study))
    assert code == 0, output + errors
    return study


@pytest.fixture(scope="module")
def undisturbed(finished):
    return results(finished)


def assert_finishes(study: Path, undisturbed, *options: str) -> str:
    code, output, errors = finish(start(study, *options))
    assert code == 0, output + errors
    np.testing.assert_equal(results(study), undisturbed)
    return errors


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["group", "parent"])
def test_a_killed_study_resumes_to_equal_results(tmp_path, undisturbed, victim):
    """The parent alone leaves its workers behind; they must not be in the way."""
    study, moments = tmp_path / "study", random.Random(victim)
    for _ in range(3):
        process = start(study)
        if moments.random() < 0.5:
            wait_for(lambda: any(study.glob("runs/*/status.json")))
        time.sleep(moments.uniform(0, 15))
        kill = os.killpg if victim == "group" else os.kill
        kill(process.pid, signal.SIGKILL)
        process.communicate()
    left_behind = owners(study)
    assert_finishes(study, undisturbed)
    assert not any(map(is_alive, left_behind | owners(study)))


@pytest.mark.slow
def test_a_study_that_grows_through_kills_ends_as_if_requested_at_once(tmp_path):
    grown, straight, moments = tmp_path / "grown", tmp_path / "straight", random.Random(0)
    process = start(grown)
    wait_for(lambda: any(grown.glob("runs/*/evaluation.parquet")))
    os.killpg(process.pid, signal.SIGKILL)  # one run is finished, the other perhaps not
    process.communicate()
    for _ in range(2):
        before = iterations_done(grown)
        process = start(grown, "--training.iterations", "120")
        wait_for(lambda: iterations_done(grown) > before or process.poll() is not None)  # noqa: B023
        time.sleep(moments.uniform(0, 1))
        with suppress(ProcessLookupError):  # all may have been trained before the last kill
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    for study in (grown, straight):
        code, output, errors = finish(start(study, "--training.iterations", "120"))
        assert code == 0, output + errors
    ours, theirs = read_study(grown), read_study(straight)
    pd.testing.assert_frame_equal(ours.results, theirs.results)
    assert set(ours.history["iterations"]) == {60, 120}
    for run_id in ours.members:
        np.testing.assert_equal(ours.analysis(run_id), theirs.analysis(run_id))


@pytest.mark.slow
def test_a_finished_study_takes_another_grid_of_lengths_without_training(tmp_path, finished):
    study = tmp_path / "study"
    shutil.copytree(finished, study)
    for checkpoint in study.glob("runs/*/checkpoint-*"):  # without them nothing can be trained
        checkpoint.unlink()
    trained = [*study.glob("runs/*/selected*.safetensors"), *study.glob("runs/*/metrics.jsonl")]
    before = {path: path.stat().st_mtime_ns for path in trained}
    code, output, errors = finish(start(study, "--evaluation.lengths", "2..8:2"))
    assert code == 0, output + errors
    assert "2 runs, 0 ended, 2 to go" in errors
    assert {path: path.stat().st_mtime_ns for path in trained} == before
    table = read_study(study).results.query("memory == '8'")
    assert set(table["length"]) == {2, 4, 6, 8}
    assert len(before) == 8


@pytest.mark.slow
def test_a_killed_worker_is_replaced(tmp_path, undisturbed):
    study = tmp_path / "study"
    process = start(study)
    wait_for(lambda: is_training(study))
    victim = min(owners(study))
    os.kill(victim, signal.SIGKILL)
    code, output, errors = finish(process)
    assert code == 0, output + errors
    assert victim not in owners(study)
    assert not read_study(study).failures
    np.testing.assert_equal(results(study), undisturbed)


@pytest.mark.slow
def test_an_executor_by_its_import_path_completes_a_study(tmp_path, undisturbed):
    """A pool of two processes: when one dies it is broken as a whole, and replaced."""
    study, own = tmp_path / "study", tmp_path / "own.py"
    own.write_text(
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from multiprocessing import get_context\n\n\n"
        "def pool(max_workers=2):\n"
        "    return ProcessPoolExecutor(max_workers, get_context('spawn'))\n"
    )
    process = start(study, "--executor", f"{own}:pool")
    wait_for(lambda: is_training(study))
    os.kill(min(owners(study)), signal.SIGKILL)
    code, output, errors = finish(process)
    assert code == 0, output + errors
    assert not read_study(study).failures
    np.testing.assert_equal(results(study), undisturbed)


class Cluster:
    """A scheduler and two workers, started as on a cluster."""

    def __init__(self, folder: Path, has_workers: bool = True):
        folder.mkdir()
        file = folder / "scheduler.json"
        common = ["--scheduler-file", str(file), "--no-dashboard"]
        self.log = (folder / "log").open("w")
        self.scheduler = self.run("scheduler", *common, "--host", "127.0.0.1", "--port", "0")
        wait_for(lambda: file.exists() and file.read_text().endswith("}"))
        self.address = read_json(file)["address"]
        options = ["--nworkers", "2", "--nthreads", "1", "--local-directory", str(folder)]
        self.start_workers = lambda: self.run("worker", *common, *options)
        self.workers = self.start_workers() if has_workers else None

    def run(self, part: str, *options: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "dask", part, *options]
        return subprocess.Popen(
            command, stdout=self.log, stderr=self.log, start_new_session=True, cwd="/"
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for process in filter(None, (self.workers, self.scheduler)):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.log.close()


@pytest.mark.slow
def test_a_killed_scheduler_costs_one_sentence_and_nothing_else(tmp_path, undisturbed):
    study = tmp_path / "study"
    with Cluster(tmp_path / "first") as cluster:
        process = start(study, "--scheduler", cluster.address)
        wait_for(lambda: is_training(study))
        cluster.scheduler.kill()
        code, _, errors = finish(process)
        assert code == 1
        *progress, message = errors.splitlines()  # nothing of Dask's own
        assert message == "cdnc: the scheduler is gone; the same command resumes from here"
        starts = ("study ", "time left ")
        assert [line for line in progress if not line.startswith(starts)] == []
        with Cluster(tmp_path / "second") as another:  # the first one's workers still live
            assert_finishes(study, undisturbed, "--scheduler", another.address)


CONTROLLER = """
import equinox as eqx
import jax.numpy as jnp
from constrained_dnc import AbstractController, ControllerStep


class Gru(AbstractController):
    cell: eqx.nn.GRUCell
    hidden_size: int = eqx.field(static=True)

    def __init__(self, input_size, hidden_size, *, key):
        self.cell = eqx.nn.GRUCell(input_size, hidden_size, key=key)
        self.hidden_size = hidden_size

    def initial_state(self):
        return jnp.zeros(self.hidden_size)

    def __call__(self, inputs, state):
        hidden = self.cell(inputs, state)
        return ControllerStep(hidden=hidden, state=hidden)

    def cell_state(self, state):
        return state
"""


@pytest.mark.slow
def test_user_code_is_sent_to_workers_that_lack_its_files(tmp_path, monkeypatch):
    """The files are deleted before the first worker starts."""
    code, elsewhere, study = (tmp_path / name for name in ("code", "elsewhere", "study"))
    code.mkdir()
    elsewhere.mkdir()
    (code / "t.py").write_text(REVERSE)
    (code / "gru.py").write_text(CONTROLLER)
    monkeypatch.chdir(elsewhere)
    with Cluster(tmp_path / "cluster", has_workers=False) as cluster:
        own = ["--tasks", "../code/t.py:Reverse", "--approaches", "../code/gru.py:Gru"]
        process = start(study, "--scheduler", cluster.address, *own)
        with distributed.Client(cluster.address) as client:

            def is_waiting() -> bool:  # for workers
                return client.run_on_scheduler(lambda dask_scheduler: bool(dask_scheduler.tasks))

            wait_for(lambda: process.poll() is not None or is_waiting())
        for file in code.iterdir():
            file.unlink()
        cluster.workers = cluster.start_workers()
        ended, output, errors = finish(process)
    assert ended == 0, output + errors
    assert "1/1 backwards-Gru-0: finished" in errors
    rows = results(study)["backwards-Gru-0", "scores"]
    assert {(row["task"], row["approach"]) for row in rows} == {("backwards", "Gru")}
    page = (study / "report" / "index.html").read_text(encoding="utf-8")
    assert "backwards" in page
    assert "Gru" in page
