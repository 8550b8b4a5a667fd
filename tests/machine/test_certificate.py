"""Proofs by interval arithmetic, compared with every input there is."""

from itertools import product

import equinox as eqx
import numpy as np
import pytest
import scipy
from machines import TASK, known_machine, tiny_dnc

from constrained_dnc import certify, extract_machine, load_pretrained
from constrained_dnc.errors import SettingError
from constrained_dnc.machine import certificate
from constrained_dnc.machine.certificate import as_certified
from constrained_dnc.model.dnc_memory import interface_parts
from constrained_dnc.model.leaves import with_fields
from constrained_dnc.tasks.numeral import Sort


def outputs_of_all_inputs(model, machine, task, length):
    """By (place, entry), the outputs of all inputs with that entry there."""
    problems = list(product(range(5), repeat=length))
    outputs = np.asarray(
        as_certified(model, machine).unroll(task.batch_of(problems).inputs).outputs
    )
    entries = np.array(problems)
    return {
        (place, entry): outputs[length + 1 + place][entries[:, place] == entry]
        for place in range(length)
        for entry in range(5)
    }


def require_inside(bounds, outputs):
    for key, (low, high) in bounds.items():
        assert (low - 1e-4 <= outputs[key]).all(), key
        assert (outputs[key] <= high + 1e-4).all(), key


def with_bias(model, part, bias):
    """The model with another bias of a part of its interface."""
    sizes = interface_parts(model.memory.num_reads, model.memory.word_size)
    place = sum([*sizes.values()][: list(sizes).index(part)])
    biases = model.interface_bias.at[place : place + sizes[part]].set(bias)
    return eqx.tree_at(lambda dnc: dnc.interface_bias, model, biases)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("sharpness", "clip_value"), [(1.0, None), (60.0, None), (1.0, 0.3)])
def test_bounds_hold_the_outputs_of_all_inputs_of_random_machines(seed, sharpness, clip_value):
    """Each step writes to a new slot; with sharp look-ups, exponents cancel and underflow."""
    model, machine = tiny_dnc().with_memory_size(8), known_machine(seed)
    model = with_fields(model, clip_value=clip_value)
    model = eqx.tree_at(lambda dnc: dnc.interface_weight, model, replace_fn=lambda w: sharpness * w)
    for part, bias in {"allocation_gate": 999.0, "write_gate": 999.0, "free_gates": -999.0}.items():
        model = with_bias(model, part, bias)
    proof = certify(model, machine, TASK, 3)
    assert proof.bounds.keys() == set(product(range(3), range(5)))
    assert "the output may be" in proof.breaks  # it was not trained to copy
    require_inside(proof.bounds, outputs_of_all_inputs(model, machine, TASK, 3))


def test_bounds_of_a_softmax_hold_for_every_combination_of_contents():
    scores = np.array([60.0, -60.0, 0.5, 1.0])
    possible = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]], np.bool_)
    low, high = certificate._softmax(scores, possible)
    for contents in product(*(np.flatnonzero(row) for row in possible)):
        weights = scipy.special.softmax(scores[list(contents)])
        assert (low <= weights).all()
        assert (weights <= high).all()


@pytest.fixture(scope="module")
def copying():
    model, task = load_pretrained("copy", "compr+reg", "unseen")
    return model, task, extract_machine(model, task, states=8, reads=1).machine


def test_the_machine_of_copy_is_proved_and_its_bounds_are_tight(copying):
    model, task, machine = copying
    proof = certify(model, machine, task, 4)
    assert proof.holds
    assert proof.bounds.keys() == set(product(range(4), range(5)))
    outputs = outputs_of_all_inputs(model, machine, task, 4)
    require_inside(proof.bounds, outputs)
    for key, (low, high) in proof.bounds.items():
        assert high[0] - low[0] < np.ptp(outputs[key][:, 0]) + 0.05


def test_a_proof_says_where_it_breaks(copying):
    model, task, machine = copying
    assert "lacks the transition" in certify(model, machine, task, 1).breaks
    few = model.with_memory_size(8)
    assert certify(few, machine, task, 4).breaks.startswith("8 slots are too few")
    by_content = with_bias(model, "allocation_gate", -9.0)
    assert certify(by_content, machine, task, 4).breaks.endswith("may write to a slot by content")


def test_an_input_that_breaks_a_smaller_machine_is_not_proved_away(copying):
    """Its second answer to 4 4 0 0 ... rounds to 5."""
    model, task, _ = copying
    smaller = extract_machine(model, task, states=4, reads=1, commands=18).machine
    proof = certify(model, smaller, task, 15)
    assert proof.breaks.startswith("entry 2 of length 15")
    batch = task.batch_of([(4, 4, *[0] * 13)])
    outputs = np.asarray(as_certified(model, smaller).unroll(batch.inputs).outputs)
    assert task.score(batch, outputs).sequence_accuracy[0] == 0


def test_what_cannot_be_proved_is_refused(copying):
    model, _, machine = copying
    with pytest.raises(SettingError, match="result of sort does not depend on one entry"):
        certify(model, machine, Sort(), 4)
    used, task = load_pretrained("copy", "compr+reg+used")
    with pytest.raises(SettingError, match="look-up over all slots"):
        certify(used, machine, task, 4)
    reading = extract_machine(model, task, states=4, reads=4).machine
    with pytest.raises(SettingError, match="no notice of what it reads"):
        certify(model, reading, task, 4)
