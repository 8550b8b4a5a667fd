"""Runs in parallel on Dask: processes on this machine, or the workers of a cluster."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from multiprocessing import resource_tracker
from typing import Any, Protocol, TypeAlias, runtime_checkable

import dask
import distributed
import distributed.comm.core

from constrained_dnc.config import Config
from constrained_dnc.errors import RunError, SettingError, first_line, require_integer
from constrained_dnc.model.config import available_cores
from constrained_dnc.plugins import override_sources, sources
from constrained_dnc.study.layout import write_failure
from constrained_dnc.sweep.plan import Plan
from constrained_dnc.sweep.trial import run_trial
from constrained_dnc.training.process import interrupts_wait

SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_TO_CONNECT = 10
RETRIES = 2
SETTINGS: dict[str, Any] = {
    # Dask's profiler stops a worker a hundred times a second, for a dashboard nobody looks at.
    "distributed.worker.profile.enabled": False,
    # By default every process measures its lag fifty times a second, and its load twice.
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    # A sweep may be stopped (SIGSTOP) and continued: silence is no sign of death on one machine.
    "distributed.scheduler.worker-ttl": None,
    # A worker holds one run: the death of a worker is not blamed on runs that waited there.
    "distributed.scheduler.worker-saturation": 1.0,
    # Any user of the machine could read these pages.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
"""Settings of Dask for processes on this machine."""


@runtime_checkable
class Watcher(Protocol):
    """Shows the progress of a sweep."""

    def ended(self, config: Config, state: str) -> None: ...

    def failed(self, config: Config, reason: str) -> None: ...

    def look(self, running: list[Config]) -> None: ...


Client: TypeAlias = Any  # distributed has no types
Future: TypeAlias = Any


def one_thread() -> dict[str, str]:
    """Environment variables of a worker: it has one core, so libraries must not start threads."""
    flags = os.environ.get("XLA_FLAGS", "")
    return {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "XLA_FLAGS": f"{flags} --xla_cpu_multi_thread_eigen=false".strip(),
        "NPROC": "1",  # XLA sizes its pool of threads by it
    }


@contextmanager
def connected(scheduler: str | None, workers: int | None) -> Iterator[Client]:
    """A client of a running scheduler, or of processes that are started here and ended with it."""
    # `execute` says in one sentence what Dask would log about a lost connection.
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if scheduler is not None:
        _greet(scheduler)
        with distributed.Client(scheduler, timeout=SECONDS_TO_CONNECT) as client:
            yield client
        return
    count = available_cores() if workers is None else workers
    require_integer("workers", count, 1)
    with dask.config.set(SETTINGS), ExitStack() as entered:
        try:
            resource_tracker.ensure_running()  # started inside, it would unblock Ctrl-C
            with interrupts_wait():  # the cluster, not Ctrl-C, ends the workers
                cluster = entered.enter_context(_cluster(count))
            client = entered.enter_context(distributed.Client(cluster))
        except (OSError, RuntimeError, ImportError) as error:
            raise RunError(f"the workers cannot be started: {first_line(error)}") from error
        yield client


def _cluster(workers: int) -> Any:
    """Processes on this machine that its other users cannot connect to.

    Anyone who can connect to Dask can run code as the user who started it. So everything goes
    through TLS, with a certificate that is made for this sweep and never leaves the memory of its
    processes.
    """
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        security=distributed.Security.temporary(),
        dashboard_address="127.0.0.1:0",  # any free port, which serves nothing
        scheduler_kwargs={"dashboard": False},
        memory_limit=0,
        silence_logs=logging.CRITICAL,
        env=one_thread(),
    )


def _greet(scheduler: str) -> None:
    """Refuse an address at which no Dask scheduler answers.

    No client is used: one that fails to connect leaves a thread behind that can block the next.
    """

    async def greet() -> None:
        options = distributed.Security().get_connection_args("client")
        async with asyncio.timeout(2 * SECONDS_TO_CONNECT):  # Dask's is for the first half only
            comm = await distributed.comm.core.connect(
                scheduler, timeout=SECONDS_TO_CONNECT, **options
            )
            await comm.close()

    try:
        asyncio.run(greet())
    except Exception as error:  # whatever answers there may not be a scheduler at all
        accepted = "the address of a running Dask scheduler, such as tcp://head:8786"
        raise SettingError("scheduler", scheduler, accepted) from error


def execute(plan: Plan, client: Client, watcher: Watcher, to_do: Sequence[Config]) -> None:
    """Complete the runs `to_do`.

    A run that fails three times does not stop the others. Workers use user-defined files as they
    are now, even if these change in the meantime.
    """
    names = {name for config in plan.configs for name in config.user_code}
    with override_sources(sources("task", names)):
        running = {
            _submit(client, plan, config, place): config for place, config in enumerate(to_do)
        }
        try:
            for future in _completed(running, watcher):
                _report(plan, running.pop(future), future, watcher)
        except (CancelledError, OSError) as error:
            if isinstance(error, OSError) and client.status == "running":
                raise
            # Only a lost or restarted scheduler cancels runs.
            message = "the Dask scheduler is gone; the same command resumes from here"
            raise RunError(message) from error


def _submit(client: Client, plan: Plan, config: Config, place: int) -> Future:
    """Submit a run to Dask.

    Tasks whose keys share a prefix are queued by the scheduler and started by priority; others
    would be assigned to workers at once, in no order.
    """
    shared = replace(plan, folder=plan.folder.resolve(), configs=())
    key, texts = f"trial-{config.run_id}-{time.time_ns()}", sources("task", config.user_code)
    return client.submit(
        run_trial, shared, config.to_json(), texts, key=key, priority=-place, retries=RETRIES
    )


def _completed(running: Mapping[Future, Config], watcher: Watcher) -> Iterator[Future]:
    """Futures as they complete; meanwhile the watcher looks at the others."""
    completed = distributed.as_completed(list(running))
    while running:
        watcher.look(list(running.values()))
        time.sleep(SECONDS_BETWEEN_LOOKS)
        yield from completed.next_batch(block=False)


def _report(plan: Plan, config: Config, future: Future, watcher: Watcher) -> None:
    try:
        state = future.result()
    except (CancelledError, OSError):
        raise
    except RunError as error:  # the worker has kept its traceback
        watcher.failed(config, str(error))
    except Exception as error:  # raised by Dask, mostly because the run killed its workers
        reason = f"{type(error).__name__}: {first_line(error)}"
        write_failure(plan.folder, config.run_id, f"{reason}\n")
        watcher.failed(config, reason)
    else:
        watcher.ended(config, state)
