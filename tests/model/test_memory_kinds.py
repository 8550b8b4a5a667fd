"""Memories behind one interface: the contract of all, an NTM's step in plain loops, no memory."""

from __future__ import annotations

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import SIZES, SMALL, assert_slopes_agree, random_inputs

import reference
from constrained_dnc.config import Config, make_config
from constrained_dnc.errors import SettingError
from constrained_dnc.model.addressing import cosine_similarity
from constrained_dnc.model.backend import choose_backend
from constrained_dnc.model.build import build_dnc, build_memory
from constrained_dnc.model.dnc_memory import DNCMemory, interface_parts
from constrained_dnc.model.growing import Growing
from constrained_dnc.model.leaves import named_leaves
from constrained_dnc.model.losses import total_loss
from constrained_dnc.model.memory import AbstractMemory, NoMemory
from constrained_dnc.model.ntm_memory import NTMMemory, sharpen
from constrained_dnc.parts import CONSTRAINTS, MEMORY, PARTS, Approach, Part, parse_part
from constrained_dnc.tasks.registry import get_task


class Tape(AbstractMemory):
    """User-defined, with a trainable array, a setting and an `__init__` of its own."""

    start: jax.Array
    size: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    decay: float = eqx.field(static=True)

    def __init__(self, memory_size, word_size, num_reads, decay=0.5):
        self.size, self.width, self.decay = memory_size, word_size, decay
        self.start = jnp.ones(word_size)

    @property
    def interface_size(self):
        return self.width

    @property
    def read_size(self):
        return self.width

    def initial_state(self, dtype, num_steps=None):
        return jnp.broadcast_to(self.start, (self.size, self.width)).astype(dtype)

    def __call__(self, vector, state):
        state = jnp.concatenate([vector[None], self.decay * state[:-1]])
        return state, state[-1]


KINDS = [*PARTS[MEMORY], f"{__file__}:Tape"]
every_memory = pytest.mark.parametrize("kind", KINDS, ids=[*PARTS[MEMORY], "user-defined"])


def model_with(kind, *constraints, controller="peephole", sizes=SIZES):
    approach = Approach("x", controller, tuple(map(Part, constraints)), parse_part(kind))
    return build_dnc(approach, sizes, SMALL, key=jax.random.key(0))


def test_every_built_in_kind_has_a_class():
    classes = {kind: type(build_memory(Part(kind), SMALL)) for kind in PARTS[MEMORY]}
    assert classes == {"dnc": DNCMemory, "ntm": NTMMemory, "none": NoMemory}


def top2(memory, keys, strengths, usage, exists):
    """All weight on the two most similar slots."""
    scores = strengths[:, None] * cosine_similarity(keys, memory)
    scores = scores if exists is None else jnp.where(exists, scores, -jnp.inf)
    second = jax.lax.top_k(scores, 2)[0][:, -1:]
    return jax.nn.softmax(jnp.where(scores >= second, scores, -jnp.inf), axis=-1)


def flat(memory, keys, strengths, usage, exists):
    return usage


def constant(slot):
    """A look-up that finds one slot, whatever the keys are."""
    return lambda memory, keys, *_: jnp.zeros((len(keys), len(memory))).at[:, slot].set(1.0)


def test_reads_and_writes_have_look_ups_of_their_own():
    memory = DNCMemory(5, 3, 2, read_lookup=constant(1), write_lookup=constant(4))
    sizes = interface_parts(2, 3)
    ends = dict(zip(sizes, np.cumsum([*sizes.values()]), strict=True))
    vector = np.zeros(memory.interface_size)
    for name, value in (("allocation_gate", -50), ("write_gate", 50)):  # write by content
        vector[ends[name] - 1] = value
    vector[-6:] = [-50, -50, 50] * 2  # read by content
    state, _ = memory(jnp.asarray(vector, jnp.float32), memory.initial_state(jnp.float32))
    np.testing.assert_allclose(state.write_weights, [0, 0, 0, 0, 1], atol=1e-6)
    np.testing.assert_allclose(state.read_weights, [[0, 1, 0, 0, 0]] * 2, atol=1e-6)


def test_a_user_defined_look_up_runs_on_pure_and_in_a_growing_memory():
    mixed = model_with("dnc,read_lookup=used-slots")
    reason = "fused has one look-up for reads and writes"
    assert reason in choose_backend("auto", mixed, "squared error").reason
    model = model_with(f"dnc,read_lookup={__file__}:top2")
    backend = choose_backend("auto", model, "squared error")
    assert backend.name == "pure"
    assert "top2 is a user-defined look-up" in backend.reason
    with pytest.raises(SettingError, match="fused cannot run this model: top2 is a user-defined"):
        choose_backend("fused", model, "squared error")
    grown = backend.forward(model.with_memory_size(Growing(5)), random_inputs(9, 2))
    assert np.isfinite(grown.outputs).all()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            "lookup=used",
            r"dnc\.lookup must be one of every-slot, used-slots.* or file\.py:function",
        ),
        ("lookup=3", r"dnc\.lookup must be a name, not 3"),
        ("read_lookup=3", r"dnc\.read_lookup must be a name, not 3"),
        ("readlookup=used-slots", r"no setting 'readlookup' \(did you mean read_lookup"),
        ("write_lookup=FILE:flat", r"weights of the look-up \S+flat must have the shape \(1, 5"),
        ("write_lookup=FILE:top", r"test_memory_kinds\.py has no function top \(did you mean t"),
    ],
)
def test_a_look_up_that_cannot_be_is_refused_in_one_sentence(settings, sentence):
    with pytest.raises(SettingError, match=sentence):
        model_with(f"dnc,{settings.replace('FILE', __file__)}")


def test_the_code_of_a_look_up_counts_as_code_of_the_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = make_config("copy", Approach("x", memory=parse_part("dnc,read_lookup=top.py:top4")))
    assert config.user_code == (f"{tmp_path}/top.py:top4",)
    assert Config.from_json(config.to_json()) == config
    settings = dict(config.approach.memory.settings)
    assert settings == {"lookup": "every-slot", "read_lookup": f"{tmp_path}/top.py:top4"}


@every_memory
def test_a_memory_keeps_its_shapes_at_every_size(kind):
    trained = build_memory(Part(kind), SMALL)
    assert trained.size == SMALL.memory_size
    for size in (1, 2, 9):
        memory = trained.with_size(size)
        assert memory.size == size
        assert type(memory) is type(trained)
        assert memory.interface_size == trained.interface_size
        state = memory.initial_state(jnp.float32)
        step = eqx.filter_jit(memory)
        for _ in range(3):
            after, reads = step(jnp.ones(memory.interface_size), state)
            assert reads.shape == (memory.read_size,)
            assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, state)
            assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves((after, reads)))
            state = after
    with pytest.raises(SettingError, match="memory_size must be an integer of at least 1"):
        trained.with_size(0)


@every_memory
def test_a_sequence_in_two_halves_is_the_sequence(kind):
    model, inputs = model_with(kind).with_memory_size(7), random_inputs(8, 2)
    whole = model.unroll(inputs)
    first = model.unroll(inputs[:3])
    second = model.unroll(inputs[3:], first.state)
    halves = jnp.concatenate([first.outputs, second.outputs])
    np.testing.assert_allclose(halves, whole.outputs, rtol=1e-5, atol=1e-6)


@every_memory
def test_every_constraint_and_controller_works_with_every_memory(kind):
    task = get_task("copy")
    batch = task.sample(0, 2, 1)
    for model in (
        model_with(kind, *PARTS[CONSTRAINTS], sizes=task),
        model_with(kind, controller="feed-forward", sizes=task),
    ):
        backend = choose_backend("pure", model, "squared error")
        loss, _, gradient = backend.value_and_grad(model, batch, jax.random.key(0))
        assert np.isfinite(loss)
        assert [name for name, _ in named_leaves(gradient)] == [n for n, _ in named_leaves(model)]
        assert all(np.isfinite(leaf).all() for _, leaf in named_leaves(gradient))
        weights = backend.weights(model, batch.inputs)
        assert (weights is None) == (kind not in ("dnc", "ntm"))
        if weights is not None:
            assert [w.shape for w in weights] == [(4, 2, 2, 5), (4, 2, 5)]


def test_only_the_memory_of_a_dnc_grows_and_is_fused():
    for kind in KINDS[1:]:
        model = model_with(kind)
        with pytest.raises(SettingError, match="is a memory that cannot grow"):
            model.with_memory_size(Growing(5))
        assert "fused has no memory" in choose_backend("auto", model, "squared error").reason


def test_a_user_defined_memory_has_settings_and_parameters():
    model = model_with(f"{__file__}:Tape,decay=0.25")
    assert model.memory.decay == 0.25
    assert dict(named_leaves(model))["memory.start"].shape == (SMALL.word_size,)
    with pytest.raises(SettingError, match="Tape,speed=1 has no setting 'speed'; available: decay"):
        model_with(f"{__file__}:Tape,speed=1")
    with pytest.raises(SettingError, match=r"approach\.memory must be the name of a class"):
        model_with(f"{__file__}:KINDS")


def test_without_a_memory_it_is_its_controller():
    """y = W_y h + b, where h is the controller's on the inputs alone."""
    model, inputs = model_with("none", controller="lstm"), random_inputs(6, 1)
    state, outputs = model.controller.initial_state(), []
    for x in inputs[:, 0]:
        step = model.controller(x, state)
        state = step.state
        outputs.append(model.output_weight @ step.hidden + model.output_bias)
    unrolled = model.unroll(inputs)
    np.testing.assert_allclose(unrolled.outputs[:, 0], jnp.stack(outputs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sizes", [(5, 3, 2), (1, 2, 1), (2, 1, 3)])
def test_an_ntm_agrees_with_plain_loops(sizes):
    with jax.enable_x64(True):
        ours, theirs = NTMMemory(*sizes), reference.NTMMemory(*sizes)
        state = ours.initial_state(jnp.float64)
        rng = np.random.default_rng(0)
        for _ in range(8):
            vector = 3 * rng.normal(size=ours.interface_size)
            state, reads = ours(jnp.asarray(vector), state)
            np.testing.assert_allclose(reads, theirs.step(vector), rtol=1e-10)
            np.testing.assert_allclose(state.memory, theirs.memory, rtol=1e-10)
            np.testing.assert_allclose(state.write_weights, theirs.weights[-1], rtol=1e-10)
            np.testing.assert_allclose(state.read_weights, theirs.weights[:-1], rtol=1e-10)


def test_sharpening_keeps_a_distribution_and_a_gradient_at_any_sharpness():
    weights = jnp.array([[0.3, 0.3, 0.4, 0.0], [1.0, 0.0, 0.0, 0.0], [0.25] * 4])
    for sharpness in (1.0, 30.0, 1e3):
        gammas = jnp.full(3, sharpness)
        sharpened = sharpen(weights, gammas)
        np.testing.assert_allclose(sharpened.sum(-1), 1, rtol=1e-6)
        slopes = jax.jacobian(sharpen, (0, 1))(weights, gammas)
        assert all(jnp.isfinite(slope).all() for slope in slopes)
    np.testing.assert_allclose(sharpened, [[0, 0, 1, 0], [1, 0, 0, 0], [0.25] * 4], atol=1e-6)


def test_gradients_of_an_ntm_agree_with_finite_differences():
    """Along random directions through all parameters and the inputs, in float64."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(1)
        model, inputs = model_with("ntm", "compression", "regularisation"), random_inputs(6, 2)
        model = jax.tree.map(lambda a: jnp.asarray(a + rng.normal(size=a.shape)), model)
        batch = SimpleNamespace(
            targets=jnp.asarray(rng.normal(size=(6, 2, 2))),
            mask=jnp.asarray(rng.random((6, 2)) < 0.7),
            num_steps=jnp.array([6, 4]),
        )

        @eqx.filter_jit
        def loss(both):
            run = both[0].unroll(both[1])
            return total_loss(run, batch, "squared error", both[0].constraints)[0]

        gradient = eqx.filter_jit(eqx.filter_grad(loss))((model, inputs))
        assert_slopes_agree(loss, (model, inputs), gradient, rng)
