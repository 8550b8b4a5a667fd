"""Runs that do not fit into the machine's memory are refused before anything is made."""

from dataclasses import replace

import pytest

from constrained_dnc.config import make_config
from constrained_dnc.errors import SettingError
from constrained_dnc.tasks import get_task
from constrained_dnc.training.loop import train
from constrained_dnc.training.room import check_memory_for_batches
from constrained_dnc.training.run import initial_model
from tiny_runs import tiny_config


@pytest.mark.parametrize("name", ["hidden_size", "word_size", "num_reads"])
@pytest.mark.parametrize("size", [10**6, 2**31 - 1])
def test_a_model_that_memory_cannot_hold_is_refused(name, size):
    """Before it is made: XLA would end the process."""
    config = tiny_config()
    model = replace(config.model, **{"hidden_size": 10**4, name: size})
    with pytest.raises(
        SettingError, match=rf"model\.{name} is {size}; accepted: a size that can be"
    ):
        initial_model(replace(config, model=model))


@pytest.mark.parametrize(
    ("part", "name", "size"),
    [
        ("training", "batch_size", 10**9),
        ("training", "batch_size", 2**31 - 1),
        ("evaluation", "batch_size", 10**9),
        ("model", "memory_size", 10**7),
    ],
)
def test_a_batch_that_memory_cannot_hold_is_refused(tmp_path, part, name, size):
    """Before it is drawn: the system may end the process that asks for too much."""
    config = tiny_config()
    config = replace(config, **{part: replace(getattr(config, part), **{name: size})})
    with pytest.raises(SettingError, match=rf"{part}\.{name} is {size}; accepted: a size that can"):
        train(config, tmp_path / "run", threads=1)


def test_a_large_batch_that_fits_is_not_refused():
    config = make_config("sort", "reg")  # 3.7 kB a step and sample, 62 steps
    config = replace(config, training=replace(config.training, batch_size=1000))
    check_memory_for_batches(config, get_task("sort"))
