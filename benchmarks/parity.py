"""Compare this implementation with vectors computed by another one.

python benchmarks/parity.py FILE.npz [--backend fused]

One line per quantity and precision; the exit code is 1 if one of them differs. With the backend
`fused` the float32 lines come from the C++ kernel; float64 is always the pure path.
`docs/parity.md` says how to make such a file, for example with DeepMind's implementation.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from constrained_dnc.model.config import ModelConfig
from constrained_dnc.model.controllers import Lstm
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.dnc_memory import DNCMemory, interface_parts
from constrained_dnc.model.fused import FusedUnroll
from constrained_dnc.shapes import Array

ACCEPTED = {
    "float32": {"value": 1e-5, "gradient": 1e-4},
    "float64": {"value": 1e-10, "gradient": 1e-10},
}
"""Largest accepted error relative to the largest entry of the array.

Gradients that all but cancel are smaller than the rounding of those they come from: a gradient may
also be off by the precision's epsilon times the largest entry of all gradients.
"""

PART_NAMES = {  # ours, then the file's
    "read_keys": "read_key",
    "read_strengths": "read_strength",
    "write_key": "write_key",
    "write_strength": "write_strength",
    "erase_vector": "erase_vector",
    "write_vector": "write_vector",
    "free_gates": "free_gate",
    "allocation_gate": "allocation_gate",
    "write_gate": "write_gate",
    "read_modes": "read_mode",
}

SIZES = ("memory_size", "word_size", "num_reads")
RESULTS = ("outputs", "cell_states", "target", "loss")

Vectors = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Comparison:
    """One quantity in one precision, ours against the file's."""

    name: str
    kind: str  # value or gradient
    dtype: str
    error: float  # largest absolute difference
    scale: float  # largest absolute entry of the file's
    rounding: float  # what the precision itself can do to a gradient among larger ones

    @property
    def passed(self) -> bool:
        """Whether they agree; what is not finite agrees with nothing."""
        accepted = ACCEPTED[self.dtype][self.kind] * self.scale + self.rounding
        return math.isfinite(self.error) and self.error <= accepted


def load_vectors(path: Path) -> dict[str, npt.NDArray[np.float64]]:
    """The arrays of a file in the layout of `docs/parity.md`; others in it are ignored."""
    names = [*SIZES, *RESULTS, "inputs"]
    names += [f"{kind}_{name}" for kind in ("param", "grad") for name in _parameter_names()]
    with np.load(path, allow_pickle=False) as arrays:
        if missing := [name for name in names if name not in arrays]:
            raise ValueError(f"{path} lacks {', '.join(missing)}")
        vectors = {name: arrays[name].astype(np.float64) for name in names}
    for name, shape in _shapes(vectors).items():
        if vectors[name].shape != shape:
            raise ValueError(f"the shape of {name} is {vectors[name].shape}, expected {shape}")
    return vectors


def _shapes(vectors: Vectors) -> dict[str, tuple[int, ...]]:
    """The shape of every array, from the sizes and three of the arrays."""
    word, reads = int(vectors["word_size"]), int(vectors["num_reads"])
    time, batch, wide_in = vectors["inputs"].shape
    (wide_out,), hidden = vectors["outputs"].shape[2:], vectors["cell_states"].shape[2]
    shapes: dict[str, tuple[int, ...]] = {
        "lstm_weight_input": (4 * hidden, wide_in + reads * word),
        "lstm_weight_hidden": (4 * hidden, hidden),
        "lstm_bias_input": (4 * hidden,),
        "lstm_bias_hidden": (4 * hidden,),
        "output_weight": (wide_out, hidden + reads * word),
        "output_bias": (wide_out,),
    }
    for part, size in interface_parts(reads, word).items():
        shapes[f"{PART_NAMES[part]}_weight"] = (size, hidden)
        shapes[f"{PART_NAMES[part]}_bias"] = (size,)
    expected = {f"{kind}_{name}": s for kind in ("param", "grad") for name, s in shapes.items()}
    expected |= {"outputs": (time, batch, wide_out), "target": (time, batch, wide_out)}
    return expected | {"cell_states": (time, batch, hidden), "loss": ()}


def build_model(vectors: Vectors) -> DNC:
    """Our model with the weights of the file, in the current default precision."""
    hidden_size = vectors["param_lstm_weight_hidden"].shape[1]
    output_size = vectors["param_output_bias"].shape[0]
    word_size, num_reads = int(vectors["word_size"]), int(vectors["num_reads"])
    input_size = vectors["inputs"].shape[2]
    key = jax.random.key(0)
    model = DNC(
        Lstm(input_size + num_reads * word_size, hidden_size, key=key),
        DNCMemory(int(vectors["memory_size"]), word_size, num_reads),
        input_size=input_size,
        output_size=output_size,
        clip_value=ModelConfig.clip_value,
        key=key,
    )
    return eqx.tree_at(
        _leaves, model, [jnp.asarray(leaf) for leaf in _file_leaves(vectors, "param")]
    )


def compare(vectors: Vectors, backend: str = "pure") -> Iterator[Comparison]:
    """Every output, state and gradient, in the precision that is switched on."""
    model = build_model(vectors)
    loss, outputs, cell_states, gradients = (_fused if backend == "fused" else _pure)(
        model, vectors
    )
    dtype = str(loss.dtype)

    expected = np.concatenate([vectors[f"grad_{name}"].ravel() for name in _parameter_names()])
    largest = np.max(np.abs(expected), where=np.isfinite(expected), initial=0.0)
    rounding = {"value": 0.0, "gradient": float(np.finfo(dtype).eps * largest)}

    def comparison(name: str, kind: str, ours: npt.ArrayLike, theirs: npt.ArrayLike) -> Comparison:
        ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
        with np.errstate(invalid="ignore"):  # infinities
            error, scale = float(np.max(np.abs(ours - theirs))), float(np.max(np.abs(theirs)))
        return Comparison(name, kind, dtype, error, scale, rounding[kind])

    yield comparison("outputs", "value", outputs, vectors["outputs"])
    yield comparison("cell_states", "value", cell_states, vectors["cell_states"])
    yield comparison("loss", "value", loss, vectors["loss"])
    for name, ours in _by_file_name(gradients).items():
        yield comparison(f"grad_{name}", "gradient", ours, vectors[f"grad_{name}"])


def compare_both(vectors: Vectors, backend: str = "pure") -> list[Comparison]:
    """Every quantity in single precision with the backend, then in double precision."""
    comparisons: list[Comparison] = []
    for double in (False, True):
        with jax.enable_x64(double), np.errstate(over="ignore"):  # of single precision
            comparisons += compare(vectors, "pure" if double else backend)
    return comparisons


@eqx.filter_jit
@eqx.filter_value_and_grad(has_aux=True)
def _evaluate(model: DNC, inputs: Array, target: Array) -> tuple[Array, tuple[Array, Array]]:
    unrolled = model.unroll(inputs)
    loss = jnp.mean((unrolled.outputs - target) ** 2)
    return loss, (unrolled.outputs, unrolled.cell_states)


def _pure(model: DNC, vectors: Vectors) -> tuple[Array, Array, Array, DNC]:
    inputs, target = jnp.asarray(vectors["inputs"]), jnp.asarray(vectors["target"])
    (loss, (outputs, cell_states)), gradients = _evaluate(model, inputs, target)
    return loss, outputs, cell_states, gradients


def _fused(model: DNC, vectors: Vectors) -> tuple[Array, Array, Array, DNC]:
    kernel = FusedUnroll()
    inputs, target = jnp.asarray(vectors["inputs"]), jnp.asarray(vectors["target"])
    run = kernel.forward(model, inputs, keep=True)
    loss, cotangents = jax.value_and_grad(lambda y: jnp.mean((y - target) ** 2))(run.outputs)
    gradients = kernel.backward(run, cotangents, np.zeros_like(run.cell_states))
    return loss, jnp.asarray(run.outputs), jnp.asarray(run.cell_states), gradients


def _parameter_names() -> list[str]:
    lstm = ["lstm_weight_input", "lstm_weight_hidden", "lstm_bias_input", "lstm_bias_hidden"]
    parts = [f"{part}_{kind}" for part in PART_NAMES.values() for kind in ("weight", "bias")]
    return [*lstm, "output_weight", "output_bias", *parts]


def _leaves(model: DNC) -> list[Any]:
    controller = model.controller
    assert isinstance(controller, Lstm)
    return [
        controller.weight,
        controller.bias,
        controller.initial_cell,
        controller.initial_hidden,
        model.interface_weight,
        model.interface_bias,
        model.output_weight,
        model.readout_weight,
        model.output_bias,
    ]


def _file_leaves(vectors: Vectors, prefix: str) -> list[npt.NDArray[np.float64]]:
    """The file's arrays in the order of `_leaves`; its states start at zero."""

    def get(name: str) -> npt.NDArray[np.float64]:
        return vectors[f"{prefix}_{name}"]

    hidden_size = get("lstm_weight_hidden").shape[1]
    output = get("output_weight")
    return [
        np.concatenate([get("lstm_weight_input"), get("lstm_weight_hidden")], axis=1),
        get("lstm_bias_input") + get("lstm_bias_hidden"),
        np.zeros(hidden_size),
        np.zeros(hidden_size),
        np.concatenate([get(f"{part}_weight") for part in PART_NAMES.values()]),
        np.concatenate([get(f"{part}_bias") for part in PART_NAMES.values()]),
        output[:, :hidden_size],
        output[:, hidden_size:],
        get("output_bias"),
    ]


def _by_file_name(gradients: DNC) -> dict[str, npt.NDArray[np.floating]]:
    """Our gradients under the file's names and in its shapes."""
    controller = gradients.controller
    assert isinstance(controller, Lstm)
    weight, bias = np.asarray(controller.weight), np.asarray(controller.bias)
    num_inputs = weight.shape[1] - controller.hidden_size
    named = {
        "lstm_weight_input": weight[:, :num_inputs],
        "lstm_weight_hidden": weight[:, num_inputs:],
        "lstm_bias_input": bias,
        "lstm_bias_hidden": bias,
        "output_weight": np.concatenate(
            [gradients.output_weight, gradients.readout_weight], axis=1
        ),
        "output_bias": np.asarray(gradients.output_bias),
    }
    memory = gradients.memory
    assert isinstance(memory, DNCMemory)
    sizes = interface_parts(memory.num_reads, memory.word_size)
    ends = np.cumsum(list(sizes.values()))[:-1]
    weights = np.split(np.asarray(gradients.interface_weight), ends)
    biases = np.split(np.asarray(gradients.interface_bias), ends)
    for part, part_weight, part_bias in zip(sizes, weights, biases, strict=True):
        named[f"{PART_NAMES[part]}_weight"] = part_weight
        named[f"{PART_NAMES[part]}_bias"] = part_bias
    return named


def main(arguments: list[str] | None = None) -> int:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="an .npz file as docs/parity.md describes it")
    parser.add_argument("--backend", choices=("pure", "fused"), default="pure")
    args = parser.parse_args(arguments)
    try:
        vectors = load_vectors(args.file)
    except (OSError, ValueError) as error:
        parser.error(f"{args.file} cannot be compared: {error}")
    failed = 0
    for comparison in compare_both(vectors, args.backend):
        failed += not comparison.passed
        print(
            f"{'ok  ' if comparison.passed else 'FAIL'} {comparison.dtype} {comparison.name:26} "
            f"largest error {comparison.error:.2e} of {comparison.scale:.2e}"
        )
    print(f"{failed} quantities differ" if failed else "all quantities agree")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
