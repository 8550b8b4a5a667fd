"""One run from start to end, as a worker does it."""

import ctypes
import fcntl
import mmap
import os
import signal
import subprocess
import sys
import time

import dask
import distributed  # noqa: F401 (brings its settings)
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from constrained_dnc.config import with_min_iterations
from constrained_dnc.evaluation.lengths import evaluated
from constrained_dnc.files import is_locked, locked
from constrained_dnc.storage import write_table
from constrained_dnc.study import read_study
from constrained_dnc.study.disk import SCHEMA, results_name
from constrained_dnc.sweep.plan import Plan, make_request, open_study
from constrained_dnc.sweep.trial import run_trial
from constrained_dnc.training.disk import evaluation_file
from constrained_dnc.training.loop import train
from constrained_dnc.training.observer import Observer
from constrained_dnc.training.run import load_run
from constrained_dnc.training.stopping import Stop
from tiny_runs import fingerprint, tiny_config

BAD_TASKS = """
from dataclasses import replace

from constrained_dnc.tasks.copy import Copy


class Trouble(Exception):
    def __init__(self, one, two):  # cannot be copied to another process
        super().__init__(one)


class Raises(Copy):
    name = "raises"

    def encode(self, problems):
        raise Trouble("no data today\\nnor tomorrow", 2)


class Nan(Copy):
    name = "nan"

    def encode(self, problems):
        batch = super().encode(problems)
        return replace(batch, targets=batch.targets * float("nan"))
"""


COUNT_PAGE_FAULTS = """
import resource, sys
import numpy as np
from constrained_dnc.sweep.trial import keep_freed_memory

if sys.argv[1] == "keep":
    keep_freed_memory()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

np.ones(125_000)
before = faults()
for _ in range(100):
    np.ones(125_000)
print(faults() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="a setting of glibc")
def test_freed_memory_is_kept_whatever_dask_says():
    environment = os.environ | dask.config.get("distributed.nanny.pre-spawn-environ")
    environment = {name: str(value) for name, value in environment.items()}

    def count(word: str) -> int:
        command = [sys.executable, "-c", COUNT_PAGE_FAULTS, word]
        return int(subprocess.check_output(command, env=environment, text=True))

    pages = 100 * 125_000 * 8 / mmap.PAGESIZE
    assert count("leave") > 0.9 * pages
    assert count("keep") < 0.1 * pages


class PowerCut(BaseException):
    """Ends a training at once."""


class Interruption(Observer):
    """Cuts the power at an iteration."""

    def __init__(self, at: int):
        self.at = at

    def progress(self, snapshot):
        if snapshot.iteration == self.at:
            raise PowerCut


@pytest.fixture
def plan(tmp_path) -> Plan:
    open_study(tmp_path, make_request("smoke"))
    return Plan(tmp_path, (tiny_config(iterations=20, checkpoint_every=5),))


@pytest.fixture
def bad_tasks(tmp_path):
    path = tmp_path / "bad_tasks.py"
    path.write_text(BAD_TASKS)
    return path


def rows_of(plan: Plan) -> list[dict]:
    path = (
        plan.folder
        / "results"
        / f"{results_name(plan.configs[0].run_id, plan.configs[0].training.iterations)}.parquet"
    )
    return pq.read_table(path).to_pylist()


def test_a_trial_leaves_results_and_analysis_and_is_not_done_twice(plan):
    (config,) = plan.configs
    assert run_trial(str(plan.folder), config.to_json()).state == "finished"
    assert plan.is_done(config)
    found = [(row["selection"], row["memory_size"], row["length"]) for row in rows_of(plan)]
    plain = [(rule, 4, length) for rule in ("unseen", "seen", "score") for length in (1, 2, 3, 4)]
    extended = [(rule, 40, length) for rule in ("unseen", "score") for length in (2, 5)]
    growing = [(rule, 4, length) for rule in ("unseen", "score") for length in (2, 5)]
    assert sorted(found) == sorted([*plain, *extended, *growing])
    assert {(row["memory_size"], row["memory"]) for row in rows_of(plan)} == {
        (4, "trained"),
        (4, "growing"),
        (40, "extended"),
    }
    arrays = read_study(plan.folder).analysis(config.run_id, "states", "write_mode_encoding")
    assert arrays["states"].shape[1] == 4

    files = {path: path.stat().st_mtime_ns for path in plan.folder.rglob("*") if path.is_file()}
    assert run_trial(str(plan.folder), config.to_json()).state == "finished"
    lock = plan.lock(config)
    again = {path: path.stat().st_mtime_ns for path in files}
    assert {**again, lock: 0} == {**files, lock: 0}


def test_a_begun_run_resumes_to_the_same_results(plan, tmp_path, monkeypatch):
    (config,) = plan.configs
    other = Plan(tmp_path / "other", plan.configs)
    open_study(other.folder, make_request("smoke"))
    with monkeypatch.context() as patch:  # stops when the first checkpoint is there
        folder = other.folder / "runs" / config.run_id
        patch.setattr(
            Stop,
            "signal",
            property(
                lambda self: (
                    signal.SIGTERM if (folder / "checkpoint-a.safetensors").exists() else None
                )
            ),
        )
        patch.setattr(Stop, "raise_signal", lambda self: None)
        assert train(config, folder, threads=1).status.state == "stopped"
    for study in (plan, other):
        run_trial(str(study.folder), config.to_json())
    assert rows_of(plan) == rows_of(other)
    ours, theirs = (
        dict(np.load(study.folder / "analysis" / f"{config.run_id}.npz")) for study in (plan, other)
    )
    np.testing.assert_equal(ours, theirs)


def test_a_study_that_grows_ends_with_the_bits_of_a_longer_one(plan, tmp_path):
    (config,) = plan.configs
    longer = Plan(plan.folder, (with_min_iterations(config, 40),))
    straight = Plan(tmp_path / "straight", longer.configs)
    open_study(straight.folder, make_request("smoke"))
    for study in (plan, longer, straight):
        assert run_trial(str(study.folder), study.configs[0].to_json()).state == "finished"
    name = f"runs/{config.run_id}"
    assert fingerprint(plan.folder / name) == fingerprint(straight.folder / name)
    assert rows_of(longer) == rows_of(straight)
    assert {row["iterations"] for row in rows_of(plan)} == {20}
    grown = read_study(plan.folder)
    assert set(grown.history["iterations"]) == {20, 40}
    assert {run.iterations for run in grown.runs.values()} == {40}
    for iterations, rows in ((20, rows_of(plan)), (40, rows_of(longer))):
        curves = grown.curves("trained", "unseen", iterations)["copy", "compr"]
        wanted = [row["score"] for row in rows if row["memory"] == "trained"]
        np.testing.assert_array_equal(curves.scores[0], wanted[:4])
    # asked for less again, nothing happens
    assert plan.is_done(config)


def test_a_run_that_an_earlier_request_began_longer_ends_longer(plan):
    (config,) = plan.configs
    longer = with_min_iterations(config, 30)
    with pytest.raises(PowerCut):
        train(
            longer,
            plan.folder / "runs" / config.run_id,
            threads=1,
            observer=Interruption(25),
        )
    assert run_trial(str(plan.folder), config.to_json()).state == "finished"
    assert plan.is_done(config)
    assert plan.is_done(longer)


def test_an_evaluation_is_not_repeated_but_made_again_when_it_does_not_fit(plan, monkeypatch):
    (config,) = plan.configs
    run_trial(str(plan.folder), config.to_json())
    run = load_run(plan.folder / "runs" / config.run_id)
    path = evaluation_file(run.folder, "unseen", 4)
    whole, stamp = path.read_bytes(), path.stat().st_mtime_ns
    table = evaluated(run, 4, "unseen", threads=1)
    assert path.stat().st_mtime_ns == stamp
    for damage in (whole[:-20], b"", whole.replace(b"PAR1", b"RAP1")):
        path.write_bytes(damage)
        assert evaluated(run, 4, "unseen", threads=1).equals(table)
        assert path.read_bytes() == whole
    pq.write_table(table.slice(1), path)  # a length is missing
    assert evaluated(run, 4, "unseen", threads=1).equals(table)
    others = {"run_id": "x", "selection": "seen", "memory": "growing", "memory_size": 5}
    for name, value in others.items():
        rows = [row | {name: value} for row in table.to_pylist()]
        write_table(path, pa.Table.from_pylist(rows, SCHEMA))
        assert evaluated(run, 4, "unseen", threads=1).equals(table)


def test_an_error_comes_back_as_text(plan, bad_tasks):
    config = tiny_config(task=f"{bad_tasks}:Raises")
    outcome = run_trial(str(plan.folder), config.to_json())
    assert outcome.state == "failed"
    assert outcome.reason == "Trouble: no data today"
    assert "bad_tasks.py" in outcome.trace
    assert not plan.is_done(config)
    assert not is_locked(plan.lock(config))


@pytest.mark.parametrize("measure_every", [2, 150])  # of the 100 iterations that it takes
def test_a_diverged_run_is_counted(plan, bad_tasks, measure_every):
    config = tiny_config(
        f"{bad_tasks}:Nan", iterations=200, entropy_every=200, measure_every=measure_every
    )
    assert run_trial(str(plan.folder), config.to_json()).state == "diverged"
    assert plan.is_done(config)
    (run,) = read_study(plan.folder).runs.values()
    assert (run.status, run.iterations, run.skipped_updates) == ("diverged", 100, 100)


def test_a_run_in_other_hands_is_waited_for(tmp_path):
    path = tmp_path / "locks" / "run"
    path.parent.mkdir()
    code = (
        "import fcntl, sys, time; file = open(sys.argv[1], 'a'); "
        "fcntl.flock(file, fcntl.LOCK_EX); print('mine', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        start = time.monotonic()
        killer = subprocess.Popen(["sh", "-c", f"sleep 1; kill -9 {owner.pid}"])
        with locked(path, wait=True):
            waited = time.monotonic() - start
            assert path.read_text().startswith(f"process {os.getpid()} on ")
            with open(path) as other, pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        assert 0.5 < waited < 30
        assert killer.wait() == 0
    assert not is_locked(path)
