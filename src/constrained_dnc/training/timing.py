"""How long a training will take, from a few iterations on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import SupportsFloat

from constrained_dnc.config import Config
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.run import backend_for, initial_model


def estimate_seconds(config: Config) -> float:
    """The time of a run's updates and measurements on one core."""
    training, task = config.training, get_task(config.task)
    model = initial_model(config)
    backend = backend_for(config, model, threads=1)
    seen = task.sample(0, training.batch_size, (training.min_length + training.max_length) // 2)
    unseen = task.sample(0, training.batch_size, training.unseen_length)
    update = _seconds(lambda: backend.value_and_grad(model, seen)[0])
    measure = _seconds(lambda: backend.measure(model, unseen)[0])
    return (update + measure / training.measure_every) * training.iterations


def _seconds(loss: Callable[[], SupportsFloat]) -> float:
    """The mean of three times, after one that may compile."""
    float(loss())
    start = time.perf_counter()
    for _ in range(3):
        float(loss())
    return (time.perf_counter() - start) / 3
