"""The training loop: start reading at `train`."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import optax

from constrained_dnc.config import Config, TrainingConfig, differences, lengthened, located
from constrained_dnc.cores import MAX_THREADS, available_cores
from constrained_dnc.errors import BadSetting, RunProblem, require_whole
from constrained_dnc.files import (
    locked,
    make_folder,
    read_json,
    reason_of,
    remove_unfinished,
    write_json,
)
from constrained_dnc.model.backend import AbstractBackend
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.checkpoint import Checkpoints, Progress
from constrained_dnc.training.guard import (
    MAX_KEPT,
    MAX_SKIPPED_IN_A_ROW,
    TOLERABLE_SHARE,
    guarded_update,
    keep_offender,
)
from constrained_dnc.training.metrics import MetricsFile, mean_entropy
from constrained_dnc.training.observer import Observer, Snapshot
from constrained_dnc.training.run import (
    CONFIG,
    LOCK,
    METRICS,
    NONFINITE,
    STATUS,
    Run,
    State,
    Status,
    backend_for,
    changed_sources,
    initial_model,
    open_run,
    read_status,
    replace_config,
    surroundings,
    write_config,
    write_selected,
)
from constrained_dnc.training.selection import new_selections
from constrained_dnc.training.stopping import Stop, postponed_signals
from constrained_dnc.training.streams import Drawn, draw, entropy_batch
from constrained_dnc.words import Choice


def train(
    config: Config,
    run_dir: str | Path,
    *,
    backend: Choice | AbstractBackend = "auto",
    threads: int | None = None,
    observer: Observer | None = None,
) -> Run:
    """Train, or go on training, until the run is finished or has diverged.

    SIGINT and SIGTERM leave a checkpoint first, then end as usual: with KeyboardInterrupt and
    SystemExit(143). A run goes on with the backend and the number of threads it began with, as
    its bits depend on both. It becomes longer when it is asked for more iterations.
    """
    if threads is not None:
        require_whole("threads", threads, 1, MAX_THREADS)
    config, folder = located(config), Path(run_dir)
    observer = observer or Observer()
    make_folder(folder, "run_dir")
    _refuse_strange_folder(folder)
    with postponed_signals() as stop, jax.enable_x64(False):  # the same bits with either default
        with locked(folder / LOCK):
            remove_unfinished(folder)
            training = _Training(config, folder, backend, threads, observer)
            training.run(stop)
        if stop.signal is not None and not training.has_ended:
            observer.say(f"stopped by {stop.signal.name}; the same command goes on from here")
    stop.obey()
    return open_run(folder)


def make_optimiser(config: TrainingConfig) -> optax.GradientTransformation:
    """Adam behind clipping by the global norm."""
    return optax.chain(
        optax.clip_by_global_norm(config.clip_norm),
        optax.adam(config.learning_rate, b1=config.beta_1, b2=config.beta_2, eps=config.epsilon),
    )


def _refuse_strange_folder(folder: Path) -> None:
    """Never write among files that are not a run's."""
    try:
        names = os.listdir(folder)
    except OSError as error:
        accepted = f"a folder that can be read ({reason_of(error)})"
        raise BadSetting("run_dir", str(folder), accepted) from error
    strangers = [name for name in names if name != LOCK and name[0] != "."]
    if strangers and not (folder / CONFIG).exists():
        raise BadSetting(
            "run_dir", str(folder), f"a new or empty folder, or a run's with a {CONFIG}"
        )


class _Training:
    """One process's share of a run."""

    def __init__(
        self,
        config: Config,
        folder: Path,
        backend: Choice | AbstractBackend,
        threads: int | None,
        observer: Observer,
    ):
        stored = open_run(folder) if (folder / CONFIG).exists() else None
        if stored is not None:
            _refuse_changes(stored, config, backend, threads)
        self.config = config
        self.folder = folder
        self.observer = observer
        self.task = get_task(config.task)
        model = initial_model(config)
        parameters, self.rest = eqx.partition(model, eqx.is_inexact_array)
        if threads is None:
            threads = stored.threads if stored else available_cores()
        if isinstance(backend, str):
            choice = stored.backend if stored and backend == "auto" else backend
            backend = backend_for(config, model, choice, threads)
            if stored is not None:
                backend.reason = "as the run began"
        self.backend = backend
        optimiser = make_optimiser(config.training)
        self.update = guarded_update(optimiser)
        self.checkpoints = Checkpoints(folder, config, backend.name, threads)
        fresh = Progress(
            parameters,
            optimiser.init(parameters),
            new_selections(config.training.window),
        )
        found = self.checkpoints.load(fresh, observer.warn)
        self.progress = found or fresh
        self.written: dict[str, int | None] = {}  # best iteration in the file of each rule
        self.began = time.monotonic()
        self.seconds_before = _seconds_before(folder, observer)
        if stored is None:
            write_config(folder, config, backend.name, threads)
        else:
            _warn_of_changes(stored, observer)
            self._lengthen(stored)
        observer.say(f"backend {backend.name}: {backend.reason}")
        where = f"going on after iteration {found.iteration}" if found else "a new run"
        observer.say(f"run {folder}: {where}")

    def _lengthen(self, stored: Run) -> None:
        """Take over a larger number of iterations, unless the run has come to another end."""
        if self._end is not None:
            self.config = stored.config
        elif self.config != stored.config:
            replace_config(self.folder, self.config)
            before, now = (c.training.iterations for c in (stored.config, self.config))
            self.observer.say(f"longer than before: {before} iterations, now {now}")

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
            with suppress(RunProblem):  # the disk may be full; the error itself says so
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
        if self.progress.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            return "diverged", f"{MAX_SKIPPED_IN_A_ROW} updates in a row were not finite"
        if self.progress.iteration >= self.config.training.iterations:
            skipped, all_of_them = self.progress.skipped_updates, self.progress.iteration
            told = f", but {skipped} of {all_of_them} updates were skipped" if skipped else ""
            return "finished", f"all iterations are done{told}"
        return None

    def _step(self, drawn: Drawn) -> None:
        """One iteration: the update, then what is measured."""
        progress = self.progress
        model = eqx.combine(progress.parameters, self.rest)
        loss, parts, gradient = self.backend.value_and_grad(model, drawn.batch)
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
            folder = self.folder / NONFINITE
            keep_offender(folder, progress.iteration, progress.parameters, loss, norm)
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

    def _select(self, rule: str, *measured: float) -> None:
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
            mean = selection.best_mean if math.isfinite(selection.best_mean) else None
            running_mean[rule] = mean
            if rule in progress.selected and self.written.get(rule) != selection.best_iteration:
                write_selected(
                    self.folder, rule, progress.selected[rule], selection.best_iteration, mean
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
        write_json(self.folder / STATUS, dataclasses.asdict(status))

    def _snapshot(self, loss: float) -> Snapshot:
        unseen = self.progress.selections["unseen"]
        return Snapshot(
            self.progress.iteration,
            self.config.training.iterations,
            loss,
            unseen.mean,
            unseen.best_iteration,
            self.progress.skipped_updates,
        )


def _refuse_changes(
    stored: Run, config: Config, backend: Choice | AbstractBackend, threads: int | None
) -> None:
    """A run goes on as it began or not at all: anything else could not be repeated.

    It may become longer: that is the run it would have been with as many iterations at once.
    """
    fields = differences(lengthened(stored.config, config.training.iterations), config)
    if fields:
        raise BadSetting(
            "run_dir",
            str(stored.folder),
            f"a folder of its own for every config; there and here are different: "
            f"{', '.join(fields)}",
        )
    name = backend if isinstance(backend, str) else backend.name
    if name not in ("auto", stored.backend):
        raise BadSetting("backend", name, f"{stored.backend}, with which {stored.folder} began")
    if threads not in (None, stored.threads):
        raise BadSetting("threads", threads, f"{stored.threads}, with which {stored.folder} began")


def _warn_of_changes(run: Run, observer: Observer) -> None:
    for sentence in changed_sources(run):
        observer.warn(sentence)
    stored = read_json(run.folder / CONFIG)
    for kind, now in surroundings().items():
        changed = [
            f"{name} ({stored.get(kind, {}).get(name)}, now {value})"
            for name, value in now.items()
            if stored.get(kind, {}).get(name) != value
        ]
        if changed:
            observer.warn(f"{kind} changed since the run began, its bits may: {', '.join(changed)}")


def _seconds_before(folder: Path, observer: Observer) -> float:
    """The time spent so far; everything else in the status comes from the checkpoint."""
    if not (folder / STATUS).exists():
        return 0.0
    try:
        return read_status(folder).seconds
    except RunProblem as error:
        observer.warn(f"{error}; it is written anew, and the time spent so far is lost")
        return 0.0
