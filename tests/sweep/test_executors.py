"""Runs that end, fail and are tried again, by Dask in threads of this process."""

import traceback
from collections import Counter

import distributed
import pytest

from constrained_dnc.config import Config
from constrained_dnc.errors import RunError
from constrained_dnc.study import read_study
from constrained_dnc.study.layout import write_failure
from constrained_dnc.sweep import executors
from constrained_dnc.sweep.executors import execute
from smoke_studies import open_smoke

ATTEMPTS: Counter = Counter()
ORDER: list[str] = []


class Diary:
    def __init__(self):
        self.ends, self.failures = [], []

    def ended(self, config, state):
        self.ends.append((config, state))

    def failed(self, config, reason):
        self.failures.append((config, reason))

    def look(self, running):
        pass


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "SECONDS_BETWEEN_LOOKS", 0.05)
    ATTEMPTS.clear()
    ORDER.clear()
    return open_smoke(tmp_path, trials=2)


@pytest.fixture
def client():
    settings = {"n_workers": 1, "threads_per_worker": 1, "processes": False}
    with (
        distributed.LocalCluster(**settings, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def succeed(plan, config_text, sources):
    ORDER.append(Config.from_json(config_text).run_id)
    return "finished"


def fail_at_first(plan, config_text, sources):
    """Fail as `run_trial` does, twice for trial 0 and always for trial 1."""
    config = Config.from_json(config_text)
    ATTEMPTS[config.run_id] += 1
    if config.seed == 0 and ATTEMPTS[config.run_id] == 3:
        return "finished"
    try:
        raise ValueError("no data")
    except ValueError:
        write_failure(plan.folder, config.run_id, traceback.format_exc())
        raise RunError("ValueError: no data") from None


def test_runs_go_in_the_order_of_the_plan(plan, client, monkeypatch):
    monkeypatch.setattr(executors, "run_trial", succeed)
    diary = Diary()
    execute(plan, client, diary, plan.to_do())
    assert [config.run_id for config in plan.configs] == ORDER
    assert sorted(config.run_id for config, _ in diary.ends) == sorted(ORDER)


def test_a_run_that_fails_three_times_does_not_stop_the_others(plan, client, monkeypatch):
    monkeypatch.setattr(executors, "run_trial", fail_at_first)
    diary = Diary()
    execute(plan, client, diary, plan.to_do())
    good, bad = plan.configs[:2], plan.configs[2:]
    assert {config for config, _ in diary.ends} == set(good)
    assert {(config, reason) for config, reason in diary.failures} == {
        (config, "ValueError: no data") for config in bad
    }
    assert set(ATTEMPTS.values()) == {3}
    reasons = {failure["run_id"]: failure["reason"] for failure in read_study(plan.folder).failures}
    assert reasons[bad[0].run_id] == "ValueError: no data"


def test_a_lost_scheduler_is_not_the_fault_of_a_run(plan, client, monkeypatch):
    submit = client.submit

    def submit_and_cancel(*args, **options):  # as a scheduler does that is started again
        future = submit(*args, **options)
        future.cancel()
        return future

    monkeypatch.setattr(executors, "run_trial", succeed)
    monkeypatch.setattr(client, "submit", submit_and_cancel)
    diary = Diary()
    with pytest.raises(RunError, match="the Dask scheduler is gone; the same command resumes"):
        execute(plan, client, diary, plan.to_do())
    assert read_study(plan.folder).failures == ()


def test_an_error_of_the_watcher_is_not_blamed_on_the_scheduler(plan, client, monkeypatch):
    monkeypatch.setattr(executors, "run_trial", succeed)
    diary = Diary()
    diary.look = lambda running: (_ for _ in ()).throw(BrokenPipeError)
    with pytest.raises(BrokenPipeError):
        execute(plan, client, diary, plan.to_do())
