"""Approaches: those with names, new combinations, and what is refused."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest

from constrained_dnc.config import SUPPLEMENT_C, Config, make_config
from constrained_dnc.errors import SettingError
from constrained_dnc.parts import APPROACHES, Approach, Part, get_approach, parse_part
from constrained_dnc.report import published

KINDS = ("compression", "regularisation")


def test_the_nine_of_the_paper():
    parts = {
        name: (a.controller, *(Part(kind) in a.constraints for kind in KINDS))
        for name, a in APPROACHES.items()
        if a.memory == Part("dnc") and name != "round+reg"
    }
    assert tuple(parts) == published.APPROACHES + SUPPLEMENT_C
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
    assert dict(Part("regularisation").settings) == {"task_weight": 0.9, "num_pairs": 5}


@pytest.mark.parametrize("name", ["compr+reg", "stateful-baseline"])
def test_look_up_over_used_slots_is_a_part_like_the_others(name):
    used = get_approach(f"{name}+used")
    assert used == replace(
        get_approach(name), name=used.name, memory=parse_part("dnc,lookup=used-slots")
    )
    assert used.summary() == get_approach(name).summary() + ", look-up over used slots"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: get_approach("comp"), "approach must be one of compr, compr"),
        (lambda: Approach("a b"), "approach.name must be a word"),
        (
            lambda: Approach("x", "gru"),
            "approach.controller must be one of feed-forward",
        ),
        (lambda: Approach("x", "lstm,bias=1"), "lstm has no setting 'bias'; available: none"),
        (lambda: Approach("x", "feed-forward", (Part("noise"),)), "has no state to constrain"),
        (lambda: Approach("x", "lstm", (Part("noise"),) * 2), "has noise more than once"),
        (
            lambda: Approach("x", memory=Part("nmt")),
            r"approach.memory must be one of dnc, none, ntm \(did you mean ntm",
        ),
        (
            lambda: parse_part("noise,sigm=1"),
            r"no setting 'sigm' \(did you mean sigma\?\); av",
        ),
        (lambda: parse_part("noise,1"), "must be a name or an import path, .*KIND,NAME=VALUE"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(make, sentence):
    with pytest.raises(SettingError, match=sentence):
        make()


@pytest.mark.parametrize(
    "text", ["compression", "regularisation,task_weight=0.99,num_pairs=5", "a.b:C,x=1,y=0.5,z=q"]
)
def test_a_part_is_the_same_as_text_and_in_a_file(text):
    part = parse_part(text)
    assert str(part) == text
    config = make_config("copy", Approach("mine", "lstm", (part,)))
    assert Config.from_json(config.to_json()) == config
    stored = json.loads(config.to_json())["approach"]
    assert stored["constraints"] == [{"kind": part.kind, "settings": dict(part.settings)}]
    assert stored["memory"] == {"kind": "dnc", "settings": {"lookup": "every-slot"}}


def test_defaults_need_not_be_given():
    assert parse_part("regularisation,num_pairs=5") == Part("regularisation")
    assert parse_part("noise,sigma=1") == Part("noise", (("sigma", 1.0),))


def test_errors_travel_between_processes():
    error = pickle.loads(pickle.dumps(SettingError("seed", -1, "at least 0")))
    assert str(error) == "seed must be at least 0, not -1"
