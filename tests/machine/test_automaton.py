"""Minimisation against brute force, and the network that runs as a machine."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import INPUTS, TASK, known_machine, tiny_dnc

from constrained_dnc.evaluation.scoring import evaluate
from constrained_dnc.machine.automaton import UNKNOWN, minimise


def outputs_of(next_state, output, state, word):
    """What a machine says to a word, up to the first missing transition."""
    said = []
    for symbol in word:
        said.append(int(output[state, symbol]))
        state = int(next_state[state, symbol])
        if state == UNKNOWN:
            break
    return said


@given(st.integers(1, 5), st.integers(1, 2), st.integers(0, 10_000))
def test_states_are_merged_if_and_only_if_no_word_tells_them_apart(states, symbols, seed):
    rng = np.random.default_rng(seed)
    next_state = rng.integers(-1, states, size=(states, symbols))
    output = np.where(next_state < 0, -1, rng.integers(0, 2, size=next_state.shape))
    label = minimise(next_state, output, 0)

    reached = {0}
    for _ in range(states):
        reached |= {int(q) for state in reached for q in next_state[state] if q >= 0}
    assert {q for q in range(states) if label[q] >= 0} == reached
    words = list(product(range(symbols), repeat=states))  # Moore: n - 1 symbols are enough
    for one, other in product(reached, repeat=2):
        is_same = all(
            outputs_of(next_state, output, one, word) == outputs_of(next_state, output, other, word)
            for word in words
        )
        assert (label[one] == label[other]) == is_same


def test_a_minimised_machine_sends_what_it_sent_before():
    machine, model = known_machine(), tiny_dnc()
    smaller, became = machine.minimised()
    assert smaller.size[0] == 3
    assert became.tolist() == [0, 1, 1, 2, 2]
    assert smaller.counts.sum() == machine.counts.sum()
    batch = TASK.sample(1, 4, 5)
    before, after = (m.apply(model).unroll(batch.inputs).outputs for m in (machine, smaller))
    np.testing.assert_array_equal(before, after)


def test_the_controller_follows_the_table_and_the_memory_stays():
    machine, model = known_machine(), tiny_dnc()
    inserted = machine.apply(model)
    batch = TASK.sample(2, 3, 4)
    inside = inserted.unroll(batch.inputs, internals=True).internals
    for sample in range(3):
        state = machine.start
        for step, x in enumerate(batch.inputs[:, sample]):
            symbol = int(np.argmin(((INPUTS - x) ** 2).sum(axis=1)))
            hidden = machine.hidden[machine.command[state, symbol, 0]]
            np.testing.assert_array_equal(inside.hidden[step, sample], hidden)
            state = machine.next_state[state, symbol, 0]
            assert inside.cell_state[step, sample].argmax() == state
    assert inserted.memory == model.memory


@pytest.mark.parametrize("memory", [4, 6])
def test_it_is_evaluated_as_any_model(memory):
    table = evaluate(
        known_machine().apply(tiny_dnc()), TASK, lengths=[2], memories=[memory], batches=1
    )
    assert table["score"].between(0, 1).all()
