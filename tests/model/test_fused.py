"""The fused kernel against the pure model in float64."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import NETWORKS, random_inputs, small_dnc
from fused_runs import ODD, assert_agrees, compiled, rounding_margin, with_constraints
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from constrained_dnc.model import fused
from constrained_dnc.model.config import ModelConfig
from constrained_dnc.model.constraints import Compression, Noise, Regularisation, Rounding
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.dnc_memory import interface_parts

FUSED_NETWORKS = [*NETWORKS, "compr+reg+used"]


def with_biases(dnc: DNC, **biases: float) -> DNC:
    """The model with some parts of its interface held at a value."""
    bias, weight = np.array(dnc.interface_bias), np.array(dnc.interface_weight)
    start = 0
    for name, size in interface_parts(dnc.memory.num_reads, dnc.memory.word_size).items():
        if name in biases:
            bias[start : start + size] = biases[name]
            weight[start : start + size] = 0.0
        start += size
    return eqx.tree_at(
        lambda dnc: (dnc.interface_bias, dnc.interface_weight),
        dnc,
        (jnp.asarray(bias), jnp.asarray(weight)),
    )


@compiled
@pytest.mark.parametrize(
    ("approach", "clip_value", "forget_bias"),
    [
        ("stateful-baseline", 20.0, 0.0),
        ("lstm-compr", 0.3, 0.0),
        ("peephole", 0.3, 1.5),
        ("compr", None, 0.0),
        ("stateless-baseline", 0.3, 0.0),
        ("compr+reg+used", 0.3, 0.0),
    ],
)
def test_agrees_with_the_pure_model(approach, clip_value, forget_bias):
    config = ModelConfig(13, 5, 3, 9, clip_value=clip_value, forget_bias=forget_bias)
    dnc, inputs = small_dnc(approach, config, scale=0.5), random_inputs(6, 3)
    for threads in (1, 2):
        assert_agrees(dnc, inputs, 13, threads)


CONSTRAINTS = {
    "noise, compression": (Noise(0.2), Compression()),
    "compression, noise": (Compression(), Noise(0.2)),
    "regularisation, compression, rounding": (
        Regularisation(task_weight=0.9, num_pairs=5),
        Compression(),
        Rounding(3),
    ),
    "all of them": (Noise(0.1), Compression(), Rounding(4), Noise(0.3), Compression(), Noise(0.1)),
}


@compiled
@pytest.mark.parametrize("approach", ["stateful-baseline", "peephole"])
@pytest.mark.parametrize("constraints", CONSTRAINTS)
def test_constraints_agree_in_any_order(constraints, approach):
    """Noise is drawn as in the pure model; values are not so near a half that rounding differs."""
    config = ModelConfig(13, 5, 3, 9, clip_value=0.8)
    dnc = with_constraints(small_dnc(approach, config, scale=0.5), *CONSTRAINTS[constraints])
    inputs = random_inputs(6, 3)
    assert rounding_margin(dnc, inputs) > 2e-5
    assert_agrees(dnc, inputs, 13, threads=2)


SITUATIONS = {
    "write gate 0: the memory stays empty": {"write_gate": -200.0},
    "write gate 1": {"write_gate": 200.0},
    "allocation only, all freed": {
        "write_gate": 200.0,
        "allocation_gate": 200.0,
        "free_gates": 200.0,
    },
    "allocation only, nothing freed": {
        "write_gate": 200.0,
        "allocation_gate": 200.0,
        "free_gates": -200.0,
    },
    "content only": {"allocation_gate": -200.0},
    "erased and rewritten": {"erase_vector": 200.0, "write_gate": 3.0},
    "strengths 0": {"read_strengths": -200.0, "write_strength": -200.0},
    "strengths 60": {"read_strengths": 60.0, "write_strength": 60.0},
    "keys 0": {"read_keys": 0.0, "write_key": 0.0},
}


@compiled
@pytest.mark.parametrize("approach", ["stateful-baseline", "stateful-baseline+used"])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_agrees_at_the_edges(situation, approach):
    dnc = with_biases(small_dnc(approach, ODD, scale=0.5), **SITUATIONS[situation])
    assert_agrees(dnc, random_inputs(6, 3), 13)


def random_cases(max_examples: int):
    """Decorate with random sizes, odd ones included, at moderate and at saturating scale."""

    def decorate(test):
        drawn = given(
            approach=st.sampled_from(FUSED_NETWORKS),
            constraints=st.none()
            | st.lists(
                st.sampled_from([Compression(), Noise(0.2), Rounding(2), Rounding(5)]), max_size=4
            ),
            clip_value=st.sampled_from([20.0, 0.7, None]),
            slots=st.integers(1, 130),
            word=st.integers(1, 40),
            reads=st.integers(1, 6),
            hidden=st.integers(1, 33),
            time=st.integers(1, 7),
            batch=st.integers(1, 30),
            scale=st.sampled_from([0.1, 0.5, 3.0]),
            threads=st.integers(1, 2),
        )
        return settings(max_examples=max_examples, derandomize=True)(drawn(test))

    return decorate


def check_random_case(
    approach, constraints, clip_value, slots, word, reads, hidden, time, batch, scale, threads
):
    """`constraints` None leaves those of the approach."""
    config = ModelConfig(slots, word, reads, hidden, clip_value=clip_value)
    dnc, inputs = small_dnc(approach, config, scale), random_inputs(time, batch)
    if constraints is not None and approach != "stateless-baseline":
        dnc = with_constraints(dnc, *constraints)
        rounds = any(isinstance(constraint, Rounding) for constraint in constraints)
        assume(not rounds or rounding_margin(dnc, inputs) > 2e-5)
    assert_agrees(dnc, inputs, slots, threads)


@compiled
@random_cases(5)
def test_agrees_at_random_sizes(**case):
    check_random_case(**case)


@compiled
@pytest.mark.slow
@random_cases(200)
def test_agrees_at_many_random_sizes(**case):
    check_random_case(**case)
    jax.clear_caches()  # every size is another program, and a process can map only a limited number


@compiled
@pytest.mark.parametrize("approach", ["stateful-baseline", "stateful-baseline+used"])
@pytest.mark.parametrize("simd", fused.simd_levels())
def test_every_instruction_set_agrees(simd, approach):
    dnc, inputs = small_dnc(approach, ODD, scale=0.5), random_inputs(6, 25)
    assert fused.FusedUnroll(simd=simd).simd == simd
    assert_agrees(dnc, inputs, 13, simd=simd)


@compiled
@pytest.mark.parametrize(("memory_size", "time"), [(200, 3), (50, 1)])
def test_young_memories_keep_the_digits_of_small_gradients(memory_size, time):
    """Slots that look alike: what their gradients have in common is large and cancels."""
    assert_agrees(small_dnc("compr", ODD, scale=0.3), random_inputs(time, 2), memory_size)
