"""The training loop: start reading at `train`."""

from __future__ import annotations

import dataclasses
import math
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import equinox as eqx
import jax
import numpy as np

from constrained_dnc.choices import BACKEND_CHOICES, PAPER_RULE, BackendChoice, SelectionRule
from constrained_dnc.config import Config, with_absolute_paths
from constrained_dnc.cores import MAX_THREADS
from constrained_dnc.errors import RunError, SettingError, one_of, require_integer, require_path
from constrained_dnc.files import locked, remove_unfinished, write_json
from constrained_dnc.model.backend import AbstractBackend
from constrained_dnc.training.disk import LOCK, METRICS, STATUS
from constrained_dnc.training.guard import (
    MAX_KEPT,
    TOLERABLE_SHARE,
    guarded_update,
    keep_skipped_update,
)
from constrained_dnc.training.metrics import MetricsFile, finite_or_none, mean_entropy
from constrained_dnc.training.observer import Observer, Snapshot
from constrained_dnc.training.opening import Opened, end_of, open_training, prepare_folder
from constrained_dnc.training.run import (
    Run,
    State,
    Status,
    open_run,
    write_selected,
)
from constrained_dnc.training.stopping import Stop, postponed_signals
from constrained_dnc.training.streams import Drawn, constraint_key, draw, entropy_batch


def train(
    config: Config,
    run_dir: str | Path,
    *,
    backend: BackendChoice | AbstractBackend = "auto",
    threads: int | None = None,
    observer: Observer | None = None,
) -> Run:
    """Train, or resume training, until the run is finished or has diverged.

    SIGINT and SIGTERM leave a checkpoint first, then raise KeyboardInterrupt and
    SystemExit(143). A run resumes with the backend and the number of threads it began with, as
    its bits depend on both. It becomes longer when it is asked for more iterations.
    """
    if threads is not None:
        require_integer("threads", threads, 1, MAX_THREADS)
        threads = int(threads)
    require_path("run_dir", run_dir)
    if not isinstance(config, Config):
        raise SettingError("config", config, "a Config, as make_config(task, approach) returns it")
    if isinstance(backend, str) and backend not in BACKEND_CHOICES:
        raise SettingError("backend", backend, one_of(BACKEND_CHOICES, backend))
    config, folder = with_absolute_paths(config), Path(run_dir)
    observer = observer or Observer()
    prepare_folder(folder)
    with postponed_signals() as stop, jax.enable_x64(False):  # the same bits with either default
        with locked(folder / LOCK):
            remove_unfinished(folder)
            training = _Training(
                open_training(config, folder, backend, threads, observer), observer
            )
            training.run(stop)
        if stop.signal is not None and not training.has_ended:
            observer.say(f"stopped by {stop.signal.name}; the same command resumes from here")
    stop.raise_signal()
    return open_run(folder)


class _Training:
    """One process's share of a run."""

    def __init__(self, opened: Opened, observer: Observer):
        self.config = opened.config
        self.folder = opened.folder
        self.task = opened.task
        self.rest = opened.rest
        self.backend = opened.backend
        self.checkpoints = opened.checkpoints
        self.progress = opened.progress
        self.update = guarded_update(opened.optimiser)
        self.observer = observer
        self.written: dict[str, int | None] = {}  # best iteration in the file of each rule
        self.seconds_before = opened.seconds_before
        self.began = time.monotonic()

    def run(self, stop: Stop) -> None:
        """Iterate to the end, or to a signal; the status always says why it ended."""
        if self._end is not None:
            self.observer.say(f"nothing to do: {self._end[1]}")
            with self._open_metrics():
                pass  # says so if it is damaged
            self._warn_of_skipped()
            self._publish(*self._end)
            return
        try:
            with self._open_metrics() as metrics:
                self.metrics = metrics
                self._publish("training", "")
                self.observer.say("compiling: the first iteration of every length takes longer")
                self._iterate(stop)
        except BaseException as error:
            with suppress(RunError):  # the disk may be full; the error itself says so
                self._publish("failed", f"{type(error).__name__}: {error}")
            raise

    def _open_metrics(self) -> MetricsFile:
        num_bytes = self.progress.metrics_bytes
        checksum = self.progress.metrics_checksum
        return MetricsFile(self.folder / METRICS, num_bytes, checksum, self.observer.warn)

    def _iterate(self, stop: Stop) -> None:
        every = self.config.training.checkpoint_every
        with ThreadPoolExecutor(1) as sampler:  # draws the next batch while this one is computed
            coming = sampler.submit(draw, self.task, self.config, self.progress.iteration + 1)
            while self._end is None:
                if stop.signal is not None:
                    self._checkpoint("stopped", f"by {stop.signal.name}")
                    return
                drawn = coming.result()
                coming = sampler.submit(draw, self.task, self.config, drawn.iteration + 1)
                self._step(drawn)
                if drawn.iteration % every == 0 and self._end is None:
                    self._checkpoint("training", "")
        if PAPER_RULE not in self.progress.selected:  # diverged before the first measurement
            self._select(PAPER_RULE, math.inf)
        self._checkpoint(*self._end)
        self._warn_of_skipped()

    def _warn_of_skipped(self) -> None:
        skipped, iteration = self.progress.skipped_updates, self.progress.iteration
        if skipped > TOLERABLE_SHARE * iteration:
            self.observer.warn(
                f"{skipped} of {iteration} updates were skipped, more than a tenth of them; "
                f"`cdnc replay {self.folder}` says why"
            )

    @property
    def has_ended(self) -> bool:
        """Whether there is nothing left to do."""
        return self._end is not None

    @property
    def _end(self) -> tuple[State, str] | None:
        """How and why the run has ended, if it has."""
        return end_of(self.progress, self.config.training.iterations)

    def _step(self, drawn: Drawn) -> None:
        """One iteration: the update, then what is measured."""
        progress = self.progress
        model = eqx.combine(progress.parameters, self.rest)
        key = constraint_key(self.config, drawn.iteration) if model.uses_key else None
        loss, parts, gradient = self.backend.value_and_grad(model, drawn.batch, key)
        *updated, norm, is_finite = self.update(
            progress.parameters, progress.optimiser, gradient, loss
        )
        values = {"loss": loss, **parts, "gradient_norm": norm}
        values, is_finite = jax.device_get((values, is_finite))
        values = {name: float(value) for name, value in values.items()}
        progress.iteration = drawn.iteration
        if is_finite:
            progress.parameters, progress.optimiser = updated
            progress.skipped_in_a_row = 0
            for name, value in values.items():
                total, count = progress.sums.get(name, (0.0, 0.0))
                progress.sums[name] = [total + value, count + 1.0]
        else:
            self._skip(values["loss"], values["gradient_norm"])
        self._log(drawn, values["task_loss"] if is_finite else math.nan)
        self.observer.progress(self._snapshot(values["loss"]))

    def _skip(self, loss: float, norm: float) -> None:
        """Count an update that was not made, and keep what a replay of it needs."""
        progress = self.progress
        if progress.skipped_updates < MAX_KEPT:
            about = {"run_id": self.config.run_id, "iteration": progress.iteration}
            keep_skipped_update(self.folder, about, progress.parameters, loss, norm)
        progress.skipped_updates += 1
        progress.skipped_in_a_row += 1
        if progress.skipped_updates <= MAX_KEPT:
            overflow = ", the update overflowed" if math.isfinite(loss + norm) else ""
            self.observer.warn(
                f"iteration {progress.iteration} is skipped: loss {loss}, gradient norm {norm}"
                f"{overflow}; `cdnc replay {self.folder}` says more"
            )

    def _log(self, drawn: Drawn, seen_loss: float) -> None:
        """The line of this iteration in metrics.jsonl, if it has one."""
        line: dict[str, float | int | None] = {}
        if drawn.unseen is not None:
            line |= self._measure(drawn, seen_loss)
        if drawn.iteration % self.config.training.log_every == 0:
            sums = self.progress.sums
            line |= {name: total / count for name, (total, count) in sums.items()}
            line["skipped_updates"] = self.progress.skipped_updates
            self.progress.sums = {}
        if drawn.iteration % self.config.training.entropy_every == 0:
            line |= self._entropies()
        if line:
            self.metrics.append({"iteration": drawn.iteration, **line})

    def _measure(self, drawn: Drawn, seen_loss: float) -> dict[str, float | int | None]:
        """The losses and the score that select.

        Unseen lengths are computed with the new parameters; seen ones come for free with the
        update, and are left out when it was skipped.
        """
        assert drawn.unseen is not None
        model = eqx.combine(self.progress.parameters, self.rest)
        loss, outputs = self.backend.measure(model, drawn.unseen)
        unseen_loss = float(loss)
        score = float(self.task.score(drawn.unseen, np.asarray(outputs)).score.mean())
        self._select("unseen", unseen_loss)
        if math.isfinite(seen_loss):
            self._select("seen", seen_loss)
        self._select("score", score, seen_loss)
        return {"unseen_loss": unseen_loss, "seen_loss": seen_loss, "unseen_score": score}

    def _select(self, rule: SelectionRule, *measured: float) -> None:
        if self.progress.selections[rule].add(self.progress.iteration, *measured):
            self.progress.selected[rule] = self.progress.parameters

    def _entropies(self) -> dict[str, float]:
        model = eqx.combine(self.progress.parameters, self.rest)
        batch = entropy_batch(self.task, self.config, self.progress.iteration)
        reads, writes = self.backend.weights(model, batch.inputs)
        return {
            "read_entropy": mean_entropy(np.asarray(reads)),
            "write_entropy": mean_entropy(np.asarray(writes)),
        }

    def _checkpoint(self, state: State, reason: str) -> None:
        self.progress.metrics_bytes, self.progress.metrics_checksum = self.metrics.sync()
        self.checkpoints.save(self.progress)
        self._publish(state, reason)

    def _publish(self, state: State, reason: str) -> None:
        """Bring the files that others read up to the progress."""
        progress = self.progress
        running_mean = {}
        for rule, selection in progress.selections.items():
            mean = finite_or_none(selection.best_mean)
            running_mean[rule] = mean
            if rule in progress.selected and self.written.get(rule) != selection.best_iteration:
                write_selected(
                    self.folder,
                    self.config.run_id,
                    rule,
                    progress.selected[rule],
                    selection.best_iteration,
                    mean,
                )
                self.written[rule] = selection.best_iteration
        status = Status(
            state=state,
            reason=reason,
            iteration=progress.iteration,
            iterations=self.config.training.iterations,
            skipped_updates=progress.skipped_updates,
            best_iteration={rule: s.best_iteration for rule, s in progress.selections.items()},
            running_mean=running_mean,
            seconds=round(self.seconds_before + time.monotonic() - self.began, 3),
            updated=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        about = {"run_id": self.config.run_id, **dataclasses.asdict(status)}
        write_json(self.folder / STATUS, about)

    def _snapshot(self, loss: float) -> Snapshot:
        papers = self.progress.selections[PAPER_RULE]
        return Snapshot(
            self.progress.iteration,
            self.config.training.iterations,
            loss,
            papers.mean,
            papers.best_iteration,
            self.progress.skipped_updates,
        )
