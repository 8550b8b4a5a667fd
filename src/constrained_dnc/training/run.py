"""A run on disk: its config, status, metrics and selected parameters."""

from __future__ import annotations

import dataclasses
import math
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from constrained_dnc import zoo
from constrained_dnc.config import (
    PAPER_RULE,
    RULES,
    Config,
    EvaluationConfig,
    Inference,
    SelectionRule,
    TrainingConfig,
    as_dict,
    with_absolute_paths,
)
from constrained_dnc.errors import RunError, SettingError, one_of, require_integer
from constrained_dnc.files import (
    Tensors,
    corruption_named,
    is_locked,
    make_folder,
    read_file,
    read_json,
    read_tensors,
    refuse_link,
    write_atomically,
    write_json,
    write_tensors,
)
from constrained_dnc.model import fused
from constrained_dnc.model.backend import AbstractBackend, choose_backend
from constrained_dnc.model.config import GROWING, BackendChoice, MemorySize, require_memory_size
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.growing import Growing, growing_memory
from constrained_dnc.model.leaves import name_leaves, with_fields
from constrained_dnc.plugins import (
    COPIES,
    copy_name,
    fingerprints,
    remember,
    require_trust,
    sources,
)
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.tasks.task import AbstractTask
from constrained_dnc.training.folder import (
    CONFIG,
    LOCK,
    METRICS,
    SELECTED,
    STATUS,
    Status,
    read_status,
    write_status,
)
from constrained_dnc.training.loggers import logger
from constrained_dnc.training.metrics import parse_lines
from constrained_dnc.training.parameters import (
    initial_model,
    load_model,
    parameters_of,
    with_parameters,
)

PACKAGES = ("constrained-dnc", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy")

PLANNED_BACKEND = "auto"
"""The backend of a run that has not begun."""


@dataclass(frozen=True)
class Run:
    """A run directory, opened for reading; make one with `train` or `load_run`."""

    folder: Path
    config: Config
    backend: str
    """fused, pure, the qualified class name of a user-defined backend, or auto: not yet chosen."""
    threads: int
    """How many threads shared a batch in the backend fused."""
    task_name: str = ""
    """The name of the task, as in results; it is known without importing a user-defined task."""

    @cached_property
    def task(self) -> AbstractTask:
        return get_task(self.config.task)

    @property
    def is_planned(self) -> bool:
        """Whether the run has not begun: a study has only written its config."""
        return self.backend == PLANNED_BACKEND

    @property
    def status(self) -> Status:
        """The stored status; `interrupted` if it says training but no process holds the lock."""
        if self.is_planned:
            iterations, nothing = self.config.training.iterations, dict.fromkeys(RULES)
            return Status("planned", "", 0, iterations, 0, nothing, nothing, 0.0, "")
        status = self._read_status()
        if status.state == "training" and not is_locked(self.folder / LOCK):
            status = self._read_status()  # it may have just ended
            if status.state == "training":
                reason = "its process has died"
                return dataclasses.replace(status, state="interrupted", reason=reason)
        return status

    def _read_status(self) -> Status:
        status = read_status(self.folder)
        self._require_own(self.folder / STATUS, status.run_id)
        return status

    def _require_own(self, path: Path, run_id: str) -> None:
        """Refuse a file of another run; files without the id of a run are accepted."""
        if run_id not in ("", self.config.run_id):
            raise RunError(f"{path} belongs to another run, {run_id}")

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl; corrupt ones are skipped with a warning."""
        path = self.folder / METRICS
        return parse_lines(path, read_file(path), logger.warning)

    @property
    def model(self) -> DNC:
        """The model with the parameters of the default rule."""
        return self.selected().model

    @property
    def rules(self) -> list[SelectionRule]:
        """The selection rules whose parameters are in the folder."""
        return [rule for rule in RULES if (self.folder / SELECTED[rule]).exists()]

    @property
    def default_rule(self) -> SelectionRule:
        """`score` if its parameters are in the folder, else the paper's rule, else any other."""
        rules: list[SelectionRule] = ["score", PAPER_RULE, *self.rules]
        return next((rule for rule in rules if rule in self.rules), PAPER_RULE)

    @property
    def is_pretrained(self) -> bool:
        """Whether this is a pretrained model, which is read-only."""
        return self.folder.resolve().is_relative_to(zoo.MODELS.resolve())

    def selected(self, rule: SelectionRule | None = None) -> TrainedModel:
        """The model with the parameters that a rule selected, by default the default rule.

        Args:
            rule: `unseen`, `seen` or `score`; training/selection.py says how they select.
        """
        path, tensors, metadata = self.read_selected(rule)
        return TrainedModel(
            lambda: load_model(self.config, tensors, path),
            self.task,
            self.config.training,
            self.config.evaluation,
            name=str(self.folder),
            run=self,
            rule=metadata["selection"],
            iteration=metadata["iteration"],
            running_mean=metadata["running_mean"],
        )

    def read_selected(
        self, rule: SelectionRule | None = None
    ) -> tuple[Path, Tensors, dict[str, Any]]:
        """The file of the parameters that a rule selected, its tensors and its metadata.

        Args:
            rule: A selection rule, by default the default rule.
        """
        rule = self.default_rule if rule is None else rule
        if rule not in RULES:
            raise SettingError("selection", rule, one_of(RULES))
        path = self.folder / SELECTED[rule]
        if not self.rules:
            raise RunError(f"{self.folder} has no selected parameters yet")
        if not path.exists():
            name = "/".join(self.folder.parts[-2:]) if self.is_pretrained else self.folder
            available = ", ".join(self.rules)
            raise SettingError(
                f"{name} has no parameters selected by {rule!r}; available: {available}"
            )
        tensors, metadata = read_tensors(path)
        if metadata.get("selection") != rule:
            raise RunError(f"{path} does not hold parameters selected by {rule!r}")
        self._require_own(path, metadata.get("run", ""))
        return path, tensors, metadata


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model with its task and its origin: the run it was trained in, if any, and how."""

    load: Callable[[], DNC]
    task: AbstractTask
    training: TrainingConfig
    """Has the lengths that the model was trained on."""
    settings: EvaluationConfig
    """Of its evaluation."""
    name: str = "model"
    """A run directory, zoo:TASK/APPROACH, or any name for a model without a run."""
    run: Run | None = None
    rule: str = ""
    """That selected the parameters."""
    iteration: int = 0
    """The updates after which the model had these parameters."""
    running_mean: float | None = None
    """The running mean of the loss or score that selected them."""
    inference: Inference = "network"
    state_count: float = math.nan
    """How many states a digital model has."""

    @cached_property
    def model(self) -> DNC:
        """The network, or with its digital parts; made when needed, as a page lists many."""
        return self.load()

    @property
    def slots(self) -> int:
        """The number of slots in training."""
        if self.run is not None:
            return self.run.config.model.memory_size
        size = self.model.memory.size
        return size.start if isinstance(size, Growing) else size

    @property
    def training_lengths(self) -> tuple[int, int]:
        """The shortest and the longest input in training."""
        return self.training.min_length, self.training.max_length

    def memory(self, size: MemorySize) -> int | Growing:
        """The memory that the model is to run with."""
        require_memory_size(size)
        return growing_memory(self.slots) if size == GROWING else size

    def backend(
        self, choice: BackendChoice = "auto", threads: int | None = None
    ) -> AbstractBackend:
        """A backend for the model, not necessarily the one it was trained with."""
        return choose_backend(choice, self.model, self.task.loss, threads=threads)


def load_run(folder: str | Path, *, trust_code: bool = False) -> Run:
    """Open a run for reading.

    Args:
        folder: A run directory, or the name of a pretrained model, zoo:TASK/APPROACH.
        trust_code: Whether user-defined code that the run names may be executed. Without it such a
            run is refused unless this user has trained with the code as it is now.
    """
    run = open_run(folder)
    if run.config.user_code:
        path = run.folder / CONFIG
        then = read_json(path).get("sources", {})
        for name in require_trust(path, run.config.user_code, then, trust_code=trust_code):
            logger.warning(f"{name} changed since {run.folder} was trained; scores may differ")
    return run


def open_run(folder: str | Path) -> Run:
    """Open a run directory whose user-defined code the caller trusts."""
    folder = zoo.find(folder) if zoo.is_name(folder) else _snapshot(Path(folder))
    path = folder / CONFIG
    if not path.is_file():
        hint = (
            f"{zoo.PREFIX}{folder}" in zoo.pretrained() and f"; did you mean {zoo.PREFIX}{folder}?"
        )
        raise SettingError(f"{folder} is not a run directory: it has no {CONFIG}{hint or ''}")
    stored = read_json(path)
    with corruption_named(path):
        config = Config.from_dict(stored["config"])
        backend, threads = str(stored["backend"]), int(stored["threads"])
        run_id, task_name = str(stored["run_id"]), str(stored.get("task", config.task))
    if run_id != config.run_id:
        raise RunError(
            f"{path} was edited: its settings are not those of the run {run_id}; restore them, or "
            "train in another folder"
        )
    return Run(folder, config, backend, threads, task_name)


def _snapshot(folder: Path) -> Path:
    """The folder itself or, in the cache of the Hugging Face Hub, that of its branch `main`."""
    branch = folder / "refs" / "main"
    return folder / "snapshots" / branch.read_text().strip() if branch.is_file() else folder


def changed_sources(run: Run) -> list[str]:
    """The user-defined files and modules that were edited after the run began."""
    if not run.config.user_code:
        return []
    then = read_json(run.folder / CONFIG).get("sources", {})
    now = fingerprints("run", run.config.user_code)
    return [path for path, digest in now.items() if then.get(path, digest) != digest]


def save_run(
    model: DNC,
    config: Config,
    folder: str | Path,
    *,
    iteration: int | None = None,
    selection: SelectionRule = "score",
) -> Run:
    """Make a run directory from a model trained in another loop; every command can read it.

    Args:
        model: The trained model.
        config: Describes the model: its task, approach and sizes.
        folder: The run directory to make; it must be empty or absent.
        iteration: The number of updates, by default as in the config.
        selection: The rule under which the parameters are stored; commands use `score` by default.
    """
    config, folder = with_absolute_paths(config), Path(folder)
    if selection not in RULES:
        raise SettingError("selection", selection, one_of(RULES, selection))
    iteration = config.training.iterations if iteration is None else iteration
    require_integer("iteration", iteration, 0)
    model = _single_precision(config, model)
    make_folder(folder, "folder")
    if any(folder.iterdir()):
        raise SettingError(f"{folder} is not empty; save the model in another folder")
    write_config(folder, config, "pure", threads=1)
    (folder / METRICS).touch()
    write_selected(folder, config, selection, model, iteration, mean=None)
    write_status(
        folder,
        run_id=config.run_id,
        state="finished",
        reason="saved by save_run",
        iteration=iteration,
        iterations=iteration,
        skipped_updates=0,
        best_iteration={rule: iteration if rule == selection else None for rule in RULES},
        running_mean=dict.fromkeys(RULES),
        seconds=0.0,
    )
    return open_run(folder)


def _single_precision(config: Config, model: DNC) -> DNC:
    """The model with parameters in single precision; refused unless the config describes it."""
    expected = initial_model(config)
    model = with_fields(model, training_lengths=expected.training_lengths)
    parameters, others = eqx.partition(model, eqx.is_inexact_array)
    parameters = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), parameters)
    try:
        with_parameters(expected, name_leaves(parameters, "parameters"))
    except RunError as error:
        raise SettingError(f"config does not describe this model: {error}") from error
    if not eqx.tree_equal(others, eqx.filter(expected, eqx.is_inexact_array, inverse=True)):
        raise SettingError(
            "config does not describe this model: it has the same parameters, but not the parts "
            f"and settings of {config.approach.name} with {config.model.memory_size} slots"
        )
    return eqx.combine(parameters, others)


def load_pretrained(
    task: str, approach: str, selection: SelectionRule | None = None
) -> tuple[DNC, AbstractTask]:
    """A pretrained model and its task.

    Args:
        task: The name of a task, such as `sort`.
        approach: The name of an approach, such as `compr+reg`; `cdnc zoo` lists what there is.
        selection: A selection rule. All models come with the parameters selected by `score`, some
            also with those of another rule.
    """
    run = load_run(f"{zoo.PREFIX}{task}/{approach}")
    return run.selected(selection).model, run.task


def write_config(folder: Path, config: Config, backend: str, threads: int) -> None:
    """Store what the results depend on, without times: equal runs have equal files."""
    stored: dict[str, Any] = {
        "run_id": config.run_id,
        "config": as_dict(config),
        "backend": backend,
        "threads": threads,
        **environment(),
    }
    if (name := get_task(config.task).name) != config.task:
        stored["task"] = name
    if config.user_code:
        stored["sources"] = fingerprints("task", config.user_code)
        _copy_code(folder, config, stored["sources"])
        remember(config.user_code)
    write_json(folder / CONFIG, stored)


def _copy_code(folder: Path, config: Config, digests: Mapping[str, str]) -> None:
    """Keep the text of user-defined files in the run, so that it can be sent."""
    refuse_link(folder / COPIES)
    for path, text in sources("task", config.user_code).items():
        copy = folder / copy_name(path, digests[path])
        make_folder(copy.parent)
        write_atomically(copy, text)


def stored_sources(folder: Path) -> dict[str, bytes]:
    """The text that a run keeps of its user-defined files, by their paths when it was made."""
    digests = read_json(folder / CONFIG).get("sources", {})
    copies = {path: folder / copy_name(path, digest) for path, digest in digests.items()}
    return {path: read_file(copy) for path, copy in copies.items() if copy.is_file()}


def plan_run(folder: Path, config: Config) -> None:
    """Make the folder of a run that is to be trained later, on one thread."""
    make_folder(folder)
    write_config(folder, config, PLANNED_BACKEND, threads=1)


def replace_config(folder: Path, config: Config) -> None:
    """Replace the stored config; versions and machine stay as they were at the start."""
    write_json(folder / CONFIG, read_json(folder / CONFIG) | {"config": as_dict(config)})


def environment() -> dict[str, Any]:
    """Library versions and machine: the last bits of a result depend on them."""
    return {
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in PACKAGES},
        },
        "platform": {
            "system": platform.platform(),
            "machine": platform.machine(),
            "device": jax.default_backend(),
            "simd": next(iter(fused.simd_levels()), None),
        },
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # not installed
        return None


def write_selected(
    folder: Path,
    config: Config,
    rule: SelectionRule,
    model: Any,
    iteration: int | None,
    mean: float | None,
) -> None:
    """Store the parameters that a rule selected.

    Args:
        folder: The folder of the run.
        config: The config of the run.
        rule: The rule.
        model: A DNC with the parameters.
        iteration: The number of updates after which the model had them.
        mean: The running mean of the loss or score that selected them, if any.
    """
    metadata = {
        "run": config.run_id,
        "iteration": iteration,
        "running_mean": mean,
        "selection": rule,
    }
    tensors = name_leaves(parameters_of(model), "parameters")
    write_tensors(folder / SELECTED[rule], tensors, metadata)
