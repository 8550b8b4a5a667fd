"""Studies made up for tests and benchmarks: realistic in shape, not results of anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from constrained_dnc.config import PRESETS, Config, parse_lengths
from constrained_dnc.evaluation.analyses import analyse_modes, analyse_states
from constrained_dnc.evaluation.results import results_frame
from constrained_dnc.files import read_json, write_arrays, write_json, write_table
from constrained_dnc.parts import APPROACHES, Approach
from constrained_dnc.report import published
from constrained_dnc.tasks.registry import BUILT_IN
from constrained_dnc.training.folder import ANALYSES, CONFIG, EVALUATION
from constrained_dnc.training.run import plan_run


@dataclass(frozen=True)
class Request:
    """What the made-up study holds."""

    tasks: Sequence[str] = ("sort", "copy")
    approaches: Sequence[str] = published.APPROACHES
    trials: int = 3
    iterations: int = 20_000
    extended: bool = True
    analysis: bool = True
    samples: int = 64
    preset: str = "paper"
    """Whose lengths, slots and settings the study has."""
    selections: Sequence[str] = ("unseen",)
    growing: bool = False
    stages: Sequence[int] = ()
    """Shorter trainings that the study grew from, in iterations."""

    @property
    def memories(self) -> list[str]:
        """The memories that runs are scored with."""
        size = PRESETS[self.preset].model.memory_size
        return [str(size), *[str(10 * size)] * self.extended, *["growing"] * self.growing]


OTHER = "copy"
"""The task of runs whose task is made up, too."""


@cache
def config_of(
    task: str,
    approach: str,
    seed: int,
    preset: str = "paper",
    iterations: int = 20_000,
    memories: str = "default",
) -> Config:
    """The config of a made-up run; approaches that are not built in have no constraints."""
    model, training, evaluation = PRESETS[preset].parts
    parts = (
        model,
        replace(training, iterations=iterations),
        replace(evaluation, memories=memories),
    )
    task = task if task in BUILT_IN else OTHER
    return Config(task, APPROACHES.get(approach, Approach(approach)), seed, *parts)


def plan(study: Path, task: str, config: Config) -> Path:
    """The folder of a new run of a study, whose task has this name, whatever it is."""
    folder = run_folder(study, task, config.approach.name, config.seed)
    plan_run(folder, config)
    write_json(folder / CONFIG, read_json(folder / CONFIG) | {"task": task})
    return folder


def run_id(task: str, approach: str, seed: int) -> str:
    """The id of a made-up run of the preset paper."""
    return config_of(task, approach, seed).run_id


def run_folder(study: Path, *trial: object) -> Path:
    """The folder of a run by task, approach and seed."""
    return study / "runs" / "-".join(map(str, trial))


def write_study(path: Path, request: Request | None = None) -> Path:
    """Write a study whose maximum lengths are near the paper's."""
    request = request or Request()
    rng = np.random.default_rng(7)
    (path / "runs").mkdir(parents=True, exist_ok=True)
    for trial in product(request.tasks, request.approaches, range(request.trials)):
        config, quality = _config(request, *trial), rng.normal(1.0, 0.15)
        folder = plan(path, trial[0], config)
        rows = _rows(request, *trial, quality=quality, rng=rng)
        write_table(folder / EVALUATION, results_frame(rows))
        if request.analysis:
            is_stateless = config.approach.name == "stateless-baseline"
            _write_analysis(folder, is_stateless, quality, request.samples, rng)
    command = "cdnc reproduce --preset synthetic --tasks " + " ".join(published.TASKS * 3)
    facts = {"preset": "synthetic", "command": command, "created": "2025-01-01T12:00:00"}
    write_json(path / "study.json", facts)
    return path


def _config(request: Request, task: str, approach: str, seed: int) -> Config:
    memories = ",".join(request.memories)
    return config_of(task, approach, seed, request.preset, request.iterations, memories)


def row(
    task: str, approach: str, seed: int, length: int, score: float, **other: object
) -> dict[str, object]:
    """One result row of a finished run."""
    return {
        "run_id": run_id(task, approach, seed),
        "task": task,
        "approach": approach,
        "seed": seed,
        "iteration": 18_000,
        "selection": "unseen",
        "length": length,
        "memory": "50",
        "inference": "network",
        "batches": 10,
        "batch_size": 64,
        "score_kind": "hit rate" if task == "search" else "accuracy",
        "score": score,
        "sequence_accuracy": score**length,
        "recall": score if task == "search" else None,
        "floor": {"logic": 0.52, "add": 0.5}.get(task, 0.2),
        "skipped_updates": 0,
        "iterations": 20_000,
        "status": "finished",
        "state_count": 16.0,
        **other,
    }


def _write_analysis(
    folder: Path,
    is_stateless: bool,
    quality: float,
    samples: int,
    rng: np.random.Generator,
) -> None:
    """Loops for good instances, a drift for bad ones; no states without a state."""
    arrays: dict[str, np.ndarray] = {}
    if not is_stateless:
        arrays |= analyse_states(_states(quality, samples, rng), encoding_steps=31)
    gate = rng.beta(*((8, 1) if quality > 1 else (2, 2)), size=(32, samples))
    gate[16:] = 1 - gate[16:]
    modes = rng.dirichlet((1, 1, 4 * quality), size=(32, samples, 4))
    arrays |= analyse_modes(gate, modes, encoding_steps=16)
    write_arrays(folder / ANALYSES, arrays)


def _rows(
    request: Request,
    task: str,
    approach: str,
    seed: int,
    *,
    quality: float,
    rng: np.random.Generator,
) -> Iterator[dict[str, object]]:
    key = (task, approach.removeprefix("lstm-").replace("peephole", "stateful-baseline"))
    model, _, evaluation = PRESETS[request.preset].parts
    size, lengths = model.memory_size, parse_lengths(evaluation.lengths)
    extension = parse_lengths(evaluation.extension_lengths)
    grids = dict.fromkeys(request.memories, extension) | {str(size): lengths}
    cases = product(request.selections, grids.items(), (*request.stages, request.iterations))
    for rule, (memory, lengths), iterations in cases:
        if rule == "seen" and memory != str(size):
            continue
        longest = published.max_lengths(memory == str(10 * size)).get(key, 20) * max(quality, 0.3)
        longest *= (2.0 if memory == "growing" else 1.0) * size / 50
        longest *= (iterations / request.iterations) ** 0.3
        scores = _curve(np.array(lengths), longest, row(task, approach, seed, 2, 0.0)["floor"])
        noisy = np.clip(scores + rng.normal(0, 0.004, len(lengths)), 0, 1)
        for length, score in zip(lengths, noisy, strict=True):
            yield row(
                task,
                approach,
                seed,
                length,
                float(score),
                run_id=_config(request, task, approach, seed).run_id,
                selection=rule,
                memory=memory,
                batches=10 if memory == str(size) else 3,
                iteration=iterations - 10,
                iterations=iterations,
            )


def _curve(lengths: np.ndarray, longest: float, chance: float) -> Float[np.ndarray, "lengths"]:
    """Right up to about `longest`, then down to chance."""
    fall = expit((1.35 * longest + 3 - lengths) / (0.12 * longest + 1.0))
    return np.asarray(chance + (1 - chance) * fall)


def _states(
    quality: float, samples: int, rng: np.random.Generator
) -> Float[np.ndarray, "62 samples 128"]:
    """Between five clusters if the instance is good, along a line if not."""
    centres = rng.normal(size=(5, 128))
    visits = centres[rng.integers(5, size=(62, samples))]
    drift = np.linspace(0, 4, 62)[:, None, None] * centres[0]
    noise = np.cumsum(rng.normal(0, 0.05, (62, samples, 128)), axis=0)
    loops = np.clip(quality - 0.5, 0, 1)
    return np.asarray(loops * visits + (1 - loops) * drift + noise)
