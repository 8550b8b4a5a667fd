"""One config for a run: what is trained, how, and how it is evaluated.

The same dataclasses are the Python interface, the command line and the file `config.json`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

from constrained_dnc import published
from constrained_dnc.approaches import APPROACHES, CONTROLLERS, Approach, get_approach
from constrained_dnc.errors import (
    LARGEST,
    LARGEST_SEED,
    SMALLEST,
    SettingError,
    coerce_numbers,
    one_of,
    require_integer,
    require_number,
)
from constrained_dnc.model.config import GROWING, MemorySize, ModelConfig, read_memory_size
from constrained_dnc.plugins import absolute
from constrained_dnc.tasks.registry import require_task_name, task_names

BELOW_ONE = 0.9999999
"""float32 rounds anything above this to 1."""
LONGEST_INPUT = 1_000_000
"""A list of lengths is not made longer by mistake than memory allows."""
SPIKE_FACTOR = 3.0
"""For the selection rule score: a loss on seen lengths above this many times its running median is
a spike."""


@dataclass(frozen=True)
class TrainingConfig:
    """How the parameters are found; the defaults are the paper's."""

    iterations: int = published.ITERATIONS
    """Updates of the parameters."""
    batch_size: int = published.BATCH_SIZE
    """Samples of one update, all of one length."""
    learning_rate: float = published.LEARNING_RATE
    """Adam's step size."""
    beta_1: float = 0.9
    """Adam beta 1, the decay of the mean gradient."""
    beta_2: float = 0.999
    """Adam beta 2, the decay of the mean squared gradient."""
    epsilon: float = 1e-8
    """Added to Adam's denominator."""
    clip_norm: float = published.CLIP_NORM
    """Gradients with a larger global norm are scaled down to it."""
    min_length: int = published.TRAINING_LENGTHS[0]
    """Shortest input in training."""
    max_length: int = published.TRAINING_LENGTHS[1]
    """Longest input in training; every batch has a length drawn uniformly from the range."""
    unseen_length: int = published.UNSEEN_LENGTH
    """Length of the inputs whose loss selects the parameters."""
    measure_every: int = 10
    """Iterations between two measurements of the loss that selects."""
    window: int = 500
    """Measurements in the running mean that selects."""
    log_every: int = 100
    """Iterations averaged in one line of metrics.jsonl."""
    entropy_every: int = 1000
    """Iterations between two looks at the entropy of read and write weights."""
    checkpoint_every: int = 1000
    """Iterations between two checkpoints."""

    def __post_init__(self) -> None:
        for name in (
            "iterations",
            "batch_size",
            "min_length",
            "unseen_length",
            "measure_every",
            "window",
            "log_every",
            "entropy_every",
            "checkpoint_every",
        ):
            require_integer(f"training.{name}", getattr(self, name), 1)
        require_integer("training.max_length", self.max_length, self.min_length)
        require_integer("training.iterations", self.iterations, self.measure_every)
        for name in ("learning_rate", "epsilon", "clip_norm"):
            require_number(f"training.{name}", getattr(self, name), SMALLEST)
        for name in ("beta_1", "beta_2"):
            require_number(f"training.{name}", getattr(self, name), 0.0, BELOW_ONE)
        coerce_numbers(self)


@dataclass(frozen=True)
class EvaluationConfig:
    """Which lengths are scored, on how many samples; the defaults are the paper's."""

    lengths: str = "2..100"
    """Input lengths with the memory size of training, such as 2,5..50:5 (a step of 5)."""
    batches: int = 10
    """Batches of every length."""
    extension_lengths: str = "2,5..50:5,60..100:10,150..500:50,600..1000:100"
    """Input lengths with another memory size."""
    extension_batches: int = 3
    """Batches of every length with another memory size."""
    batch_size: int = 64
    """Samples of a batch."""
    seed: int = 0
    """Which samples; never those of training, and the same for all runs."""

    def __post_init__(self) -> None:
        for name in ("batches", "extension_batches", "batch_size"):
            require_integer(f"evaluation.{name}", getattr(self, name), 1)
        require_integer("evaluation.seed", self.seed, 0, LARGEST_SEED)
        parse_lengths(self.lengths, "evaluation.lengths")
        parse_lengths(self.extension_lengths, "evaluation.extension_lengths")
        coerce_numbers(self)


@dataclass(frozen=True)
class Config:
    """Everything a run depends on.

    >>> config = make_config("sort", "compr+reg", seed=3, preset="paper")
    >>> config.training.iterations
    300000
    >>> Config.from_json(config.to_json()) == config
    True
    """

    task: str
    """A task: its name, package.module:Class or file.py:Class."""
    approach: Approach
    seed: int = 0
    """Fixes the first parameters and every batch."""
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        require_integer("seed", self.seed, 0, LARGEST_SEED)
        if not self.task:
            raise SettingError("task", self.task, f"{one_of(task_names())}, or file.py:Class")
        if not isinstance(self.approach, Approach):
            raise SettingError("approach", self.approach, "an Approach, or make_config(task, name)")
        coerce_numbers(self)
        if APPROACHES.get(self.approach.name, self.approach) != self.approach:
            raise SettingError(
                "approach.name",
                self.approach.name,
                "a name of your own for a combination of your own (--approach.name), "
                f"as {self.approach.name} stands for another",
            )

    @property
    def user_code(self) -> tuple[str, ...]:
        """The import paths in it: code that is neither ours nor of an installed entry point."""
        names = {self.task: task_names(), self.approach.controller: CONTROLLERS}
        return tuple(name for name, known in names.items() if name not in known)

    @cached_property
    def run_id(self) -> str:
        """A short name that only this config has, however many iterations are asked for.

        A longer run is the same run, only further on.
        """
        values = without_iterations(dataclasses.asdict(self))
        return hashlib.sha256(_as_text(values).encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """The config as text, the same for equal configs."""
        return _as_text(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Config:
        """The config that `to_json` wrote; unknown and missing fields are refused."""
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise SettingError("config", text[:40], f"JSON ({error})") from error
        return Config.from_dict(values)

    @staticmethod
    def from_dict(values: object) -> Config:
        """The config in plain values, as they come out of JSON."""
        config: Config = _build(Config, values, "config")
        return config


def without_iterations(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config in plain values, as it is for all lengths of a run."""
    training = {name: v for name, v in config["training"].items() if name != "iterations"}
    return {**config, "training": training}


def _as_text(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def parse_lengths(text: str, setting: str = "lengths") -> tuple[int, ...]:
    """Lengths from text: single ones and ranges, optionally with a step.

    >>> parse_lengths("2,5..20:5")
    (2, 5, 10, 15, 20)
    """
    accepted = f"integers from 1 to {LONGEST_INPUT}, ascending, such as 2..100 or 2,5..50:5"
    lengths: list[int] = []
    if not isinstance(text, str) or not text.isascii() or "_" in text:
        raise SettingError(setting, text, accepted)
    try:
        for part in text.split(","):
            span, _, step = part.partition(":")
            first, dots, last = span.partition("..")
            ends = int(first), int(last if dots else first)
            if min(ends) < 1 or max(ends) > LONGEST_INPUT:
                raise SettingError(setting, text, accepted)
            span_lengths = range(ends[0], ends[1] + 1, int(step or 1))
            if not span_lengths:
                raise SettingError(setting, text, accepted)
            lengths += span_lengths
    except ValueError as error:
        raise SettingError(setting, text, accepted) from error
    if lengths != sorted(set(lengths)):
        raise SettingError(setting, text, accepted)
    return tuple(lengths)


def parse_memory_sizes(text: str) -> list[MemorySize]:
    """Memory sizes from text, written like lengths, with or without a growing one.

    >>> parse_memory_sizes("50..100:25,growing")
    [50, 75, 100, 'growing']
    """
    if not any(sign in text for sign in (",", "..", ":")):
        return [read_memory_size(text)]
    parts = [part.strip() for part in text.split(",")]
    fixed = [part for part in parts if part != GROWING]
    try:
        numbers = parse_lengths(",".join(fixed), "memory_size") if fixed else ()
    except SettingError as error:
        accepted = f"numbers of slots in ascending order, such as 80 or 50..200:50, or {GROWING}"
        raise SettingError("memory_size", text, accepted) from error
    return [*numbers, GROWING] if GROWING in parts else [*numbers]


Parts: TypeAlias = tuple[ModelConfig, TrainingConfig, EvaluationConfig]


@dataclass(frozen=True)
class Preset:
    """The settings of a run, the budget of a study, and what to expect of both.

    `cdnc train --preset NAME` is such a run, `cdnc study --preset NAME` the study.
    """

    name: str
    model: ModelConfig
    training: TrainingConfig
    evaluation: EvaluationConfig
    tasks: tuple[str, ...]
    approaches: tuple[str, ...]
    trials: int
    run_takes: str
    study_takes: str
    result: str

    @property
    def parts(self) -> Parts:
        """What every run of it has in common."""
        return self.model, self.training, self.evaluation


SMOKE = Preset(
    "smoke",
    ModelConfig(memory_size=8, word_size=6, num_reads=1, hidden_size=16),
    TrainingConfig(
        iterations=60,
        batch_size=8,
        min_length=1,
        max_length=3,
        unseen_length=5,
        window=3,
        log_every=20,
        entropy_every=30,
        checkpoint_every=20,
    ),
    EvaluationConfig(
        lengths="2..6", batches=2, extension_lengths="2..10:4", extension_batches=1, batch_size=8
    ),
    tasks=("copy",),
    approaches=("stateful-baseline", "compr+reg"),
    trials=1,
    run_takes="seconds",
    study_takes="a minute",
    result="learns nothing",
)
QUICK = Preset(
    "quick",
    ModelConfig(memory_size=16, word_size=8, num_reads=1, hidden_size=64),
    TrainingConfig(
        iterations=6000,
        batch_size=16,
        learning_rate=4e-3,
        min_length=1,
        max_length=6,
        unseen_length=8,
        window=50,
        checkpoint_every=500,
    ),
    EvaluationConfig(
        lengths="2..30", batches=4, extension_lengths="2,5..50:5", extension_batches=2
    ),
    tasks=("copy", "sort"),
    approaches=(*published.APPROACHES, "compr+reg+used"),
    trials=3,
    run_takes="20 s",
    study_takes="a quarter of an hour on two cores",
    result="mostly solves its training lengths",
)
PAPER = Preset(
    "paper",
    ModelConfig(),
    TrainingConfig(),
    EvaluationConfig(),
    tasks=published.TASKS,
    approaches=published.APPROACHES,
    trials=published.TRIALS,
    run_takes="3 to 7 hours",
    study_takes="45 core-days or more",
    result="the paper",
)
PresetName: TypeAlias = Literal["smoke", "quick", "paper"]
PRESETS = {preset.name: preset for preset in (SMOKE, QUICK, PAPER)}


def get_preset(name: str) -> Preset:
    """The preset of that name."""
    if name not in PRESETS:
        raise SettingError("preset", name, one_of(PRESETS, name))
    return PRESETS[name]


def make_config(
    task: str, approach: str | Approach, *, seed: int = 0, preset: str = "paper"
) -> Config:
    """The config of a preset; change it with `dataclasses.replace`."""
    parts = get_preset(preset).parts
    if not isinstance(approach, Approach):
        approach = get_approach(approach)
    require_task_name(task)
    return with_absolute_paths(Config(task, approach, seed, *parts))


def with_absolute_paths(config: Config) -> Config:
    """The config with absolute paths to your own files, so that it is valid in any folder."""
    controller = absolute(config.approach.controller)
    approach = dataclasses.replace(config.approach, controller=controller)
    return dataclasses.replace(config, task=absolute(config.task), approach=approach)


def with_min_iterations(config: Config, iterations: int) -> Config:
    """The config with at least that many iterations: more of them change nothing before."""
    most = max(config.training.iterations, iterations)
    return dataclasses.replace(
        config, training=dataclasses.replace(config.training, iterations=most)
    )


def differences(ours: Config, theirs: Config) -> list[str]:
    """The fields in which two configs differ, each with both values."""
    return differing(dataclasses.asdict(ours), dataclasses.asdict(theirs))


def differing(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """The same for configs in plain values."""
    return list(_differences(ours, theirs, ""))


def _differences(ours: Any, theirs: Any, path: str) -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in {**ours, **theirs}:
            mine, other = ours.get(name, "nothing"), theirs.get(name, "nothing")
            yield from _differences(mine, other, f"{path}.{name}" if path else name)
    elif ours != theirs:
        yield f"{path} ({ours!r} and {theirs!r})"


def _build(kind: Any, value: object, path: str) -> Any:
    """A value of type `kind` from plain JSON values, or SettingError with its path."""
    if isinstance(kind, types.UnionType):  # only `Something | None` occurs
        (kind,) = (option for option in typing.get_args(kind) if option is not types.NoneType)
        return None if value is None else _build(kind, value, path)
    if is_dataclass(kind):
        return _build_dataclass(kind, value, path)
    if kind is float and type(value) is int:
        if abs(value) > LARGEST:  # perhaps of hundreds of digits, which no float can hold
            raise SettingError(path, value, f"a number up to {LARGEST:g}")
        return float(value)
    if type(value) is not kind:
        raise SettingError(path, value, f"a value of type {kind.__name__}")
    return value


def _build_dataclass(kind: Any, value: object, path: str) -> Any:
    names: Sequence[str] = [entry.name for entry in fields(kind)]
    if not isinstance(value, Mapping):
        raise SettingError(path, value, f"the fields {', '.join(names)}")
    for name in (*value, *names):
        if name not in names:
            raise SettingError(path, name, f"the fields {', '.join(names)}")
        if name not in value:
            raise SettingError(path, sorted(value), f"all of its fields; {name} is missing")
    hints = typing.get_type_hints(kind)
    return kind(**{name: _build(hints[name], value[name], f"{path}.{name}") for name in names})
