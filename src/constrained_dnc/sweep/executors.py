"""Runs side by side on Dask: processes of this machine, or the workers of a cluster."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import resource_tracker
from typing import Any, Protocol, TypeAlias, runtime_checkable

import dask
import distributed
import distributed.comm.core
from distributed import KilledWorker

from constrained_dnc.config import Config
from constrained_dnc.cores import available_cores
from constrained_dnc.errors import RunError, SettingError, first_line, require_integer
from constrained_dnc.plugins import override_sources, sources
from constrained_dnc.sweep.plan import MAX_ATTEMPTS, Plan
from constrained_dnc.sweep.trial import Outcome, run_trial
from constrained_dnc.training.stopping import interrupts_wait

SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_TO_CONNECT = 10
MAX_SPARED = 100
"""Deaths of workers that are blamed on no run, in one sweep."""
SETTINGS: dict[str, Any] = {
    # Dask's profiler stops a worker a hundred times a second, for a dashboard nobody looks at.
    "distributed.worker.profile.enabled": False,
    # Every process measures fifty times a second how late it is, and twice how busy.
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    # A sweep may be stopped (SIGSTOP) and continued: silence is no sign of death on one machine.
    "distributed.scheduler.worker-ttl": None,
    # Any user of the machine could read these pages.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
"""Of Dask, for processes of this machine."""


@runtime_checkable
class Watcher(Protocol):
    """Told how a sweep goes."""

    def ended(self, config: Config, state: str) -> None: ...

    def failed(self, config: Config, reasons: list[str]) -> None: ...

    def look(self, running: list[Config]) -> None: ...


Client: TypeAlias = Any  # distributed has no types
Future: TypeAlias = Any


def one_thread() -> dict[str, str]:
    """The environment of a worker process; one per core, so nothing is ever oversubscribed."""
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
    """A client of a running scheduler, or of a cluster of processes that lives as long."""
    # What Dask would log about a lost connection, `execute` says in one sentence.
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    connect: Any = distributed.Client
    if scheduler is not None:
        _greet(scheduler)
        try:
            client = connect(scheduler, timeout=SECONDS_TO_CONNECT)
        except OSError as error:
            raise RunError("the Dask scheduler is gone") from error
        with client:
            yield client
        return
    count = available_cores() if workers is None else workers
    require_integer("workers", count, 1)
    with dask.config.set(SETTINGS), ExitStack() as entered:
        try:
            resource_tracker.ensure_running()  # its start would undo the wait
            with interrupts_wait():  # the workers are ended with the cluster
                cluster = entered.enter_context(_cluster(count))
            client = entered.enter_context(connect(cluster))
        except (OSError, RuntimeError, ImportError) as error:
            raise RunError(f"the workers cannot be started: {first_line(error)}") from error
        yield client


def _cluster(workers: int) -> Any:
    """Processes of this machine, closed to its other users.

    Whoever may talk to Dask can run code as the user it runs as. So everything goes through TLS,
    with a certificate that is made for this sweep and never leaves the memory of its processes.
    """
    cluster_of_processes: Any = distributed.LocalCluster
    certified: Any = distributed.Security.temporary
    return cluster_of_processes(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        security=certified(),
        dashboard_address="127.0.0.1:0",  # any free port, which serves nothing
        scheduler_kwargs={"dashboard": False},
        memory_limit=0,
        silence_logs=logging.CRITICAL,
        env=one_thread(),
    )


def _greet(scheduler: str) -> None:
    """Refuse an address that no Dask scheduler answers at.

    Without a client: one that fails to connect leaves a thread behind, which can block the next.
    """

    async def greet() -> None:
        connect: Any = distributed.comm.core.connect
        security: Any = distributed.Security
        options = security().get_connection_args("client")
        async with asyncio.timeout(2 * SECONDS_TO_CONNECT):  # Dask's is for the first half only
            comm = await connect(scheduler, timeout=SECONDS_TO_CONNECT, **options)
            await comm.close()

    try:
        with ThreadPoolExecutor(1) as thread:  # the caller's may have a running loop, as in Jupyter
            thread.submit(asyncio.run, greet()).result()
    except Exception as error:  # whatever answers there may be no scheduler at all
        accepted = "the address of a running Dask scheduler, such as tcp://head:8786"
        raise SettingError("scheduler", scheduler, accepted) from error


def execute(
    plan: Plan, client: Client, watcher: Watcher, to_do: Sequence[Config] | None = None
) -> None:
    """Bring every run of the plan to its end; one that fails three times is given up.

    Files of your own are used as they are now, whatever becomes of them. Without `to_do`: all
    that the plan has to do.
    """
    names = {name for config in plan.configs for name in config.user_code}
    with override_sources(sources("task", names)):
        _execute(plan, client, watcher, plan.to_do() if to_do is None else to_do)


def _execute(plan: Plan, client: Client, watcher: Watcher, to_do: Sequence[Config]) -> None:
    try:
        running = {
            _submit(client, plan, config, place): config for place, config in enumerate(to_do)
        }
        owners = {config.run_id: _owner(plan, config) for config in running.values()}
        spared = 0
        while running:
            watcher.look(list(running.values()))
            time.sleep(SECONDS_BETWEEN_LOOKS)
            for future in [future for future in running if future.done()]:
                config = running.pop(future)
                outcome = _outcome(future)
                if outcome.state != "failed":
                    watcher.ended(config, outcome.state)
                    continue
                only_waited = _owner(plan, config) == owners[config.run_id]
                if outcome.by_death and only_waited and spared < MAX_SPARED:
                    spared += 1
                    running[_submit(client, plan, config)] = config
                    continue
                owners[config.run_id] = _owner(plan, config)
                reasons = plan.add_attempt(config, outcome.reason, outcome.trace)
                watcher.failed(config, reasons)
                if len(reasons) < MAX_ATTEMPTS:
                    running[_submit(client, plan, config)] = config
    except (CancelledError, OSError) as error:
        if isinstance(error, OSError) and client.status == "running":
            raise
        # Only a lost or restarted scheduler cancels runs.
        raise RunError("the Dask scheduler is gone; the same command resumes from here") from error


def _submit(client: Client, plan: Plan, config: Config, place: int = 0) -> Future:
    """Hand a run to Dask.

    Keys with one prefix are one group of tasks, which the scheduler holds back and gives out by
    priority; others would be spread over the workers at once, in no order.
    """
    study, key = str(plan.folder.resolve()), f"trial-{config.run_id}-{time.time_ns()}"
    texts = sources("task", config.user_code)
    return client.submit(run_trial, study, config.to_json(), texts, key=key, priority=-place)


def _outcome(future: Future) -> Outcome:
    """How a run ended; what Dask itself raises is mostly that its workers died time and again."""
    try:
        outcome: Outcome = future.result()
    except (CancelledError, OSError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return Outcome("failed", reason, by_death=isinstance(error, KilledWorker))
    return outcome


def _owner(plan: Plan, config: Config) -> str:
    """Who is working on a run, or worked on it last.

    Dask blames the death of a worker also on runs that waited there: their owner is the same.
    """
    try:
        return plan.lock(config).read_text(errors="replace")
    except OSError:  # nobody yet
        return ""
