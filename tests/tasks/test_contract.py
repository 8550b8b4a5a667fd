"""check_task says in one sentence what is wrong with a user-defined task."""

import subprocess
import sys

import numpy as np
import pytest

from constrained_dnc.errors import SettingError
from constrained_dnc.tasks.contract import check_task
from constrained_dnc.tasks.logic import Logic
from constrained_dnc.tasks.numeral import Copy
from constrained_dnc.tasks.registry import task_names
from constrained_dnc.tasks.search import Search
from typing_off import without_shape_checks


@pytest.mark.parametrize("name", task_names())
def test_built_in_tasks_keep_it(name):
    check_task(name)


def changed(change, base=Copy):
    """A class whose batches are changed in place."""

    def encode(self, problems):
        batch = base.encode(self, problems)
        change(batch)
        return batch

    return type("Changed", (base,), {"encode": encode})


def with_rule(rule):
    return type("Mine", (Copy,), {"name": "mine", "rule": lambda self, numerals: rule(numerals)})


def shorten(batch):
    object.__setattr__(batch, "mask", batch.mask[:-1])


def with_noise(batch):
    batch.inputs[0] = np.random.default_rng().normal()


def with_infinity(batch):
    batch.targets[-1] = np.inf


def without_mask(batch):
    batch.mask[:] = False


def with_late_mask(batch):
    batch.mask[-1] = True


def overridden(base=Copy, **members):
    return type("Overridden", (base,), members)


@pytest.mark.parametrize(
    ("task", "flaw"),
    [
        (overridden(name=" "), "name must be text"),
        (overridden(input_channels=("a", "a")), "input_channels must be a tuple of different"),
        (overridden(loss="hinge"), "or a method loss(self, outputs, batch), not 'hinge'"),
        (overridden(num_numerals=1), "num_numerals of the task copy must be an integer"),
        (changed(shorten), "at length 1: mask must be bool of shape (4, 5), not bool of shape"),
        (changed(with_infinity), "targets must be finite"),
        (changed(with_noise), "inputs must be determined by the key"),
        (changed(without_mask), "the mask must select a step of every sample"),
        (changed(with_late_mask, Search), "not select steps after the last one of a sample"),
        (overridden(format_problem=lambda self, _: "0"), "must be the problem, (2,)"),
        (overridden(solve=lambda self, _: (7,)), "but solve(problem) is (7,) for "),
        (overridden(length_of=lambda self, problem: 9), "at length 1: length_of(problem) is 9"),
        (
            overridden(grade=lambda self, batch, _: Copy.grade(self, batch, batch.targets)),
            "the score of outputs that are not finite must be below 1, not [1. 1. 1. 1. 1.]",
        ),
        (
            overridden(Logic, grade=lambda self, batch, out: Logic.grade(self, batch, -out)),
            "the score of perfect outputs must be 1 for each sample",
        ),
        (overridden(encoding_steps=lambda self, _: 99), "encoding_steps(length) is 99, not from 1"),
        (overridden(parse=lambda self, _: {}["?"]), "failed ("),
    ],
)
def test_a_flaw_is_named(task, flaw):
    with pytest.raises(SettingError) as refused:
        check_task(task())
    assert flaw in str(refused.value)
    assert "\n" not in str(refused.value)


RULES = {
    "returned int64 of shape (5, 0), not integers of shape (5, 1)": lambda n: n[:, 1:],
    "returned object of shape (), not": lambda n: None,
    "returned 9, which is not among the numerals from 0 to 4": lambda n: 9 + 0 * n,
    "returned float64 of shape (5, 1), not": lambda n: n / 2,
    "failed (": lambda n: n[:, 99],
}


@pytest.mark.parametrize(("sentence", "rule"), RULES.items(), ids=range(len(RULES)))
def test_what_is_wrong_with_a_rule_is_said_in_one_sentence(sentence, rule):
    with pytest.raises(SettingError) as refused:
        check_task(with_rule(rule)())
    assert str(refused.value).startswith(f"the rule of the task mine {sentence}")
    assert "\n" not in str(refused.value)


def test_commands_say_it_without_a_traceback(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from constrained_dnc import AbstractNumeralTask\n\n\n"
        "class Mine(AbstractNumeralTask):\n"
        "    name = summary = 'mine'\n\n"
        "    def rule(self, numerals):\n"
        "        return numerals[:, 99]\n"
    )
    command = [sys.executable, "-m", "constrained_dnc", "show", "mine.py:Mine"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode
    assert "the rule of the task mine failed (" in done.stderr
    assert "mine.py, line 8: IndexError: index 99 is out of bounds" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_class_in_place_of_a_task_is_refused():
    with without_shape_checks(), pytest.raises(SettingError, match="must be an AbstractTask"):
        check_task(Copy)
