"""Runs side by side on Dask: processes of this machine, or the workers of a cluster."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import distributed

from constrained_dnc.config import Config
from constrained_dnc.errors import BadSetting, RunProblem, require_whole
from constrained_dnc.sweep.plan import MAX_ATTEMPTS, Plan
from constrained_dnc.sweep.trial import run_trial

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "NPROC": "1",  # XLA sizes its pool of threads by it
}
"""One process per core, one thread in each: nothing is ever oversubscribed."""

SECONDS_BETWEEN_LOOKS = 0.5


class Watcher(Protocol):
    """Told how a sweep goes."""

    def ended(self, config: Config, state: str) -> None: ...

    def failed(self, config: Config, reasons: list[str]) -> None: ...

    def look(self, running: list[Config]) -> None: ...


Client: TypeAlias = Any  # distributed has no types
Future: TypeAlias = Any


@contextmanager
def connected(scheduler: str | None, workers: int | None) -> Iterator[Client]:
    """A client of a running scheduler, or of a cluster of processes that lives as long."""
    connect: Any = distributed.Client
    if scheduler is not None:
        try:
            client = connect(scheduler, timeout=10)
        except (OSError, ValueError, TimeoutError) as error:
            accepted = "the address of a running Dask scheduler, such as tcp://head:8786"
            raise BadSetting("scheduler", scheduler, f"{accepted} ({error})") from error
        with client:
            yield client
        return
    count = len(os.sched_getaffinity(0)) if workers is None else workers
    require_whole("workers", count, 1)
    cluster_of_processes: Any = distributed.LocalCluster
    with (
        cluster_of_processes(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            memory_limit=0,
            silence_logs=logging.CRITICAL,
            env=ONE_THREAD,
        ) as cluster,
        connect(cluster) as client,
    ):
        yield client


def execute(plan: Plan, client: Client, watcher: Watcher) -> None:
    """Bring every run of the plan to its end; one that fails three times is given up."""
    running = {_submit(client, plan, config): config for config in plan.to_do()}
    while running:
        for future in [future for future in running if future.done()]:
            config = running.pop(future)
            if future.status == "finished":
                watcher.ended(config, future.result())
                continue
            reasons = plan.add_attempt(config, _reason(future))
            watcher.failed(config, reasons)
            if len(reasons) < MAX_ATTEMPTS:
                running[_submit(client, plan, config, len(reasons))] = config
        watcher.look(list(running.values()))
        if client.status != "running":
            raise RunProblem("the Dask scheduler is gone; the same command goes on from here")
        time.sleep(SECONDS_BETWEEN_LOOKS if running else 0)


def _submit(client: Client, plan: Plan, config: Config, attempt: int = 0) -> Future:
    study = str(Path(plan.folder).resolve())
    key = f"{config.run_id}-{attempt}-{time.time_ns()}"
    return client.submit(run_trial, study, config.to_json(), key=key, pure=False)


def _reason(future: Future) -> str:
    """One line about why a run failed."""
    if future.status == "cancelled":
        return "the scheduler lost it"
    error = future.exception()
    return f"{type(error).__name__}: {error}".splitlines()[0]
