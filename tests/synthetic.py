"""Studies made up for tests and benchmarks: realistic in shape, not results of anything."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from constrained_dnc.config import PRESETS, parse_lengths
from constrained_dnc.evaluation.analyses import analyse_modes, analyse_states
from constrained_dnc.evaluation.results import results_frame
from constrained_dnc.report import published
from constrained_dnc.study import write_results


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


def write_study(path: Path, request: Request | None = None) -> Path:
    """Write a study whose maximum lengths are near the paper's."""
    request, runs = request or Request(), {}
    rng = np.random.default_rng(7)
    path.mkdir(parents=True, exist_ok=True)
    for task, approach, seed in product(request.tasks, request.approaches, range(request.trials)):
        run_id, quality = f"{task}-{approach}-{seed}", rng.normal(1.0, 0.15)
        runs[run_id] = {"task": task, "approach": approach, "seed": seed}
        frame = results_frame(_rows(request, task, approach, seed, quality=quality, rng=rng))
        for iterations, part in frame.groupby("iterations"):
            write_results(path, run_id, iterations, part)
        if request.analysis:
            is_stateless = approach == "stateless-baseline"
            _write_analysis(path, run_id, is_stateless, quality, request.samples, rng)
    (path / "study.json").write_text(json.dumps(_study_json(request, runs)))
    return path


def row(
    task: str, approach: str, seed: int, length: int, score: float, **other: object
) -> dict[str, object]:
    """One result row of a finished run."""
    return {
        "run_id": f"{task}-{approach}-{seed}",
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
    path: Path,
    run_id: str,
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
    (path / "analysis").mkdir(exist_ok=True)
    np.savez(path / "analysis" / f"{run_id}.npz", allow_pickle=False, **arrays)


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
    grids = dict.fromkeys(_memories(request, size), extension) | {str(size): lengths}
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
                selection=rule,
                memory=memory,
                batches=10 if memory == str(size) else 3,
                iteration=iterations - 10,
                iterations=iterations,
            )


def _memories(request: Request, size: int) -> list[str]:
    return [str(size), *[str(10 * size)] * request.extended, *["growing"] * request.growing]


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


def _study_json(request: Request, runs: dict[str, object]) -> dict[str, object]:
    model, training, evaluation = PRESETS[request.preset].parts
    one = {
        "tasks": list(request.tasks),
        "approaches": list(request.approaches),
        "trials": request.trials,
        "iterations": request.iterations,
    }
    settings = {"model": model, "training": training, "evaluation": evaluation}
    return {
        "preset": "synthetic",
        "requests": [one],
        "memories": _memories(request, model.memory_size),
        "settings": {part: asdict(values) for part, values in settings.items()},
        "runs": runs,
        "versions": {"constrained-dnc": "0.1.0", "jax": "0.9"},
        "platform": {"system": "a made-up machine"},
        "command": "cdnc reproduce --preset synthetic --tasks " + " ".join(published.TASKS * 3),
        "created": "2025-01-01T12:00:00",
    }
