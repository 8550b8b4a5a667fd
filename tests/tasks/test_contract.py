"""The contract finds what is wrong with a task of your own."""

import subprocess
import sys

import numpy as np
import pytest

from constrained_dnc.errors import SettingError
from constrained_dnc.tasks.contract import check_task
from constrained_dnc.tasks.copy import Copy
from constrained_dnc.tasks.logic import Logic
from constrained_dnc.tasks.registry import get_task, task_names
from constrained_dnc.tasks.search import Search


@pytest.mark.parametrize("name", task_names())
def test_every_task_keeps_it(name):
    check_task(name)
    check_task(get_task(name))


class Unnamed(Copy):
    name = " "


class Twins(Copy):
    input_channels = ("numeral", "numeral")


class OtherLoss(Copy):
    loss = "hinge"


class Short(Copy):
    def encode(self, problems):
        batch = super().encode(problems)
        object.__setattr__(batch, "mask", batch.mask[:-1])
        return batch


class Infinite(Copy):
    def encode(self, problems):
        batch = super().encode(problems)
        batch.targets[-1] = np.inf
        return batch


class Chance(Copy):
    def encode(self, problems):
        batch = super().encode(problems)
        batch.inputs[0] = np.random.default_rng().normal()
        return batch


class Unmasked(Copy):
    def encode(self, problems):
        batch = super().encode(problems)
        batch.mask[:] = False
        return batch


class Late(Search):
    def encode(self, problems):
        batch = super().encode(problems)
        batch.mask[-1] = True
        return batch


class Mute(Copy):
    def format_problem(self, problem):
        return "0"


class OffByOne(Copy):
    def solve(self, problem):
        return tuple((numeral + 1) % 5 for numeral in problem)


class Deep(Copy):
    def length_of(self, problem):
        return len(problem) + 1


class Generous(Copy):
    def grade(self, batch, outputs):
        return super().grade(batch, batch.targets)


class Strict(Logic):
    def grade(self, batch, outputs):
        return super().grade(batch, -outputs)


class Endless(Copy):
    def encoding_steps(self, length):
        return self.num_steps(length) + 1


@pytest.mark.parametrize(
    ("task", "promise"),
    [
        (Unnamed, "name is a text"),
        (Twins, "input_channels is a tuple of different names"),
        (OtherLoss, "loss is one of squared error, cross-entropy"),
        (Short, r"mask is bool of shape \(4, 5\), which it is not at length 1"),
        (Infinite, "targets is finite"),
        (Chance, "inputs is the same for the same key"),
        (Unmasked, "every sample has steps in its mask"),
        (Late, ".*none after its last one"),
        (Mute, r"parse\(format_problem\(problem\)\) is the problem"),
        (OffByOne, r"decode of perfect outputs is solve\(problem\)"),
        (Deep, r"length_of\(problem\) is the length"),
        (Generous, "the score of outputs that are not finite"),
        (Strict, "the score of perfect outputs is 1"),
        (Endless, r"encoding_steps\(1\) is from 1"),
    ],
)
def test_a_broken_promise_is_named(task, promise):
    with pytest.raises(
        SettingError, match=f"task is '{task.__name__}'; accepted: one where {promise}"
    ):
        check_task(task())


def test_a_class_in_place_of_a_task_is_refused():
    """In a process without the tests' type checks, as users call it."""
    script = "from constrained_dnc import check_task, tasks; check_task(tasks.copy.Copy)"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "accepted: an AbstractTask, such as MyTask()" in done.stderr.splitlines()[-1]
