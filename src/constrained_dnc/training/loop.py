"""The training loop: start reading at `train`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from constrained_dnc.config import (
    NO_CURRICULUM,
    PAPER_RULE,
    Config,
    LoggerChoice,
    SelectionRule,
    with_absolute_paths,
)
from constrained_dnc.errors import RunError, SettingError, require_integer
from constrained_dnc.files import locked, remove_unfinished
from constrained_dnc.model.backend import AbstractBackend, choose_backend
from constrained_dnc.model.config import MAX_THREADS, BackendChoice, available_cores
from constrained_dnc.model.dnc import DNC
from constrained_dnc.plugins import remember
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training import resuming
from constrained_dnc.training.batches import (
    IterationBatches,
    constraint_key,
    entropy_batch,
    make_curriculum,
    sample_iteration,
)
from constrained_dnc.training.checkpoint import (
    Progress,
    keep_skipped_update,
    load_checkpoint,
    save_checkpoint,
)
from constrained_dnc.training.folder import (
    CONFIG,
    FILES,
    LOCK,
    METRICS,
    NONFINITE,
    State,
    read_status,
    refuse_links,
    write_status,
)
from constrained_dnc.training.loggers import Observer, Snapshot, open_loggers, require_loggers
from constrained_dnc.training.metrics import MetricsFile, finite_or_none, mean_entropy
from constrained_dnc.training.optimiser import guarded_update, make_optimiser, make_schedule
from constrained_dnc.training.parameters import (
    initial_model,
    load_start,
    parameters_of,
    start_with,
    with_start,
    write_start,
)
from constrained_dnc.training.process import Stop, postponed_signals
from constrained_dnc.training.run import Run, load_run, open_run, write_config, write_selected
from constrained_dnc.training.selection import new_rules

MAX_SKIPPED_IN_A_ROW = 100
"""After this many skipped updates in a row, a run has diverged."""
TOLERABLE_SHARE = 0.1
"""A run with a larger share of skipped updates is worth a warning."""
MAX_KEPT = 5
"""How many skipped updates keep their parameters."""


def train(
    config: Config,
    run_dir: str | Path,
    *,
    backend: BackendChoice | AbstractBackend = "auto",
    threads: int | None = None,
    observer: Observer | None = None,
    restart: bool = False,
    start: DNC | None = None,
    log: Sequence[LoggerChoice] = (),
) -> Run:
    """Train, or resume training, until the run is finished or has diverged.

    SIGINT, SIGTERM and SIGHUP leave a checkpoint first, then raise KeyboardInterrupt or
    SystemExit(128 + the number of the signal).

    Args:
        config: All settings. A run in `run_dir` is resumed if it has the same ones; with more
            iterations it is extended, and the result is as if it had begun with them.
        run_dir: The folder of the run. It is made if needed; what it holds is described in
            `training/folder.py`.
        backend: `auto`, `fused`, `pure`, or a backend of your own. A run is resumed with the
            backend it began with, as its bits depend on it.
        threads: How many threads share a batch in the backend `fused`; by default all cores, or
            as many as the run began with, as its bits depend on them.
        observer: Receives messages, metrics and progress; by default messages are logged.
        restart: Whether to move a run that is in the folder aside, and to start over.
        start: A model whose parameters a new run begins with. Their names and shapes must be those
            of the config; the config records them.
        log: The loggers that also receive every line of metrics.jsonl: `tensorboard`, `wandb`,
            `trackio`.

    Returns:
        The run, opened for reading.
    """
    if threads is not None:
        require_integer("threads", threads, 1, MAX_THREADS)
        threads = int(threads)
    require_loggers(log)
    if isinstance(observer, type):
        raise SettingError("observer", observer, f"an instance, such as {observer.__name__}()")
    config, folder, observer = with_absolute_paths(config), Path(run_dir), observer or Observer()
    if restart and start is None and config.start is not None:
        raise SettingError("to start over from another model, name it (--from, start=model)")
    if start is not None:
        config = with_start(config, start)
    session = TrainingSession(config, folder, backend, threads, observer, start)
    if restart:
        resuming.move_aside(folder, observer)
    resuming.prepare_folder(folder)
    if resuming.has_ended_without_checkpoint(folder, config):
        observer.say(f"nothing to do: {folder} has ended")
        return open_run(folder)
    with postponed_signals() as stop:
        with locked(folder / LOCK) as is_in_place, jax.enable_x64(False):
            session.open(is_in_place)
            session.run(stop, log)
        if stop.signal is not None and session.end is None:
            observer.say(f"Stopped at {session}; run the same command to resume.")
    stop.raise_signal()
    return open_run(folder)


def resume(
    run_dir: str | Path, *, observer: Observer | None = None, trust_code: bool = False
) -> Run:
    """Continue a run to its end, with its stored config.

    Args:
        run_dir: The folder of the run.
        observer: Receives messages, metrics and progress; by default messages are logged.
        trust_code: Whether user-defined code that the run names may be executed although this
            user has not trained with it as it is now.

    Returns:
        The run, opened for reading.
    """
    run = load_run(run_dir, trust_code=trust_code)
    return train(run.config, run.folder, observer=observer)


def check_config(config: Config) -> None:
    """Refuse a config whose model, optimiser or curriculum cannot be made; no file is touched.

    Args:
        config: With absolute paths to user-defined files.
    """
    TrainingSession(config, Path(), "auto", None, Observer())


class TrainingSession:
    """The part of a run that one process trains, under the lock of the folder.

    Making one checks the settings and touches no file; `open` fills it from the newest checkpoint,
    and `run` iterates.

    Args:
        config: All settings, with absolute paths to user-defined files.
        folder: The folder of the run.
        backend: The name of a backend, or a backend.
        threads: The threads of the backend `fused`; None for those of the run, or all cores.
        observer: Receives messages, metrics and progress.
        start: The model whose parameters a new run begins with, if any.
    """

    def __init__(
        self,
        config: Config,
        folder: Path,
        backend: BackendChoice | AbstractBackend,
        threads: int | None,
        observer: Observer,
        start: DNC | None = None,
    ):
        self.config, self.folder, self.observer, self.start = config, folder, observer, start
        self._backend, self._threads = backend, threads
        self.optimiser, self.rate = make_optimiser(config.training), make_schedule(config.training)
        self.lengths = make_curriculum(config.training)
        self.lengths(1)
        self.update = guarded_update(self.optimiser)
        self.task = get_task(config.task)
        self.model = initial_model(config)
        if start is not None:
            self.model = start_with(self.model, start)

    def open(self, is_in_place: Callable[[], bool]) -> None:
        """Begin the run or continue from its newest checkpoint.

        Args:
            is_in_place: Tells whether `folder` still is the folder that this process has locked.
        """
        self._is_in_place = is_in_place
        config, folder, observer = self.config, self.folder, self.observer
        remove_unfinished(folder, FILES)
        refuse_links(folder)
        stored = resuming.stored_run(folder)
        if stored is not None:
            resuming.refuse_changes(stored, config, self._backend, self._threads)
        if self.start is not None and not (folder / CONFIG).exists():
            write_start(folder, self.start)
        model = load_start(folder, config, self.model)
        backend, threads = self._backend, self._threads
        if threads is None:
            threads = stored.threads if stored else available_cores()
        if isinstance(backend, str):
            choice = stored.backend if stored else backend
            backend = choose_backend(choice, model, self.task.loss, threads=threads)
        self.backend = backend
        state = self.optimiser.init(parameters_of(model))
        state = jax.tree.map(jax.numpy.asarray, state)
        self.progress = Progress(model, state, new_rules(config.training.window))
        is_resumed = load_checkpoint(folder, config, self.progress, observer.warn)
        self._seconds_before = 0.0
        with suppress(RunError, TypeError, ValueError):  # absent or corrupt: it is rewritten
            self._seconds_before = float(read_status(folder).seconds)
        if stored is None or stored.is_planned:
            write_config(folder, config, resuming.backend_name(backend), threads)
        else:
            if not is_resumed:
                resuming.refuse_overwriting(stored)
            remember(config.user_code)
            resuming.warn_of_environment(stored, observer)
            has_ended = self.end is not None
            self.config = resuming.update_config(stored, config, observer, has_ended=has_ended)
        self._began = time.monotonic()
        observer.say(f"backend {backend.name}: {'as before' if stored else backend.reason}")
        after = f"resuming after iteration {self.progress.iteration}"
        observer.say(f"run {folder}: {after if is_resumed else 'a new run'}")

    def __str__(self) -> str:
        iteration, iterations = self.progress.iteration, self.config.training.iterations
        return f"iteration {iteration:_} of {iterations:_}".replace("_", " ")

    @property
    def end(self) -> tuple[State, str] | None:
        """How and why the run has ended, if it has."""
        progress = self.progress
        if progress.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            return "diverged", f"{MAX_SKIPPED_IN_A_ROW} updates in a row were not finite"
        if progress.iteration < self.config.training.iterations:
            return None
        skipped = progress.skipped_updates
        but = f", but {skipped} of {progress.iteration} updates were skipped" if skipped else ""
        return "finished", f"all iterations are done{but}"

    def run(self, stop: Stop, log: Sequence[LoggerChoice] = ()) -> None:
        """Iterate until the end or a signal; an error is recorded in the status.

        Args:
            stop: Holds the signal that ends the session after the current iteration.
            log: The loggers that also receive every line of metrics.jsonl.
        """
        path, iteration = self.folder / METRICS, self.progress.iteration
        with (
            closing(MetricsFile(path, iteration, self.observer.warn)) as self.metrics,
            open_loggers(log, open_run(self.folder)) as self.log_values,
        ):
            measured = iteration - iteration % self.config.training.measure_every
            if self.metrics.last_iteration < measured:
                self.observer.warn(
                    f"{path} has lost its lines after iteration {self.metrics.last_iteration}; "
                    "the rest is kept"
                )
            if self.end is not None:
                self.observer.say(f"nothing to do: {self.end[1]}")
                self._warn_of_skipped()
                self._publish(*self.end)
                return
            try:
                self._publish("training", "")
                self.observer.say("compiling: the first iteration of every length takes longer")
                self._iterate(stop)
            except BaseException as error:
                with suppress(RunError):  # the disk may be full; the error itself says so
                    self._write_status("failed", f"{type(error).__name__}: {error}")
                if isinstance(error, SystemExit):
                    raise RunError(f"user-defined code ended the process: {error!r}") from error
                raise

    def _iterate(self, stop: Stop) -> None:
        every = self.config.training.checkpoint_every
        draw = partial(sample_iteration, self.task, self.config, lengths=self.lengths)
        with ThreadPoolExecutor(1) as sampler:  # draws the next batch while this one is computed
            coming = sampler.submit(draw, self.progress.iteration + 1)
            while self.end is None:
                if stop.signal is not None:
                    self._checkpoint("stopped", f"by {stop.signal.name}")
                    return
                batches = coming.result()
                coming = sampler.submit(draw, batches.iteration + 1)
                self._step(batches)
                if batches.iteration % every == 0 and self.end is None:
                    self._checkpoint("training", "")
        if self.progress.rules[PAPER_RULE].model is None:  # diverged before any measurement
            self._select(PAPER_RULE, math.inf)
        self._checkpoint(*self.end)
        self._warn_of_skipped()

    def _step(self, batches: IterationBatches) -> None:
        """One iteration: the update, then the measurements that are due."""
        values, is_finite = self._update(batches)
        self._log(batches, values["task_loss"] if is_finite else math.nan)
        self.observer.progress(self._snapshot(values["loss"]))

    def _update(self, batches: IterationBatches) -> tuple[dict[str, float], bool]:
        """Update the parameters if all is finite; returns losses, norm, and whether it is."""
        progress, model = self.progress, self.progress.model
        key = constraint_key(self.config, batches.iteration) if model.uses_key else None
        loss, parts, gradient = self.backend.value_and_grad(model, batches.batch, key)
        *updated, norm, is_finite = self.update(model, progress.optimiser, gradient, loss)
        values, is_finite = jax.device_get(
            ({"loss": loss, **parts, "gradient_norm": norm}, is_finite)
        )
        values = {name: float(value) for name, value in values.items()}
        progress.iteration = batches.iteration
        if is_finite:
            progress.model, progress.optimiser = updated
            progress.skipped_in_a_row = 0
            for name, value in values.items():
                total, count = progress.sums.get(name, (0.0, 0.0))
                progress.sums[name] = [total + value, count + 1.0]
        else:
            self._skip(values["loss"], values["gradient_norm"])
        return values, bool(is_finite)

    def _skip(self, loss: float, norm: float) -> None:
        """Count a skipped update and keep the parameters before it."""
        progress = self.progress
        progress.skipped_updates += 1
        progress.skipped_in_a_row += 1
        if progress.skipped_updates <= MAX_KEPT:
            self._require_folder()
            keep_skipped_update(self.folder, self.config, progress, loss, norm)
            overflow = ", the update overflowed" if math.isfinite(loss + norm) else ""
            self.observer.warn(
                f"iteration {progress.iteration} is skipped: loss {loss}, gradient norm {norm}"
                f"{overflow}; its parameters are kept in {self.folder / NONFINITE}"
            )

    def _warn_of_skipped(self) -> None:
        skipped, iteration = self.progress.skipped_updates, self.progress.iteration
        if skipped > TOLERABLE_SHARE * iteration:
            self.observer.warn(
                f"{skipped} of {iteration} updates were skipped, more than a tenth; "
                "docs/training.md shows how to find the cause"
            )

    def _log(self, batches: IterationBatches, training_loss: float) -> None:
        """Write the line of this iteration to metrics.jsonl, if it has one."""
        iteration, training = batches.iteration, self.config.training
        line: dict[str, float | int | None] = {}
        if batches.unseen is not None:
            line |= self._measure(batches, training_loss)
        if iteration % training.log_every == 0:
            sums = self.progress.sums
            line |= {name: total / count for name, (total, count) in sums.items()}
            line["skipped_updates"] = self.progress.skipped_updates
            line |= self._scheduled()
            self.progress.sums = {}
        if iteration % training.entropy_every == 0:
            line |= self._entropies()
        if line:
            self.metrics.append({"iteration": iteration, **line})
            self.observer.log(iteration, line)
            self.log_values(iteration, line)

    def _scheduled(self) -> dict[str, float | int]:
        """The learning rate of a schedule and the lengths of a curriculum at this iteration."""
        values: dict[str, float | int] = {}
        if callable(self.rate):
            updates = self.progress.iteration - self.progress.skipped_updates
            values["learning_rate"] = float(self.rate(max(updates - 1, 0)))
        if self.config.training.curriculum != NO_CURRICULUM:
            shortest, longest = self.lengths(self.progress.iteration)
            values |= {"min_length": shortest, "max_length": longest}
        return values

    def _measure(
        self, batches: IterationBatches, training_loss: float
    ) -> dict[str, float | int | None]:
        """Apply the selection rules to the losses and the score of this iteration.

        Loss and score at the unseen length are computed with the new parameters; the training loss
        comes from the update and is NaN if that was skipped.
        """
        assert batches.unseen is not None
        loss, outputs = self.backend.measure(self.progress.model, batches.unseen)
        unseen_loss = float(loss)
        score = float(self.task.score(batches.unseen, np.asarray(outputs)).score.mean())
        self._select("unseen", unseen_loss)
        if math.isfinite(training_loss):
            self._select("seen", training_loss)
        self._select("score", score, training_loss)
        return {"unseen_loss": unseen_loss, "seen_loss": training_loss, "unseen_score": score}

    def _select(self, rule: SelectionRule, *measured: float) -> None:
        selected: Any = self.progress.rules[rule]
        if selected.selection.add(self.progress.iteration, *measured):
            selected.model = self.progress.model

    def _entropies(self) -> dict[str, float]:
        batch = entropy_batch(self.task, self.config, self.progress.iteration)
        weights = self.backend.weights(self.progress.model, batch.inputs)
        if weights is None:
            return {}
        reads, writes = weights
        return {
            "read_entropy": mean_entropy(np.asarray(reads)),
            "write_entropy": mean_entropy(np.asarray(writes)),
        }

    def _checkpoint(self, state: State, reason: str) -> None:
        self._require_folder()
        self.metrics.sync()
        save_checkpoint(self.folder, self.config, self.progress)
        self._publish(state, reason)

    def _require_folder(self) -> None:
        """Refuse to write into a folder that is not the one this process has locked."""
        if not self._is_in_place():
            raise RunError(
                f"{self.folder} was moved, deleted or replaced during training, which stops here; "
                "the last checkpoint is in the original folder"
            )

    def _publish(self, state: State, reason: str) -> None:
        """Write the selected parameters and the status."""
        self._require_folder()
        for rule, selected in self.progress.rules.items():
            iteration = selected.selection.best_iteration
            if selected.model is not None and selected.stored_iteration != iteration:
                mean = finite_or_none(selected.selection.best_mean)
                write_selected(self.folder, self.config, rule, selected.model, iteration, mean)
                selected.stored_iteration = iteration
        self._write_status(state, reason)

    def _write_status(self, state: State, reason: str) -> None:
        self._require_folder()
        progress = self.progress
        selections = {rule: selected.selection for rule, selected in progress.rules.items()}
        write_status(
            self.folder,
            run_id=self.config.run_id,
            state=state,
            reason=reason,
            iteration=progress.iteration,
            iterations=self.config.training.iterations,
            skipped_updates=progress.skipped_updates,
            best_iteration={rule: s.best_iteration for rule, s in selections.items()},
            running_mean={rule: finite_or_none(s.best_mean) for rule, s in selections.items()},
            seconds=round(self._seconds_before + time.monotonic() - self._began, 3),
        )

    def _snapshot(self, loss: float) -> Snapshot:
        unseen = self.progress.rules[PAPER_RULE].selection
        return Snapshot(
            self.progress.iteration,
            self.config.training.iterations,
            loss,
            unseen.mean,
            unseen.best_iteration,
            self.progress.skipped_updates,
        )
