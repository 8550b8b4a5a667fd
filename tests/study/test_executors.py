"""Runs on executors: those that end, fail, or lose their worker."""

import os
import sys
import time
from collections import Counter
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext

import pytest

from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.study import executors, read_study
from constrained_dnc.study.executors import choose_executor, execute
from smoke_studies import is_alive, open_smoke


class Diary:
    def __init__(self):
        self.ends, self.failures = [], []

    def ended(self, run, state):
        self.ends.append(run)

    def failed(self, run, reason):
        self.failures.append((run, reason))

    def look(self, running):
        pass


class Fake(Executor):
    """Completes runs at once; what a run meets is chosen by its seed and the attempt."""

    def __init__(self, ends, order):
        self.ends, self.order, self.is_broken = ends, order, False

    def submit(self, function, folder, wanted):
        if self.is_broken:
            raise BrokenExecutor
        future = Future()
        self.order.append(folder.name)
        end = self.ends.get(folder.name)
        error = end and end(Counter(self.order)[folder.name])
        self.is_broken = error == "pool"
        if error:
            future.set_exception(BrokenExecutor() if error == "pool" else error)
        else:
            future.set_result("finished")
        return future


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "SECONDS_BETWEEN_LOOKS", 0.01)
    return open_smoke(tmp_path, approaches=["compr", "reg"], trials=2)


def run_with(plan, ends, diary):
    """The order in which runs were submitted, and how many executors were opened."""
    order, opened = [], []

    def open_executor():
        opened.append(Fake(ends, order))
        return nullcontext(opened[-1])

    execute(plan, plan.to_do(), open_executor, diary)
    return order, len(opened)


def test_runs_go_in_the_order_of_the_plan(plan):
    diary = Diary()
    order, opened = run_with(plan, {}, diary)
    names = [run.folder.name for run in plan.runs]
    assert (order, opened) == (names, 1)
    assert sorted(run.folder.name for run in diary.ends) == sorted(names)


def test_a_run_that_fails_is_not_tried_again_and_does_not_stop_the_others(plan):
    diary, bad = Diary(), plan.runs[1]
    order, _ = run_with(plan, {bad.folder.name: lambda _: RunError("no data")}, diary)
    assert len(order) == 4
    assert diary.failures == [(bad, "no data")]
    assert len(diary.ends) == 3


@pytest.mark.parametrize("death", [BrokenExecutor(), SystemExit(143)], ids=repr)
def test_a_run_whose_worker_dies_is_resumed_three_times_at_most(plan, death):
    unlucky, bad = plan.runs[:2]
    diary = Diary()
    ends = {
        unlucky.folder.name: lambda attempt: death if attempt < 3 else None,
        bad.folder.name: lambda attempt: death,
    }
    order, _ = run_with(plan, ends, diary)
    assert Counter(order)[unlucky.folder.name] == Counter(order)[bad.folder.name] == 3
    assert diary.failures == [(bad, "its worker died 3 times")]
    assert len(diary.ends) == 3
    (failure,) = read_study(plan.folder).failures
    assert failure["reason"] == "its worker died 3 times"


def test_an_executor_that_breaks_is_replaced(plan):
    first, last = plan.runs[0].folder.name, plan.runs[-1].folder.name
    diary = Diary()
    ends = {name: lambda attempt: "pool" if attempt == 1 else None for name in (first, last)}
    order, opened = run_with(plan, ends, diary)
    assert (Counter(order)[first], Counter(order)[last], opened) == (2, 2, 3)
    assert not diary.failures
    assert len(diary.ends) == 4


def test_an_executor_that_takes_no_run_is_given_up(plan):
    class Broken(Fake):
        is_broken = property(lambda self: True, lambda self, value: None)

    with pytest.raises(RunError, match="breaks before it has taken a run"):
        execute(plan, plan.to_do(), lambda: nullcontext(Broken({}, [])), Diary())


def test_a_lost_scheduler_is_not_the_fault_of_a_run(plan):
    with pytest.raises(RunError, match="the scheduler is gone; the same command resumes"):
        run_with(plan, {plan.runs[0].folder.name: lambda _: CancelledError()}, Diary())
    assert read_study(plan.folder).failures == ()


def test_an_error_of_the_watcher_is_raised(plan, monkeypatch):
    diary = Diary()
    diary.ended = lambda run, state: (_ for _ in ()).throw(BrokenPipeError)
    with pytest.raises(BrokenPipeError):
        run_with(plan, {}, diary)


def test_processes_have_one_thread_and_die_alone():
    with choose_executor(workers=2)() as executor:
        waiting = executor.submit(time.sleep, 600)
        process = executor.submit(os.getpid).result()
        assert process != os.getpid()
        assert executor.submit(os.getenv, "NPROC").result() == "1"
        flags = executor.submit(os.getenv, "XLA_FLAGS").result()
        assert flags.endswith("--xla_cpu_multi_thread_eigen=false")
        assert isinstance(executor.submit(os._exit, 1).exception(), BrokenExecutor)
        another = executor.submit(os.getpid).result()
        assert another != process
        assert not waiting.done()
        executor.shutdown(wait=False)
        assert isinstance(waiting.exception(), BrokenExecutor)
    assert not is_alive(another)
    assert os.getenv("XLA_FLAGS") != flags


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"workers": 0}, "workers must be an integer of at least 1, not 0"),
        ({"executor": "nowhere"}, "executor must be package.module:callable"),
        ({"executor": "os:nothing"}, "executor must be a callable, which os does not define"),
        ({"executor": "nowhere.py:f"}, "executor nowhere.py:f cannot be loaded"),
        ({"executor": "os:getpid"}, "executor must be a callable that returns a concurrent"),
        ({"scheduler": "tcp://a:1", "executor": "os:getpid"}, "--scheduler cannot be combined"),
        ({"scheduler": "tcp://127.0.0.1:1"}, "scheduler must be the address of a running Dask"),
        ({"scheduler": "nonsense"}, "scheduler must be the address of a running Dask"),
    ],
)
def test_what_is_no_executor_is_refused(options, sentence, monkeypatch):
    monkeypatch.setattr(executors, "SECONDS_TO_CONNECT", 0.5)
    with pytest.raises(SettingError) as refused, choose_executor(**options)():
        pass
    assert str(refused.value).startswith(sentence)


def test_without_dask_a_scheduler_costs_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(SettingError, match=r"needs Dask: pip install 'constrained-dnc\[dask\]'"),
        choose_executor(scheduler="tcp://127.0.0.1:8786")(),
    ):
        pass


def test_any_executor_by_its_import_path(plan, tmp_path):
    (tmp_path / "own.py").write_text(
        "from concurrent.futures import ThreadPoolExecutor\n\n\ndef threads(max_workers=3):\n"
        "    return ThreadPoolExecutor(max_workers)\n"
    )
    for workers in (None, 1):
        with choose_executor(workers, executor=f"{tmp_path}/own.py:threads")() as executor:
            assert isinstance(executor, ThreadPoolExecutor)
            assert executor._max_workers == (workers or 3)
