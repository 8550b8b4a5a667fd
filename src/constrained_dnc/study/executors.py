"""Runs in parallel, on any executor of concurrent.futures."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from multiprocessing import resource_tracker
from typing import Any, Protocol, runtime_checkable

from constrained_dnc.errors import RunError, SettingError, first_line, require_integer
from constrained_dnc.model.config import available_cores
from constrained_dnc.plugins import ACCEPTED_PATHS, is_import_path, load_names
from constrained_dnc.study.plan import Plan
from constrained_dnc.study.trial import complete_run, write_failure
from constrained_dnc.training.run import Run

SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_TO_CONNECT = 10
ATTEMPTS = 3
"""How often a run is tried whose worker dies."""


@runtime_checkable
class Watcher(Protocol):
    """Shows the progress of a study."""

    def ended(self, run: Run, state: str) -> None: ...

    def failed(self, run: Run, reason: str) -> None: ...

    def look(self, running: list[Run]) -> None: ...


OpenExecutor = Callable[[], AbstractContextManager[Executor]]


def execute(
    plan: Plan, to_do: Sequence[Run], open_executor: OpenExecutor, watcher: Watcher
) -> None:
    """Complete the runs `to_do`.

    A run that fails does not stop the others, nor does one whose worker dies: it is resumed. An
    executor that breaks as a whole is replaced.
    """
    deaths: Counter[str] = Counter()
    runs = list(to_do)
    while runs:
        before = runs, deaths.total()
        with open_executor() as executor:
            runs = _complete(plan, runs, executor, watcher, deaths)
        if (runs, deaths.total()) == before:
            raise RunError("the executor breaks before it has taken a run")


def _complete(
    plan: Plan, runs: list[Run], executor: Executor, watcher: Watcher, deaths: Counter[str]
) -> list[Run]:
    """Complete runs on an executor; returns those that are left if it breaks."""
    waiting, is_broken = list(runs), False
    pending: dict[Future[str], Run] = {}
    while True:
        try:
            while waiting and not is_broken:
                folder = waiting[0].folder.resolve()
                pending[executor.submit(complete_run, folder, plan.wanted)] = waiting[0]
                del waiting[0]
        except BrokenExecutor:
            is_broken = True
        if not pending:
            return waiting
        running = {future for future in pending if future.running()}
        watcher.look(list(pending.values()))
        done, _ = wait(pending, SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED)
        dead = [future for future in done if _has_died(future)]
        for future in done.difference(dead):
            _report(pending.pop(future), future, watcher)
        blamed = running.intersection(dead) or dead  # not those that only waited for a worker
        for future in dead:
            run = pending.pop(future)
            deaths[run.config.run_id] += future in blamed
            if deaths[run.config.run_id] < ATTEMPTS:
                waiting.append(run)
            else:
                _fail(run, f"its worker died {ATTEMPTS} times", watcher)


def _has_died(future: Future[str]) -> bool:
    """Whether the worker of a run has died, or was told to end."""
    return not future.cancelled() and isinstance(
        future.exception(), BrokenExecutor | SystemExit | KeyboardInterrupt
    )


def _report(run: Run, future: Future[str], watcher: Watcher) -> None:
    try:
        watcher.ended(run, future.result())
    except CancelledError as error:  # only by a lost or restarted scheduler
        raise RunError("the scheduler is gone; the same command resumes from here") from error
    except RunError as error:  # the worker has kept its traceback
        watcher.failed(run, str(error))
    except Exception as error:  # of the executor, such as Dask's KilledWorker
        if future.exception() is not error:
            raise
        _fail(run, f"{type(error).__name__}: {first_line(error)}", watcher)


def _fail(run: Run, reason: str, watcher: Watcher) -> None:
    write_failure(run.folder, f"{reason}\n")
    watcher.failed(run, reason)


def choose_executor(
    workers: int | None = None, scheduler: str | None = None, executor: str | None = None
) -> OpenExecutor:
    """How to open the executor that the options of `cdnc study` name.

    Args:
        workers: Processes on this machine, by default one per core; else for `executor`.
        scheduler: The address of a Dask scheduler.
        executor: The import path of a callable that returns an executor.
    """
    if workers is not None:
        require_integer("workers", workers, 1)
    if scheduler is not None and executor is not None:
        raise SettingError("--scheduler cannot be combined with --executor")
    if scheduler is not None:
        return partial(_on_dask, scheduler)
    if executor is not None:
        make = _load_callable(executor)
        options = {} if workers is None else {"max_workers": workers}
        return lambda: _closing(make(**options))
    return partial(_on_this_machine, workers or available_cores())


@contextmanager
def _closing(executor: Any) -> Iterator[Executor]:
    """An executor that is not waited for after an error, such as an interrupt."""
    if not isinstance(executor, Executor):
        accepted = "a callable that returns a concurrent.futures.Executor"
        raise SettingError("executor", type(executor).__name__, accepted)
    try:
        yield executor
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        raise
    executor.shutdown()


def _load_callable(path: str) -> Callable[..., Executor]:
    module, _, name = path.rpartition(":")
    if not is_import_path(path):
        raise SettingError("executor", path, ACCEPTED_PATHS.replace("Class", "callable"))
    found: Any = load_names("executor", path, module).get(name)
    if not callable(found):
        raise SettingError("executor", path, f"a callable, which {module} does not define")
    return found


@contextmanager
def _on_dask(scheduler: str) -> Iterator[Executor]:
    """The workers of a running Dask cluster."""
    try:
        import distributed  # noqa: PLC0415 - an extra
    except ImportError:
        needs = "--scheduler needs Dask: pip install 'constrained-dnc[dask]'"
        raise SettingError(needs) from None
    for name in ("distributed", "distributed.client"):  # we say in a sentence what they would log
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(scheduler, timeout=SECONDS_TO_CONNECT)
    except Exception as error:  # whatever answers there may not be a scheduler at all
        accepted = "the address of a running Dask scheduler, such as tcp://head:8786"
        raise SettingError("scheduler", scheduler, accepted) from error
    with client:
        executor = client.get_executor(pure=False)  # a run that is tried again is not looked up
        try:
            yield executor
        finally:
            executor.shutdown(wait=False)  # what has not begun is taken back


@contextmanager
def _on_this_machine(workers: int) -> Iterator[Executor]:
    """Processes with one thread each."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    flags = f"{before['XLA_FLAGS'] or ''} {ONE_THREAD['XLA_FLAGS']}".strip()
    os.environ.update(ONE_THREAD | {"XLA_FLAGS": flags})  # read when their libraries are imported
    try:
        with _closing(Processes(workers)) as executor:
            yield executor
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "NPROC": "1",  # XLA sizes its pool of threads by it
}
"""Environment variables of a worker: it has one core, so libraries must not start threads."""


class Processes(Executor):
    """Processes on this machine, each in a pool of its own: if one dies, the others go on.

    Args:
        workers: How many there are at a time.
    """

    def __init__(self, workers: int):
        resource_tracker.ensure_running()  # started by a thread, it would unblock Ctrl-C there
        self._threads = ThreadPoolExecutor(workers, initializer=_block_interrupts)
        self._own = threading.local()
        self._pools: list[ProcessPoolExecutor] = []
        self._futures: list[Future[Any]] = []

    def submit(self, function: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        future = self._threads.submit(self._call, partial(function, *args, **options))
        self._futures.append(future)
        return future

    def _call(self, function: Callable[[], Any]) -> Any:
        """Call a function in the process of this thread."""
        if not hasattr(self._own, "pool"):
            context = multiprocessing.get_context("spawn")
            self._own.pool = ProcessPoolExecutor(1, context, end_with_parent)
            self._pools.append(self._own.pool)
        try:
            return self._own.pool.submit(function).result()
        except BrokenExecutor:
            del self._own.pool
            raise

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes, without `wait` at once; training leaves a checkpoint."""
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        while not all(future.done() for future in self._futures):
            for process in multiprocessing.active_children():
                process.terminate()
            time.sleep(0.1)
        for pool in self._pools:
            pool.shutdown()


def _block_interrupts() -> None:
    """Keep Ctrl-C, which a terminal sends to all, from the processes that this thread starts."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def end_with_parent() -> None:
    """Let this process end, after a checkpoint, when the process that started it dies."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        while True:  # until training has let go of the signal
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)

    threading.Thread(target=watch, daemon=True).start()
