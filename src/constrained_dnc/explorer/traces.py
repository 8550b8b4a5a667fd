"""The forward pass of a model on one problem, with all internals, and its tape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from constrained_dnc.errors import SettingError
from constrained_dnc.evaluation.analyses import reduce_states
from constrained_dnc.evaluation.prediction import Entry, compare
from constrained_dnc.explorer.models import MAX_DRAWN_LENGTH
from constrained_dnc.model.backend import choose_backend, padded
from constrained_dnc.model.config import MemorySize, require_memory_size
from constrained_dnc.model.dnc import DNC, Internals
from constrained_dnc.tasks.entries import label_with_number
from constrained_dnc.tasks.task import (
    AbstractTask,
    Batch,
    CellLabels,
    Problem,
    as_floats,
)
from constrained_dnc.training.run import TrainedModel


@dataclass(frozen=True)
class Row:
    """One channel through time; NaN where it is blank."""

    name: str
    values: Float[np.ndarray, "time"]
    labels: list[str]
    """The text in the cells."""
    hover: list[str]
    """The text on hovering: the label with the network's number."""


def rows_of(
    task: AbstractTask, batch: Batch, outputs: Float[np.ndarray, "time batch outputs"], sample: int
) -> list[Row]:
    """Inputs, targets at the steps of the loss, outputs."""
    inputs, targets = batch.inputs[:, sample], batch.targets[:, sample]
    scored = batch.mask[:, sample]
    values = as_floats(outputs)[:, sample]
    input_labels, target_labels = task.cell_labels(batch.problems[sample]) or (None, {})
    output_labels = task.output_labels(values, batch.length)
    values = task.probabilities(values)
    if input_labels is not None:  # blanks are 0, as some numeral may be: only labels tell
        blank = [
            [not _label(input_labels, name, step) for name in task.input_channels]
            for step in range(len(inputs))
        ]
        inputs = np.where(blank, np.nan, inputs)
    targets = np.where(scored[:, np.newaxis], targets, np.nan)
    everywhere = np.ones_like(scored)
    return [
        *_rows("in", task.input_channels, inputs, input_labels or {}, everywhere),
        *_rows("target", task.output_channels, targets, target_labels, scored),
        *_rows("out", task.output_channels, values, output_labels, scored),
    ]


def _rows(
    kind: str,
    channels: Sequence[str],
    values: Float[np.ndarray, "time channels"],
    labels: CellLabels,
    labelled: Bool[np.ndarray, "time"],
) -> list[Row]:
    """A row for each channel, with labels at the steps in `labelled`."""
    rows = []
    for channel, column in zip(channels, values.T.tolist(), strict=True):
        texts = [_label(labels, channel, step) for step in range(len(column))]
        cells = texts if channel in labels else [_number(value) for value in column]
        cells = [cell if shown else "" for cell, shown in zip(cells, labelled, strict=True)]
        pairs = zip(texts, column, strict=True)
        hover = [label_with_number(text, value) or f"{value:.2f}" for text, value in pairs]
        rows.append(Row(f"{kind}: {channel}", np.array(column), cells, hover))
    return rows


def _label(labels: CellLabels, channel: str, step: int) -> str:
    return labels.get(channel, {}).get(step, "")


def _number(value: float) -> str:
    """A number to one decimal; an empty string for NaN.

    >>> _number(0.52), _number(-0.01), _number(float("nan"))
    ('0.5', '0', '')
    """
    if np.isnan(value):
        return ""
    return np.format_float_positional(round(value, 1) + 0.0, trim="-")


MAX_DRAWN_SLOTS = 1000
PER_SLOT = ("usage", "precedence", "write_weights", "read_weights")
"""Fields of the memory state whose last axis is the slot."""
COMPANIONS = 32
"""Random problems whose states are drawn for comparison."""


@dataclass(frozen=True)
class Trace:
    """A forward pass of a model on one problem, with its internals."""

    model: TrainedModel
    batch: Batch  # of this problem alone
    memory_size: MemorySize
    outputs: Float[np.ndarray, "time 1 outputs"]
    internals: Internals  # without the link, which follows from the write weights

    @property
    def text(self) -> str:
        return self.model.task.format_problem(self.batch.problems[0])

    @property
    def slots(self) -> int:
        """Slots at the end; a growing memory starts with fewer."""
        return int(self.internals.memory.usage.shape[-1])

    @property
    def encoding_steps(self) -> int:
        return self.model.task.encoding_steps(self.batch.length)

    @property
    def score(self) -> float:
        return float(self.model.task.score(self.batch, self.outputs).score[0])

    @property
    def entries(self) -> list[Entry]:
        """The answer entry by entry, where the task's answers have entries."""
        answer = self.model.task.decode(self.outputs, self.batch.length)[0]
        return compare(self.model.task, self.batch.problems[0], answer)

    @property
    def first_result_step(self) -> int:
        """The step of the answer's first entry, counted from 1."""
        return int(np.argmax(self.batch.mask[:, 0])) + 1


def trace(model: TrainedModel, text: str, memory_size: MemorySize | None = None) -> Trace:
    """Run a model on a problem in the task's text form and keep its internals."""
    problem = read_problem(model.task, text)
    if memory_size is None:
        memory_size = model.slots
    else:
        require_memory_size(memory_size, MAX_DRAWN_SLOTS)
    batch = model.task.batch_of([problem])
    outputs, internals = _unroll(with_memory(model, memory_size), batch.inputs)
    return Trace(model, batch, memory_size, outputs, _without_unused_slots(internals))


def _without_unused_slots(internals: Internals) -> Internals:
    """Drop the slots that a growing memory had reserved but never used."""
    memory = internals.memory
    if memory.slots is None:
        return internals
    count = int(memory.slots[-1, 0])
    cut = {
        "memory": memory.memory[..., :count, :],
        **{name: getattr(memory, name)[..., :count] for name in PER_SLOT},
    }
    grown: Internals = eqx.tree_at(
        lambda inside: [getattr(inside.memory, name) for name in cut], internals, list(cut.values())
    )
    return grown


def read_problem(task: AbstractTask, text: str) -> Problem:
    """A problem that is short enough to be drawn, from the task's text form."""
    problem = task.parse(text)
    length = task.length_of(problem)
    if length > MAX_DRAWN_LENGTH:
        raise SettingError(
            f"the problem has length {length}; the explorer draws at most {MAX_DRAWN_LENGTH}"
        )
    return problem


def with_memory(model: TrainedModel, memory_size: MemorySize) -> DNC:
    """The network with another memory."""
    return model.model.with_memory_size(model.memory(memory_size))


def state_paths(
    trace: Trace, companions: int = COMPANIONS
) -> Float[np.ndarray, "time batch dimensions"] | None:
    """Cell states in the plane: those of the trace, then those of random problems of its length.

    None for a controller that carries no state, or when states are not finite.
    """
    model, inputs = trace.model, trace.batch.inputs
    if companions:
        others = model.task.sample(0, companions, trace.batch.length)
        inputs = np.concatenate([inputs, others.inputs], axis=1)
    dnc = with_memory(model, trace.memory_size)
    backend = choose_backend("auto", dnc, model.task.loss, threads=1)
    states = np.asarray(backend.forward(dnc, inputs, keep_state=False).cell_states)
    if not states.shape[-1] or not np.isfinite(states).all():
        return None
    return reduce_states(states, dimensions=2)[0]


def arrays(trace: Trace) -> dict[str, Any]:
    """Everything that is shown, by name; time is the first axis."""
    inside = trace.internals
    parts: dict[str, Any] = {
        "outputs": trace.outputs,
        "inputs": trace.batch.inputs,
        "targets": trace.batch.targets,
        "cell_state": inside.cell_state,
        "hidden": inside.hidden,
        "reads": inside.reads.reshape(*inside.interface.free_gates.shape, -1),
    }
    parts |= {name: getattr(inside.interface, name) for name in vars(inside.interface)}
    memory = vars(inside.memory).items()
    parts |= {name: array for name, array in memory if name not in ("link", "writes")}
    return {name: np.asarray(array)[:, 0] for name, array in parts.items() if array is not None}


def _unroll(model: DNC, inputs: Any) -> tuple[Any, Internals]:
    """Outputs and internals; steps are rounded up so that compiled programs are reused."""
    steps = len(inputs)
    unrolled: tuple[Any, Internals] = jax.tree.map(
        lambda leaf: np.asarray(leaf)[:steps], _compiled_unroll(model, padded(inputs)[0])
    )
    return unrolled


@eqx.filter_jit
def _compiled_unroll(model: DNC, inputs: Any) -> tuple[Any, Internals]:
    run = model.unroll(inputs, internals=True)
    # Links take steps * slots**2 numbers: dropped here, the compiler never stores them.
    nothing = jnp.zeros((*inputs.shape[:2], 0, 0), inputs.dtype)
    slim: Internals = eqx.tree_at(lambda inside: inside.memory.link, run.internals, nothing)
    return run.outputs, slim
