"""Approaches: those with names, new combinations, and what is refused."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from constrained_dnc import published
from constrained_dnc.approaches import (
    APPROACHES,
    Approach,
    Regularisation,
    get_approach,
)
from constrained_dnc.errors import SettingError


def test_the_nine_of_the_paper():
    parts = {
        name: (a.controller, a.compression, a.regularisation is not None)
        for name, a in APPROACHES.items()
        if a.lookup == "every-slot"
    }
    assert tuple(parts) == published.APPROACHES + published.SUPPLEMENT_C
    assert parts == {
        "stateful-baseline": ("lstm", False, False),
        "stateless-baseline": ("feed-forward", False, False),
        "compr": ("peephole", True, False),
        "reg": ("peephole", False, True),
        "compr+reg": ("peephole", True, True),
        "peephole": ("peephole", False, False),
        "lstm-compr": ("lstm", True, False),
        "lstm-reg": ("lstm", False, True),
        "lstm-compr+reg": ("lstm", True, True),
    }
    assert get_approach("reg").regularisation == Regularisation(task_weight=0.9, num_pairs=5)


@pytest.mark.parametrize("name", ["compr+reg", "stateful-baseline"])
def test_look_up_over_used_slots_is_a_part_like_the_others(name):
    used = get_approach(f"{name}+used")
    assert used == replace(get_approach(name), name=used.name, lookup="used-slots")
    assert used.summary() == get_approach(name).summary() + ", look-up over used slots"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: get_approach("comp"), "approach is 'comp'; accepted: one of compr, compr"),
        (lambda: Approach("a b"), "approach.name is 'a b'; accepted: a word"),
        (lambda: Approach("x" * 300), "approach.name is 'xxx.* at most 80 bytes long"),
        (lambda: Approach("\x1b[31m"), r"approach.name is '\\x1b\[31m'; accepted: a word"),
        (
            lambda: Approach("x", "gru"),
            "approach.controller is 'gru'; accepted: one of feed-forward",
        ),
        (lambda: Approach("x", "feed-forward", compression=True), "approach.compression is True"),
        (
            lambda: Approach("x", "feed-forward", regularisation=Regularisation()),
            "which has no state",
        ),
        (
            lambda: Approach("x", lookup="used slots"),
            "approach.lookup is 'used slots'; accepted: one of every-slot, used-slots",
        ),
        (lambda: Regularisation(task_weight=1.5), "regularisation.task_weight is 1.5"),
        (lambda: Regularisation(num_pairs=0), "regularisation.num_pairs is 0"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(make, sentence):
    with pytest.raises(SettingError, match=sentence):
        make()


def test_errors_travel_between_processes():
    error = pickle.loads(pickle.dumps(SettingError("seed", -1, "at least 0")))
    assert str(error) == "seed is -1; accepted: at least 0"
