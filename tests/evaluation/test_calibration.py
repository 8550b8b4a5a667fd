"""Digital models compared with the network, and the rule that chooses their parts."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from constrained_dnc.errors import SettingError
from constrained_dnc.evaluation.digital import (
    Candidates,
    Digital,
    Measured,
    calibrate,
    digitise,
    state_count,
)
from constrained_dnc.evaluation.states import SCORE_BATCHES, calibration_batches
from constrained_dnc.machine.extraction import extract_machine
from constrained_dnc.model.build import build_dnc
from constrained_dnc.model.controllers import AbstractController, ControllerStep
from constrained_dnc.model.dnc_memory import WRITES
from constrained_dnc.model.leaves import with_fields
from constrained_dnc.parts import APPROACHES
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.parameters import initial_model
from constrained_dnc.training.run import load_pretrained
from tiny_runs import TINY_MODEL, tiny_config

COPY = get_task("copy")


def tiny(approach="compr", seed=0):
    return build_dnc(APPROACHES[approach], COPY, TINY_MODEL, key=jax.random.key(seed))


@pytest.fixture(scope="module")
def pretrained():
    model, _ = load_pretrained("copy", "compr+reg")
    return model, calibrate(model, COPY, lengths=(5,))


def test_a_model_that_generalises_becomes_digital(pretrained):
    model, digital = pretrained
    assert digital.writes == "one-hot"
    assert digital.states is not None
    assert len(digital.states) <= 64
    assert digital.state_count is not None
    assert digital.state_count <= 16
    inside = digital.apply(model).unroll(COPY.sample(0, 3, 5).inputs, internals=True).internals
    cells = np.asarray(inside.cell_state).reshape(-1, digital.states.shape[1])
    assert {cell.tobytes() for cell in cells} <= {state.tobytes() for state in digital.states}
    assert ((np.asarray(inside.memory.write_weights) > 0).sum(axis=-1) <= 1).all()


def test_measurements_are_those_of_the_digital_model(pretrained):
    """The last measurement of the choice, by hand on each batch alone."""
    model, digital = pretrained
    chosen = digital.apply(model)
    right, errors = [], []
    for batch in calibration_batches(COPY, (5,), SCORE_BATCHES):
        outputs = np.asarray(chosen.unroll(batch.inputs).outputs)
        right.append(COPY.score(batch, outputs).score)
        errors.append(((outputs - batch.targets)[batch.mask] ** 2).mean())
    (measured,) = [
        each
        for each in digital.tried
        if (each.writes, each.states) == (digital.writes, len(digital.states))
    ]
    assert measured.score == pytest.approx(np.mean(right), abs=1e-3)
    assert measured.loss == pytest.approx(np.mean(errors), rel=0.05)


@pytest.mark.parametrize("approach", ["compr", "stateful-baseline"])
def test_snapping_replaces_the_carried_cell_state_by_the_nearest(approach):
    model, inputs = tiny(approach), COPY.sample(0, 4, 3).inputs
    states = np.random.default_rng(0).normal(size=(5, TINY_MODEL.hidden_size)).astype(np.float32)
    expected, state = [], model.initial_states(4, len(inputs))
    for step in inputs:
        outputs, state, inside = jax.vmap(model.step)(jnp.asarray(step), state)
        expected.append(outputs)
        cells = np.asarray(inside.cell_state)
        nearest = np.linalg.norm(states[None] - cells[:, None], axis=-1).argmin(axis=1)
        state = eqx.tree_at(lambda s: s.controller.cell, state, jnp.asarray(states[nearest]))
    outputs = Digital("soft", states).apply(model).unroll(inputs).outputs
    np.testing.assert_allclose(outputs, expected, atol=1e-5)


def made_up(table, has_states=True):
    """Candidates whose scores and losses by (writes, states) are made up; 0 is not snapped."""

    class MadeUp(Candidates):
        def __init__(self, model, *_):
            self.model, self.measured = model, {}
            self.network, self.gain = self.measure("soft", None), 1.0

        def measure(self, writes, states):
            key = writes, None if states is None else len(states)
            measured = Measured(*key, *table.get((writes, key[1] or 0), (0.0, 1.0)))
            return self.measured.setdefault(key, measured)

        def can_snap(self, writes="soft"):
            return has_states

        def states(self, writes="soft"):
            return np.zeros((5000, 6))

        def centroids(self, writes, count):
            return np.zeros((count or 5000, 6))

        def keeps_all_lengths(self, digital):
            return True

    return MadeUp


FINE, BLURRED, WRONG = (1.0, 0.0), (1.0, 0.02), (0.98, 0.0)


@pytest.mark.parametrize(
    ("table", "choice", "count"),
    [
        (
            {("one-hot", 0): FINE, ("one-hot", 16): FINE, ("one-hot", 5000): FINE},
            ("one-hot", 16),
            0,
        ),
        ({("one-hot", 0): BLURRED, ("one-hot-allocation", 0): FINE}, ("one-hot-allocation", 0), 0),
        ({("soft", 8): BLURRED, ("soft", 64): FINE, ("soft", 4096): FINE}, ("soft", 64), 8),
        (
            {
                ("one-hot", 0): WRONG,
                ("soft", 4): BLURRED,
                ("soft", 4096): BLURRED,
                ("soft", 5000): FINE,
            },
            ("soft", 5000),
            4,
        ),
        ({("soft", 64): FINE}, ("soft", 0), 0),  # all states cost too much
        ({}, ("soft", 0), 0),
    ],
)
def test_the_rule_takes_the_hardest_writes_and_fewest_states_without_harm(
    table, choice, count, monkeypatch
):
    monkeypatch.setattr(
        "constrained_dnc.evaluation.digital.Candidates", made_up({("soft", 0): FINE, **table})
    )
    digital = calibrate(tiny(), COPY, lengths=(5, 10, 15))
    assert (digital.writes, 0 if digital.states is None else len(digital.states)) == choice
    assert digital.state_count == (count or None)


def test_a_controller_without_a_state_has_hard_writes_at_most():
    model = tiny("stateless-baseline")
    digital = calibrate(model, COPY, lengths=(2,))
    assert digital.states is None
    assert digital.writes in WRITES
    outputs = digital.apply(model).unroll(COPY.sample(0, 2, 2).inputs).outputs
    assert np.isfinite(outputs).all()


def test_nan_parameters_change_nothing():
    model = eqx.tree_at(lambda dnc: dnc.output_bias, tiny(), jnp.full(2, jnp.nan))
    model = eqx.tree_at(lambda dnc: dnc.interface_bias, model, model.interface_bias + jnp.nan)
    digital = calibrate(model, COPY, lengths=(2,))
    assert (digital.writes, digital.states, digital.state_count) == ("soft", None, None)


class Counter(AbstractController):
    """A user-defined controller whose state is one array."""

    weight: Float[Array, "hidden seen"]
    hidden_size: int = eqx.field(static=True)

    def initial_state(self):
        return jnp.zeros(2)

    def __call__(self, inputs, state):
        hidden = jnp.tanh(self.weight @ jnp.concatenate([inputs, state]))
        return ControllerStep(hidden, jnp.stack([state[0] + 1, inputs[0]]))

    def cell_state(self, state):
        return state


class Dictionary(Counter):
    """Its state is a dictionary, and it does not say how to replace the cell state."""

    def initial_state(self):
        return {"cell": jnp.zeros(2)}

    def __call__(self, inputs, state):
        step = super().__call__(inputs, state["cell"])
        return ControllerStep(step.hidden, {"cell": step.state})

    def cell_state(self, state):
        return state["cell"]


@pytest.mark.parametrize("kind", [Counter, Dictionary])
def test_a_user_defined_controller_can_be_digitised(kind):
    model = tiny("stateful-baseline")
    hidden, chi = TINY_MODEL.hidden_size, COPY.input_size + model.memory.read_size
    weight = jax.random.normal(jax.random.key(0), (hidden, chi + 2))
    model = with_fields(model, controller=kind(weight=weight, hidden_size=hidden))
    candidates = Candidates(model, COPY, (2,))
    assert candidates.can_snap() == (kind is Counter)
    digital = digitise(model, "copy", lengths=(2,))
    assert np.isfinite(digital.unroll(COPY.sample(0, 2, 2).inputs).outputs).all()


def test_state_counts_of_one_state_and_of_none():
    """A fresh model answers no better than one that ignores the input."""
    assert state_count(tiny(), COPY, lengths=(2,)) is None


def test_a_model_knows_the_lengths_it_was_trained_on_or_they_are_asked_for():
    for count in (state_count, calibrate, extract_machine):
        with pytest.raises(
            SettingError, match=r"training lengths are needed, such as lengths=\(5,"
        ):
            count(tiny(), COPY)
    trained = initial_model(tiny_config(min_length=3, max_length=6))
    assert Candidates(trained, "copy").lengths == (3, 4, 6)
    assert Candidates(trained, "copy", (2,)).lengths == (2,)


@pytest.mark.parametrize(
    ("kept", "expected"), [({"states"}, "both"), ({"writes"}, "writes"), (set(), "none")]
)
def test_parts_that_fail_between_the_lengths_of_calibration_are_left_out(
    monkeypatch, kept, expected
):
    model = tiny()
    monkeypatch.setattr(
        "constrained_dnc.evaluation.digital._hardest_writes", lambda candidates: "one-hot"
    )
    monkeypatch.setattr(
        "constrained_dnc.evaluation.digital._fewest_states",
        lambda candidates, writes: candidates.centroids(writes, 2),
    )
    monkeypatch.setattr(
        Candidates,
        "keeps_all_lengths",
        lambda self, digital: ("writes" if digital.states is None else "states") in kept,
    )
    digital = calibrate(model, COPY, lengths=(1, 2))
    parts = {"both": ("one-hot", True), "writes": ("one-hot", False), "none": ("soft", False)}
    assert (digital.writes, digital.states is not None) == parts[expected]


def test_all_lengths_between_the_shortest_and_the_longest_are_checked(monkeypatch):
    candidates = Candidates(tiny(), COPY, (1, 4))
    assert candidates.keeps_all_lengths(Digital("soft", None))
    seen = []
    monkeypatch.setattr(
        "constrained_dnc.evaluation.digital.calibration_batches",
        lambda task, lengths, *others: (
            seen.append(list(lengths)) or calibration_batches(task, lengths, *others)
        ),
    )
    candidates.keeps_all_lengths(Digital("soft", None))
    assert seen == [[1, 2, 3, 4]]
