"""Proofs by interval arithmetic, compared with every input there is."""

from itertools import product

import equinox as eqx
import numpy as np
import pytest
from machines import TASK, known_machine, tiny_dnc

from constrained_dnc import certify, extract_machine, load_pretrained
from constrained_dnc.errors import SettingError
from constrained_dnc.machine.certificate import as_certified
from constrained_dnc.model.dnc_memory import interface_parts
from constrained_dnc.tasks.sort import Sort


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


def always_allocating(seed):
    """A model that always writes to a new slot, and the machine that is to control it."""
    return with_allocation(tiny_dnc().with_memory_size(8), 9.0), known_machine(seed)


def with_allocation(model, bias):
    """The model with another bias of its allocation gate."""
    sizes = interface_parts(model.memory.num_reads, model.memory.word_size)
    place = sum([*sizes.values()][: list(sizes).index("allocation_gate")])
    return eqx.tree_at(
        lambda dnc: dnc.interface_bias, model, model.interface_bias.at[place].set(bias)
    )


@pytest.mark.parametrize("seed", range(6))
def test_bounds_hold_the_outputs_of_all_inputs_of_random_machines(seed):
    model, machine = always_allocating(seed)
    machine = extract_machine(
        machine.apply(model), TASK, lengths=(1, 2, 3), states=4, reads=1, commands=12
    ).machine
    certificate = certify(model, machine, TASK, 3)
    assert certificate.bounds.keys() == set(product(range(3), range(5)))
    assert "the output may be" in certificate.breaks  # it was not trained to copy
    require_inside(certificate.bounds, outputs_of_all_inputs(model, machine, TASK, 3))


@pytest.fixture(scope="module")
def copying():
    model, task = load_pretrained("copy", "compr+reg", "unseen")
    return model, task, extract_machine(model, task, states=8, reads=1).machine


def test_the_machine_of_copy_is_proved_and_its_bounds_are_tight(copying):
    model, task, machine = copying
    certificate = certify(model, machine, task, 4)
    assert certificate.holds
    assert certificate.bounds.keys() == set(product(range(4), range(5)))
    outputs = outputs_of_all_inputs(model, machine, task, 4)
    require_inside(certificate.bounds, outputs)
    for key, (low, high) in certificate.bounds.items():
        assert high[0] - low[0] < np.ptp(outputs[key][:, 0]) + 0.05


def test_a_proof_says_where_it_breaks(copying):
    model, task, machine = copying
    assert "lacks the transition" in certify(model, machine, task, 1).breaks
    few = model.with_memory_size(8)
    assert certify(few, machine, task, 4).breaks.startswith("8 slots are too few")
    by_content = with_allocation(model, -9.0)
    assert certify(by_content, machine, task, 4).breaks.endswith("may write to a slot by content")


def test_an_input_that_breaks_a_smaller_machine_is_not_proved_away(copying):
    """Its second answer to 4 4 0 0 ... rounds to 5."""
    model, task, _ = copying
    smaller = extract_machine(model, task, states=4, reads=1, commands=18).machine
    certificate = certify(model, smaller, task, 15)
    assert certificate.breaks.startswith("entry 2 of length 15")
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
