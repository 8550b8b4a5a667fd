"""Runs that end, fail and are tried again, by a client that follows a script."""

from concurrent.futures import CancelledError
from types import SimpleNamespace

import distributed
import pytest

from constrained_dnc.errors import RunError
from constrained_dnc.sweep import executors
from constrained_dnc.sweep.executors import execute
from constrained_dnc.sweep.plan import make_request, open_study
from constrained_dnc.sweep.trial import Outcome


class Done:
    """A future that has come."""

    def __init__(self, outcome):
        self.outcome = outcome

    def done(self) -> bool:
        return True

    def result(self) -> Outcome:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class Script:
    """A client whose runs end as it is written; the last line of a run is repeated."""

    status = "running"

    def __init__(self, lines):
        self.lines = lines
        self.submitted = []

    def submit(self, function, study, config_text, sources, key, priority):
        assert key not in self.submitted
        self.submitted.append(key)
        lines = self.lines[key.split("-")[1]]
        return Done(lines.pop(0) if len(lines) > 1 else lines[0])


class Diary:
    def __init__(self):
        self.ends, self.failures, self.looks = [], [], []

    def ended(self, config, state):
        self.ends.append((config, state))

    def failed(self, config, reasons):
        self.failures.append((config, list(reasons)))

    def look(self, running):
        self.looks.append(running)


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "SECONDS_BETWEEN_LOOKS", 0)
    return open_study(tmp_path, make_request("smoke"))


def test_a_run_that_fails_three_times_does_not_stop_the_others(plan):
    bad, good = plan.configs
    failed = Outcome("failed", "no", "Traceback")
    client = Script({bad.run_id: [failed], good.run_id: [Outcome("finished")]})
    diary = Diary()
    execute(plan, client, diary)
    assert diary.ends == [(good, "finished")]
    assert diary.failures == [(bad, ["no"] * count) for count in (1, 2, 3)]
    assert len(client.submitted) == 4
    assert [failure["run_id"] for failure in plan.write_failures()] == [bad.run_id]


def test_attempts_of_earlier_sweeps_count(plan):
    bad, good = plan.configs
    for _ in range(2):
        plan.add_attempt(bad, "earlier")
    lines = {bad.run_id: [Outcome("failed", "now")], good.run_id: [Outcome("diverged")]}
    client, diary = Script(lines), Diary()
    execute(plan, client, diary)
    assert diary.failures == [(bad, ["earlier", "earlier", "now"])]
    assert diary.ends == [(good, "diverged")]


def test_workers_that_die_time_and_again_are_a_failed_attempt(plan):
    bad, good = plan.configs
    lines = [ValueError("KilledWorker\nand more"), Outcome("finished")]
    diary = Diary()
    execute(plan, Script({bad.run_id: lines, good.run_id: [Outcome("finished")]}), diary)
    assert diary.failures == [(bad, ["ValueError: KilledWorker"])]
    assert len(diary.ends) == 2
    assert plan.write_failures() == []


def test_the_death_of_a_worker_is_not_blamed_on_runs_that_waited_there(plan, monkeypatch):
    bad, good = plan.configs
    death = distributed.KilledWorker("trial", SimpleNamespace(address="tls://here:1"), 3)
    client = Script({bad.run_id: [death], good.run_id: [death] * 3 + [Outcome("finished")]})
    submit, numbers = client.submit, iter(range(100))

    def submit_and_begin(*arguments, **options):
        if bad.run_id in options["key"]:  # another process works on it every time
            plan.lock(bad).parent.mkdir(exist_ok=True)
            deaths.append(lambda: plan.lock(bad).write_text(f"process {next(numbers)} on here"))
        return submit(*arguments, **options)

    deaths, diary = [], Diary()
    diary.look = lambda running: deaths.pop()() if deaths else None
    monkeypatch.setattr(client, "submit", submit_and_begin)
    execute(plan, client, diary)
    assert [config for config, _ in diary.failures] == [bad] * 3
    assert diary.ends == [(good, "finished")]
    assert plan.attempts(good) == []


@pytest.mark.parametrize("error", [CancelledError(), OSError("closed")])
def test_a_lost_scheduler_is_not_the_fault_of_a_run(plan, error):
    client = Script({config.run_id: [error] for config in plan.configs})
    client.status = "connecting"
    with pytest.raises(RunError, match="the Dask scheduler is gone; the same command resumes"):
        execute(plan, client, Diary())
    assert [plan.attempts(config) for config in plan.configs] == [[], []]


def test_an_error_of_our_own_is_not_blamed_on_the_scheduler(plan):
    client = Script({config.run_id: [Outcome("finished")] for config in plan.configs})
    diary = Diary()
    diary.look = lambda running: (_ for _ in ()).throw(BrokenPipeError)
    with pytest.raises(BrokenPipeError):
        execute(plan, client, diary)
