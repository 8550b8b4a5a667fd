"""The lengths of training batches, iteration by iteration."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import TypeAlias

from constrained_dnc.config import TrainingConfig
from constrained_dnc.errors import SettingError
from constrained_dnc.lengths import NO_CURRICULUM, parse_curriculum
from constrained_dnc.plugins import is_import_path, load_function

Curriculum: TypeAlias = Callable[[int], tuple[int, int]]
"""The shortest and the longest input of an iteration; iterations count from 1."""


def make_curriculum(config: TrainingConfig) -> Curriculum:
    """The training lengths of the config: stages, a user-defined function, or always the same.

    >>> lengths = make_curriculum(TrainingConfig(min_length=1, curriculum="0:1..5,100:2..8"))
    >>> lengths(1), lengths(100), lengths(101)
    ((1, 5), (1, 5), (2, 8))
    """
    shortest, longest, text = config.min_length, config.max_length, config.curriculum
    if text == NO_CURRICULUM:
        return lambda iteration: (shortest, longest)
    if is_import_path(text):
        return _checked(config)
    stages = parse_curriculum(text, shortest, longest)

    def staged(iteration: int) -> tuple[int, int]:
        stage = [stage for stage in stages if stage.iterations < iteration][-1]
        return stage.shortest, stage.longest

    return staged


def _checked(config: TrainingConfig) -> Curriculum:
    """A user-defined function of the number of iterations so far."""
    function = load_function("training.curriculum", config.curriculum)
    shortest, longest = config.min_length, config.max_length

    def lengths(iteration: int) -> tuple[int, int]:
        value = function(iteration - 1)
        match value:
            case (Integral(), Integral()) if shortest <= value[0] <= value[1] <= longest:
                return int(value[0]), int(value[1])
        raise SettingError(
            f"training.curriculum {config.curriculum} must return the shortest and the longest "
            f"length, from {shortest} to {longest}, not {value!r} at iteration {iteration - 1}"
        )

    return lengths
