"""Machines of models whose machine is known, and of models without one."""

import json

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from machines import TASK, known_machine, tiny_dnc

import reference
from constrained_dnc.errors import SettingError
from constrained_dnc.machine import graph
from constrained_dnc.machine.extraction import extract_machine
from constrained_dnc.machine.fidelity import (
    check_inputs,
    fidelity,
    hardest_input,
    missing_transitions,
)
from constrained_dnc.model.losses import task_loss
from constrained_dnc.tasks.task import AbstractTask
from tiny_runs import TINY_MODEL


@pytest.fixture(scope="module")
def known():
    """A model that runs a machine of 3 states (5 before minimisation), and what is extracted."""
    model = known_machine().apply(tiny_dnc())
    sizes = {"states": 4, "reads": 1, "commands": 12}
    return model, extract_machine(model, TASK, lengths=(1, 2, 3, 4), **sizes)


def test_the_machine_inside_is_the_one_that_was_put_there(known):
    model, extraction = known
    assert extraction.is_faithful
    assert extraction.conflicts == 0
    assert extraction.machine.size[:2] == (3, 1)
    assert extraction.machine.state_names == ("start", "taking input", "both phases")
    batch = TASK.sample(5, 8, 9)
    expected = model.unroll(batch.inputs).outputs
    actual = extraction.machine.apply(model).unroll(batch.inputs).outputs
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_margins_are_whole_where_states_are_exact(known):
    _, extraction = known
    assert set(extraction.margins) == set(extraction.machine.transitions())
    assert min(extraction.margins.values()) == pytest.approx(1)


def test_the_json_file_runs_without_the_network(known):
    """A loop over the stored table with the memory of the equations, in NumPy."""
    model, extraction = known
    stored = json.loads(graph.as_json(extraction.machine, model))
    batch = TASK.sample(3, 1, 3)
    memory = reference.Memory(
        TINY_MODEL.memory_size, TINY_MODEL.word_size, TINY_MODEL.num_reads, "every-slot"
    )
    vectors = np.array([entry["vector"] for entry in stored["inputs"]])
    points, reads, state = np.array(stored["reads"]), np.zeros(3), stored["start"]
    expected = model.unroll(batch.inputs).outputs
    for step, x in enumerate(batch.inputs[:, 0]):
        symbol = int(((vectors - x) ** 2).sum(axis=1).argmin())
        read = int(((points - reads) ** 2).sum(axis=1).argmin())
        command = stored["commands"][stored["command"][state][symbol][read]]
        state = stored["next_state"][state][symbol][read]
        reads = memory.step(np.array(command["interface"])).ravel()
        output = np.array(command["output"]) + np.array(stored["readout"]) @ reads
        np.testing.assert_allclose(output, expected[step, 0], atol=1e-4)


def test_fidelity_and_checks(known):
    model, extraction = known
    table = fidelity(model, extraction.machine, TASK, [2, 6], samples=8)
    assert (table["agreement"] == 1).all()
    np.testing.assert_array_equal(table["network"], table["machine"])
    check = check_inputs(model, extraction.machine, TASK, 2)
    assert (check.inputs, check.is_exhaustive, check.different) == (25, True, 0)
    assert missing_transitions(extraction.machine, TASK) == []

    broken = known_machine(seed=1)  # other commands
    check = check_inputs(model, broken, TASK, 1)
    assert check.different > 0
    assert len(check.counterexample) == 1
    broken.next_state[1, 0] = -1
    assert missing_transitions(broken, TASK) == [(1, 0)]


def test_pictures(known, monkeypatch):
    _, extraction = known
    machine = extraction.machine
    dot = graph.as_dot(machine)
    assert dot.count("->") == len(graph.edges(machine)) == 4
    monkeypatch.setattr(graph.shutil, "which", lambda name: None)  # no Graphviz
    svg = extraction._repr_svg_()
    assert svg.lstrip().startswith("<?xml")
    rows = graph.describe(machine)
    assert rows[0][0] == "start"


@pytest.mark.parametrize("approach", ["stateful-baseline", "stateless-baseline"])
def test_models_with_two_states_or_none(approach):
    extraction = extract_machine(
        tiny_dnc(approach), TASK, lengths=(1, 2), states=2, reads=4, commands=5
    )
    states, reads, commands = extraction.machine.size
    assert states <= 3
    assert reads <= 4
    assert commands <= 5


def test_what_has_no_machine():
    model = eqx.tree_at(lambda m: m.output_bias, tiny_dnc(), jnp.full(2, jnp.nan))
    with pytest.raises(SettingError, match="not finite"):
        extract_machine(model, TASK, lengths=(1,))

    class Noise(AbstractTask):
        name = "noise"
        summary = "inputs that are no symbols"

        def sample(self, key, batch_size, length):
            inputs = np.random.default_rng(key).normal(size=(length + 1, batch_size, 2))
            return inputs, inputs, np.ones((length + 1, batch_size), bool)

    with pytest.raises(SettingError, match="more than 64 different inputs"):
        extract_machine(tiny_dnc(), Noise(), lengths=(5,))


def test_a_search_for_a_hard_input_finds_a_harder_one_or_a_wrong_answer():
    model = tiny_dnc()
    rounds = [hardest_input(model, TASK, 4, rounds=count) for count in (1, 6)]
    problem, loss, is_right = rounds[-1]
    batch = TASK.batch_of([problem])
    outputs = model.unroll(batch.inputs).outputs
    own = task_loss(outputs, batch, TASK.loss)[0]
    assert loss == pytest.approx(float(own), rel=1e-4)
    assert is_right == (TASK.score(batch, np.asarray(outputs)).sequence_accuracy[0] == 1)
    assert loss >= rounds[0][1]
