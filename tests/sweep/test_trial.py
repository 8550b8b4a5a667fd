"""One run from start to end, as a worker does it."""

import ctypes
import mmap
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace

import dask
import distributed  # noqa: F401 (brings its settings)
import numpy as np
import pandas as pd
import pytest

from constrained_dnc.config import RULES, with_min_iterations
from constrained_dnc.errors import RunError
from constrained_dnc.evaluation import scoring
from constrained_dnc.evaluation.digital import state_count
from constrained_dnc.evaluation.results import read_results_file
from constrained_dnc.files import locked
from constrained_dnc.model.backend import AbstractBackend
from constrained_dnc.study import read_study
from constrained_dnc.study.layout import failure_file, results_file, run_folder, write_failure
from constrained_dnc.sweep.plan import Plan
from constrained_dnc.sweep.trial import run_trial
from constrained_dnc.training.loop import train
from constrained_dnc.training.process import Stop
from constrained_dnc.training.run import load_run
from smoke_studies import open_smoke
from tiny_runs import fingerprint, tiny_config
from watched_runs import PowerCut, Watcher, cut_power

BAD_TASKS = """
from dataclasses import replace

from constrained_dnc.tasks.numeral import Copy


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


@pytest.fixture
def plan(tmp_path) -> Plan:
    return planned(tmp_path)


def planned(folder, rules=RULES) -> Plan:
    open_smoke(folder, rules=rules)
    return Plan(folder, (tiny_config(iterations=20, checkpoint_every=5),), tuple(rules))


@pytest.fixture
def bad_tasks(tmp_path):
    path = tmp_path / "bad_tasks.py"
    path.write_text(BAD_TASKS)
    return path


def rows_of(plan: Plan) -> pd.DataFrame:
    (config,) = plan.configs
    return read_results_file(results_file(plan.folder, config.run_id, config.training.iterations))


def test_a_trial_leaves_results_and_analysis_and_is_not_done_twice(plan):
    (config,) = plan.configs
    write_failure(plan.folder, config.run_id, "Traceback of an earlier attempt")
    assert run_trial(plan, config.to_json()) == "finished"
    assert plan.is_done(config)
    assert not failure_file(plan.folder, config.run_id).exists()
    rows = rows_of(plan)[["selection", "memory", "length"]].itertuples(index=False, name=None)
    assert sorted(rows) == sorted(
        [
            *((rule, "4", n) for rule in ("unseen", "seen", "score") for n in (1, 2, 3, 4)),
            *((rule, "40", n) for rule in ("unseen", "score") for n in (2, 5)),
            *((rule, "growing", n) for rule in ("unseen", "score") for n in (2, 5)),
        ]
    )
    arrays = read_study(plan.folder).analysis(config.run_id, "states", "write_mode_encoding")
    assert arrays["states"].shape[1] == 4

    files = {path: path.stat().st_mtime_ns for path in plan.folder.rglob("*") if path.is_file()}
    assert run_trial(plan, config.to_json()) == "finished"
    lock = plan.lock(config)
    again = {path: path.stat().st_mtime_ns for path in files}
    assert {**again, lock: 0} == {**files, lock: 0}


def test_digital_inference_has_rows_of_its_own(tmp_path):
    plan = planned(tmp_path, rules=["score"])
    (config,) = plan.configs
    run_trial(plan, config.to_json())
    both = replace(plan, inferences=("network", "digital"))
    assert not both.is_done(config)
    run_trial(both, config.to_json())
    assert both.is_done(config)
    rows = rows_of(both)
    assert (rows.groupby(["memory", "length"])["inference"].nunique() == 2).all()
    selected = load_run(run_folder(tmp_path, config.run_id)).selected("score")
    count = state_count(selected.model, "copy", lengths=(1, 2), threads=1)
    assert set(rows["state_count"]) == {float(count or "inf")}


def test_a_quick_look_has_one_rule_and_no_analysis(tmp_path):
    plan = replace(planned(tmp_path, rules=["score"]), analyses=False)
    (config,) = plan.configs
    run_trial(plan, config.to_json())
    assert plan.is_done(config)
    assert set(rows_of(plan)["selection"]) == {"score"}
    assert not (tmp_path / "analysis").exists()


def test_another_grid_of_lengths_is_measured_without_training(plan, monkeypatch):
    before, after = (
        replace(config, evaluation=replace(config.evaluation, lengths=lengths))
        for config in plan.configs
        for lengths in ("1,3", "2,3")
    )
    run_trial(plan, before.to_json())
    monkeypatch.delattr(AbstractBackend, "value_and_grad")
    measured, score = set(), scoring._score
    monkeypatch.setattr(
        scoring, "_score", lambda *args: measured.add(args[-1].length) or score(*args)
    )
    assert not plan.is_done(after)
    assert run_trial(plan, after.to_json()) == "finished"
    assert plan.is_done(after)
    assert measured == {2}


def test_what_a_killed_worker_left_is_removed_but_nothing_of_other_runs(plan):
    (config,) = plan.configs
    names = [f"results/.{config.run_id}-20.parquet", f"analysis/.{config.run_id}.npz"]
    others = ["results/.another-20.parquet", "analysis/.another.npz", ".study.json"]
    for name in names + others:
        path = plan.folder / f"{name}.0123abcd.unfinished"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    run_trial(plan, config.to_json())
    left = {str(path.relative_to(plan.folder)) for path in plan.folder.rglob("*.unfinished")}
    assert left == {f"{name}.0123abcd.unfinished" for name in others}


def test_a_begun_run_resumes_to_the_same_results(plan, tmp_path, monkeypatch):
    (config,) = plan.configs
    other = planned(tmp_path / "other")
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
        run_trial(study, config.to_json())
    pd.testing.assert_frame_equal(rows_of(plan), rows_of(other))
    ours, theirs = (
        dict(np.load(study.folder / "analysis" / f"{config.run_id}.npz")) for study in (plan, other)
    )
    np.testing.assert_equal(ours, theirs)


def test_a_study_that_grows_ends_with_the_bits_of_a_longer_one(plan, tmp_path):
    (config,) = plan.configs
    longer = Plan(plan.folder, (with_min_iterations(config, 40),))
    planned(tmp_path / "straight")
    straight = Plan(tmp_path / "straight", longer.configs)
    for study in (plan, longer, straight):
        assert run_trial(study, study.configs[0].to_json()) == "finished"
    name = f"runs/{config.run_id}"
    assert fingerprint(plan.folder / name) == fingerprint(straight.folder / name)
    pd.testing.assert_frame_equal(rows_of(longer), rows_of(straight))
    assert set(rows_of(plan)["iterations"]) == {20}
    assert set(rows_of(longer)["iterations"]) == {40}
    assert plan.is_done(config)  # when less is requested again, nothing happens


def test_a_run_that_an_earlier_request_began_longer_ends_longer(plan):
    (config,) = plan.configs
    longer = with_min_iterations(config, 30)
    folder = plan.folder / "runs" / config.run_id
    with pytest.raises(PowerCut):
        train(longer, folder, threads=1, observer=Watcher(25, cut_power))
    assert run_trial(plan, config.to_json()) == "finished"
    assert plan.is_done(config)
    assert plan.is_done(longer)


def test_an_error_comes_back_as_text_and_leaves_its_traceback(plan, bad_tasks):
    config = tiny_config(task=f"{bad_tasks}:Raises")
    with pytest.raises(RunError, match=r"^sample of .*Trouble: no data today\)$") as raised:
        run_trial(plan, config.to_json())
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    traceback = failure_file(plan.folder, config.run_id)
    assert "bad_tasks.py" in traceback.read_text()
    assert not plan.is_done(config)
    with locked(plan.lock(config)):  # it is free
        pass


@pytest.mark.parametrize("measure_every", [2, 150])  # of the 100 iterations that it takes
def test_a_diverged_run_is_counted(plan, bad_tasks, measure_every):
    config = tiny_config(
        f"{bad_tasks}:Nan", iterations=200, entropy_every=200, measure_every=measure_every
    )
    diverged = Plan(plan.folder, (config,))
    assert run_trial(diverged, config.to_json()) == "diverged"
    assert diverged.is_done(config)
    (row,) = (
        rows_of(diverged)[["status", "iterations", "skipped_updates"]]
        .drop_duplicates()
        .itertuples(index=False, name=None)
    )
    assert row == ("diverged", 100, 100)
