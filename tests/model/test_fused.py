"""The fused kernel against the pure model in float64, and on its own."""

from __future__ import annotations

import platform
import shutil
import subprocess
from itertools import accumulate
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import NETWORKS, random_inputs, small_dnc
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained_dnc import parity
from constrained_dnc.errors import BadSetting
from constrained_dnc.model import fused
from constrained_dnc.model.config import MOST_SLOTS, ModelConfig
from constrained_dnc.model.controllers import Lstm
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.memory import interface_parts

VECTORS = Path(__file__).parents[1] / "data" / "dnc_lstm_forward_backward.npz"
SOURCES = Path(__file__).parents[2] / "src" / "constrained_dnc" / "model" / "fused"
FUSED_NETWORKS = [*NETWORKS, "compr+reg+used"]
ODD = ModelConfig(memory_size=13, word_size=5, num_reads=3, hidden_size=9)

compiled = pytest.mark.skipif(
    fused.missing_reason() is not None, reason=fused.missing_reason() or "it is there"
)


def cotangents(dnc: DNC, inputs) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    time, batch, _ = inputs.shape
    cell = dnc.controller.cell_state(dnc.controller.initial_state()).shape[0]
    draws = rng.normal(size=(time, batch, dnc.output_size)), rng.normal(size=(time, batch, cell))
    return draws[0].astype(np.float32), draws[1].astype(np.float32)


@eqx.filter_jit
def pure(dnc: DNC, inputs, memory_size: int, d_outputs, d_cells):
    def total(dnc):
        run = dnc.unroll(inputs, memory_size)
        return jnp.sum(run.outputs * d_outputs) + jnp.sum(run.cell_states * d_cells), run

    gradients, run = eqx.filter_grad(total, has_aux=True)(dnc)
    return [run.outputs, run.cell_states], gradients


def by_part(gradients: DNC) -> list:
    """All gradients, those of the interface part by part: a small one must not hide in a large."""
    sizes = interface_parts(gradients.num_reads, gradients.word_size).values()
    ends = list(accumulate(sizes))[:-1]
    parts = [
        part
        for leaf in (gradients.interface_weight, gradients.interface_bias)
        for part in np.split(np.asarray(leaf), ends)
    ]
    rest = eqx.tree_at(
        lambda g: (g.interface_weight, g.interface_bias),
        gradients,
        (None, None),
        is_leaf=lambda leaf: leaf is None,
    )
    return [*parts, *jax.tree.leaves(rest)]


def in_float64(dnc: DNC, inputs, memory_size: int):
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float64), dnc)
        values, gradients = jax.tree.map(
            np.asarray,
            pure(wide, jnp.asarray(inputs, jnp.float64), memory_size, *cotangents(dnc, inputs)),
        )
    return values, by_part(gradients)


def run_fused(dnc: DNC, inputs, memory_size: int, threads: int = 1, simd: str | None = None):
    kernel = fused.FusedUnroll(threads, simd)
    run = kernel.forward(dnc, inputs, memory_size, keep=True)
    gradients = kernel.backward(run, *cotangents(dnc, inputs))
    return [run.outputs, run.cell_states], by_part(gradients)


def errors(ours, exact) -> np.ndarray:
    """Of every array, relative to its largest entry."""
    return np.array(
        [
            np.max(np.abs(np.asarray(a, np.float64) - b), initial=0.0)
            / (np.max(np.abs(b), initial=0.0) or 1.0)
            for a, b in zip(ours, exact, strict=True)
        ]
    )


def assert_agrees(dnc: DNC, inputs, memory_size: int, threads: int = 1, simd: str | None = None):
    """At most 1e-5 (values) and 1e-4 (gradients) off, or three times what pure float32 is.

    A gradient among much larger ones may be off by their rounding, as in the parity check.
    """
    ours, exact = (
        run_fused(dnc, inputs, memory_size, threads, simd),
        in_float64(dnc, inputs, memory_size),
    )
    limits = (1e-5, 1e-4)
    found = [errors(a, b) for a, b in zip(ours, exact, strict=True)]
    if all(np.all(error <= limit) for error, limit in zip(found, limits, strict=True)):
        return
    values, gradients = pure(dnc, inputs, memory_size, *cotangents(dnc, inputs))
    float32 = values, by_part(gradients)
    for error, limit, other, theirs in zip(found, limits, float32, exact, strict=True):
        scales = np.array([np.max(np.abs(array), initial=0.0) for array in theirs])
        rounding = np.finfo(np.float32).eps * scales.max() / np.where(scales == 0, 1, scales)
        assert np.all(error <= np.maximum(limit, 3 * errors(other, theirs)) + rounding)


def with_biases(dnc: DNC, **biases: float) -> DNC:
    """The model with some parts of its interface held at a value."""
    bias, weight = np.array(dnc.interface_bias), np.array(dnc.interface_weight)
    start = 0
    for name, size in interface_parts(dnc.num_reads, dnc.word_size).items():
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
    assert_agrees(dnc, inputs, 13)
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


def check_random_case(approach, slots, word, reads, hidden, time, batch, scale, threads):
    dnc = small_dnc(approach, ModelConfig(slots, word, reads, hidden), scale)
    assert_agrees(dnc, random_inputs(time, batch), slots, threads)


@compiled
@random_cases(3)
def test_agrees_at_random_sizes(**case):
    check_random_case(**case)


@compiled
@pytest.mark.slow
@random_cases(100)
def test_agrees_at_many_random_sizes(**case):
    check_random_case(**case)
    jax.clear_caches()  # every size is a program of its own, and a process may map only so many


@compiled
def test_agrees_with_the_reference_vectors():
    vectors = parity.load_vectors(VECTORS)
    dnc, memory_size = parity.build_model(vectors), int(vectors["memory_size"])
    kernel = fused.FusedUnroll()
    run = kernel.forward(dnc, vectors["inputs"].astype(np.float32), memory_size, keep=True)
    assert np.all(
        errors(run[:2], [vectors["outputs"], vectors["cell_states"]])
        < parity.ACCEPTED["float32"]["value"]
    )
    off = (run.outputs - vectors["target"]) * (2 / run.outputs.size)  # of the mean square
    gradients = parity._by_file_name(
        kernel.backward(run, off.astype(np.float32), np.zeros_like(run.cell_states))
    )
    found = errors(gradients.values(), [vectors[f"grad_{name}"] for name in gradients])
    assert len(found) == 26
    assert np.all(found < parity.ACCEPTED["float32"]["gradient"])


@compiled
@pytest.mark.parametrize("approach", ["stateful-baseline", "stateful-baseline+used"])
@pytest.mark.parametrize("simd", fused.simd_levels())
def test_every_instruction_set_agrees(simd, approach):
    dnc, inputs = small_dnc(approach, ODD, scale=0.5), random_inputs(6, 25)
    assert fused.FusedUnroll(simd=simd).simd == simd
    assert_agrees(dnc, inputs, 13, simd=simd)


@compiled
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_repeats_bit_for_bit(threads):
    dnc, inputs = small_dnc("stateful-baseline", ODD), random_inputs(9, 5)
    kernel = fused.FusedUnroll(threads)

    def run():
        forward = kernel.forward(dnc, inputs, 13, keep=True)
        return [*forward[:2], *by_part(kernel.backward(forward, *cotangents(dnc, inputs)))]

    first = run()
    kernel.forward(small_dnc("compr"), random_inputs(30, 7), 40, keep=True)  # other contents
    fresh_values, fresh_gradients = run_fused(dnc, inputs, 13, threads)
    for other in (run(), [*fresh_values, *fresh_gradients]):
        assert all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@compiled
def test_keeping_and_logging_change_nothing():
    dnc, inputs = small_dnc("compr", ODD), random_inputs(6, 3)
    kernel = fused.FusedUnroll()
    plain = kernel.forward(dnc, inputs, 13)
    logged = kernel.forward(dnc, inputs, 13, keep=True, weights=True)
    assert plain.read_weights is None
    assert plain.write_weights is None
    assert np.array_equal(plain.outputs, logged.outputs)
    assert np.array_equal(plain.cell_states, logged.cell_states)
    inside = dnc.unroll(inputs, 13, internals=True).internals.memory
    np.testing.assert_allclose(logged.read_weights, inside.read_weights, atol=1e-5)
    np.testing.assert_allclose(logged.write_weights, inside.write_weights, atol=1e-5)


@compiled
@pytest.mark.parametrize("simd", fused.simd_levels())
@pytest.mark.parametrize("memory_size", [1, 7, 16, 50, 130, 400])
def test_visiting_only_touched_slots_changes_no_bit(memory_size, simd):
    """A forward that keeps everything visits all slots, one that does not the touched ones."""
    dnc = small_dnc("stateful-baseline+used", ODD)
    kernel = fused.FusedUnroll(2, simd)
    for inputs in (random_inputs(1, 3), random_inputs(45, 3, scale=2.0)):
        every = kernel.forward(dnc, inputs, memory_size, keep=True, weights=True)
        touched = kernel.forward(dnc, inputs, memory_size, weights=True)
        assert all(np.array_equal(a, b) for a, b in zip(every[:4], touched[:4], strict=True))
    if memory_size == 400:
        used = np.any(every.write_weights != 0, axis=0)
        assert 45 < used.sum(-1).max() < 300, "the test has become too easy"


@compiled
def test_memory_that_is_not_touched_is_not_reserved():
    kernel = fused.FusedUnroll()
    kernel.forward(small_dnc("compr+reg+used"), random_inputs(5, 4), 100_000)
    assert kernel.workspace_bytes < 20e6


@compiled
def test_arrays_are_aligned_for_jax():
    run = fused.FusedUnroll().forward(small_dnc("compr"), random_inputs(3, 2), 5)
    assert run.outputs.ctypes.data % 64 == 0
    assert run.cell_states.ctypes.data % 64 == 0


@compiled
def test_without_keep_memory_does_not_grow_with_time():
    kernel = fused.FusedUnroll()
    kernel.forward(small_dnc("compr"), random_inputs(2, 64), 500)
    before = kernel.workspace_bytes
    kernel.forward(small_dnc("compr"), random_inputs(50, 64), 60)
    assert kernel.workspace_bytes == before
    assert before < 50e6


@compiled
def test_not_a_number_is_passed_on_but_not_to_other_samples():
    dnc, inputs = small_dnc("stateful-baseline", ODD), np.array(random_inputs(6, 3))
    whole = fused.FusedUnroll().forward(dnc, inputs, 13).outputs
    inputs[2, 1] = np.nan
    kernel = fused.FusedUnroll()
    run = kernel.forward(dnc, inputs, 13, keep=True)
    assert np.all(np.isnan(run.outputs[2:, 1]))
    assert np.array_equal(run.outputs[:, [0, 2]], whole[:, [0, 2]])
    gradients = kernel.backward(run, *cotangents(dnc, inputs))
    assert np.all(np.isnan(gradients.controller.weight[:, 0]))


@compiled
def test_a_loss_need_not_see_the_cell_states():
    dnc, inputs = small_dnc("compr", ODD), random_inputs(4, 3)
    d_outputs, d_cells = cotangents(dnc, inputs)
    kernel, found = fused.FusedUnroll(), []
    for cells in (None, np.zeros_like(d_cells)):
        run = kernel.forward(dnc, inputs, 13, keep=True)
        found.append(jax.tree.leaves(kernel.backward(run, d_outputs, cells)))
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


@compiled
def test_backward_needs_its_own_kept_forward():
    dnc, inputs = small_dnc("compr"), random_inputs(3, 2)
    kernel = fused.FusedUnroll()
    d_outputs, d_cells = cotangents(dnc, inputs)
    forgotten = kernel.forward(dnc, inputs, 5)
    with pytest.raises(BadSetting, match="needs a forward with keep=True"):
        kernel.backward(forgotten, d_outputs, d_cells)
    run = kernel.forward(dnc, inputs, 5, keep=True)
    kernel.backward(run, d_outputs, d_cells)
    with pytest.raises(BadSetting, match="only one backward"):
        kernel.backward(run, d_outputs, d_cells)
    for keep in (False, True):
        run = kernel.forward(dnc, inputs, 5, keep=True)
        other = kernel.forward(dnc, 2 * inputs, 5, keep=keep)  # as another thread would
        with pytest.raises(BadSetting, match="needs a forward with keep=True just before it"):
            kernel.backward(run, d_outputs, d_cells)
    kernel.backward(other, d_outputs, d_cells)


@compiled
@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda d: d.astype(np.float64), "output_cotangents must be float32"),
        (lambda d: d[:-1], r"has the shape \(2, 2, 2\) instead of \(3, 2, 2\)"),
        (lambda d: d[0], r"has the shape \(2, 2\) instead of \(3, 2, 2\)"),
    ],
)
def test_wrong_cotangents_are_refused_and_cost_nothing(spoil, sentence):
    dnc, inputs = small_dnc("compr"), random_inputs(3, 2)
    d_outputs, d_cells = cotangents(dnc, inputs)
    kernel = fused.FusedUnroll()
    run = kernel.forward(dnc, inputs, 5, keep=True)
    with pytest.raises(BadSetting, match=sentence):
        kernel.backward(run, spoil(d_outputs), d_cells)
    kernel.backward(run, d_outputs, d_cells)


@compiled
def test_views_and_double_inputs_are_taken_as_pure_takes_them():
    dnc, inputs = small_dnc("compr"), np.asarray(random_inputs(3, 4))
    kernel = fused.FusedUnroll()
    expected = kernel.forward(dnc, np.array(inputs[:, ::2]), 5).outputs
    for same in (inputs[:, ::2], np.asfortranarray(inputs[:, ::2]), inputs[:, ::2].astype(float)):
        np.testing.assert_array_equal(kernel.forward(dnc, same, 5).outputs, expected)


@compiled
def test_wrong_parameters_are_refused():
    dnc, inputs = small_dnc("compr"), random_inputs(3, 2)
    kernel = fused.FusedUnroll()
    short = eqx.tree_at(lambda dnc: dnc.controller.bias, dnc, dnc.controller.bias[1:])
    with pytest.raises(BadSetting, match=r"bias has the shape \(15,\) instead of \(16,\)"):
        kernel.forward(short, inputs, 5)
    half = eqx.tree_at(lambda dnc: dnc.readout_weight, dnc, dnc.readout_weight.astype(jnp.float16))
    with pytest.raises(BadSetting, match="readout_weight must be float32"):
        kernel.forward(half, inputs, 5)
    with pytest.raises(BadSetting, match="memory_size is 0"):
        kernel.forward(dnc, inputs, 0)
    with pytest.raises(BadSetting, match=f"accepted: 1 to {MOST_SLOTS}$"):
        kernel.forward(dnc, inputs, MOST_SLOTS + 1)
    with pytest.raises(BadSetting, match="threads is 0"):
        fused.FusedUnroll(0)
    with pytest.raises(BadSetting, match=r"simd is 'mmx'; accepted on this machine: .*baseline"):
        fused.FusedUnroll(simd="mmx")


@compiled
def test_what_only_the_pure_path_can_do_is_said():
    class Own(Lstm):
        pass

    dnc, inputs = small_dnc("stateful-baseline"), random_inputs(3, 2)
    own = eqx.tree_at(lambda dnc: dnc.controller, dnc, Own(9, 4, key=jax.random.key(0)))
    kernel = fused.FusedUnroll()
    with pytest.raises(BadSetting, match="pure, for a controller of your own"):
        kernel.forward(own, inputs, 5)
    with pytest.raises(BadSetting, match="pure, inside jit, grad and vmap"):
        jax.jit(lambda x: kernel.forward(dnc, x, 5).outputs)(inputs)
    with pytest.raises(BadSetting, match="pure, inside jit, grad and vmap"):
        eqx.filter_grad(lambda dnc: kernel.forward(dnc, inputs, 5).outputs.sum())(dnc)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


def assert_no_growth(calls: int):
    dnc, inputs = small_dnc("compr"), np.array(random_inputs(4, 3))
    d_outputs, d_cells = cotangents(dnc, inputs)
    kernel = fused.FusedUnroll(2)

    def call():
        run = kernel.forward(dnc, inputs, 5, keep=True, weights=True)
        kernel.backward(run, d_outputs, d_cells)
        with pytest.raises(BadSetting, match="only one"):
            kernel.backward(run, d_outputs, d_cells)

    for _ in range(200):
        call()
    before = resident_bytes()
    for _ in range(calls):
        call()
    # One leaked array of the smallest kind would be 64 bytes and its owner, per call.
    assert resident_bytes() - before < 32 * calls + 2**20


needs_statm = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux only")


@compiled
@needs_statm
def test_does_not_leak():
    assert_no_growth(1000)


@compiled
@needs_statm
@pytest.mark.slow
def test_does_not_leak_in_many_calls():
    assert_no_growth(10_000)
    assert_no_growth(10_000)


def run_kernel_test(folder: Path, optimise: str, sizes: int, calls: int) -> str:
    """Build the kernel's own test with address and undefined-behaviour checks, and run it.

    Without AVX-512 here, its sixteen lanes are run as pairs of eight.
    """
    x86 = platform.machine() in ("x86_64", "AMD64")
    levels = {"baseline": []}
    if x86:
        cpu = Path("/proc/cpuinfo")
        has_avx512 = cpu.exists() and "avx512f" in cpu.read_text()
        levels["avx2"] = ["-mavx2", "-mfma"]
        levels["avx512"] = (
            ["-mavx512f", "-mfma"] if has_avx512 else ["-mavx2", "-mfma", "-DCDNC_LANES=16"]
        )
    common = ["g++", "-std=c++17", optimise, "-ffp-contract=fast", "-Wno-psabi"]
    common += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{SOURCES}"]
    objects = []
    for level, flags in levels.items():
        objects.append(folder / f"{level}.o")
        names = [f"-DCDNC_LEVEL={level}", f'-DCDNC_LEVEL_NAME="{level}"']
        source = ["-c", SOURCES / "unroll.cpp", "-o", objects[-1]]
        subprocess.run([*common, *flags, *names, *source], check=True)
    program = folder / "kernel_test"
    sources = [Path(__file__).with_name("kernel_test.cpp"), SOURCES / "workspace.cpp"]
    define = ["-DCDNC_X86"] if x86 else []
    subprocess.run([*common, *define, *sources, *objects, "-pthread", "-o", program], check=True)
    done = subprocess.run(
        [program, str(sizes), str(calls)], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@needs_gxx
def test_sanitizers_find_nothing(tmp_path):
    assert run_kernel_test(tmp_path, "-O0", sizes=15, calls=300) == "0 failures\n"


@needs_gxx
@pytest.mark.slow
def test_sanitizers_find_nothing_in_many_calls(tmp_path):
    assert run_kernel_test(tmp_path, "-O1", sizes=300, calls=10_000) == "0 failures\n"


@compiled
@pytest.mark.parametrize(("memory_size", "time"), [(200, 3), (50, 1)])
def test_young_memories_keep_the_digits_of_small_gradients(memory_size, time):
    """Slots that look alike: what their gradients have in common is large and cancels."""
    assert_agrees(small_dnc("compr", ODD, scale=0.3), random_inputs(time, 2), memory_size)
