"""One problem through one model: the answer, and everything that happened inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from constrained_dnc.analysis.state_space import reduce_states
from constrained_dnc.errors import SettingError
from constrained_dnc.evaluation.memories import model_for
from constrained_dnc.explorer.models import LONGEST_DRAWN, Model
from constrained_dnc.model.backend import padded
from constrained_dnc.model.config import MemorySize, require_memory_size
from constrained_dnc.model.dnc import DNC, Internals
from constrained_dnc.tasks.task import AbstractTask, Batch, Problem
from constrained_dnc.training.run import backend_for

MOST_DRAWN_SLOTS = 1000
OVER_SLOTS = ("usage", "precedence", "write_weights", "read_weights")
"""What the memory carries whose last axis is the slot."""
NONE = "\u2013"
COMPANIONS = 32
"""Random problems whose states are drawn beside those of the problem looked at."""


@dataclass(frozen=True)
class Entry:
    """One entry of the answer beside the right one; a dash stands for none."""

    right: str
    given: str

    @property
    def is_right(self) -> bool:
        return self.right == self.given


@dataclass(frozen=True)
class Attempt:
    """What a model made of a problem."""

    model: Model
    batch: Batch  # of this problem alone
    memory_size: MemorySize
    outputs: Float[np.ndarray, "time 1 outputs"]
    internals: Internals  # without the link: it follows from the write weights

    @property
    def text(self) -> str:
        return self.model.task.format_problem(self.batch.problems[0])

    @property
    def slots(self) -> int:
        """Slots at the end; a growing memory has begun with fewer."""
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
        task = self.model.task
        right = task.solve(self.batch.problems[0])
        given = task.decode(self.outputs, self.batch.length)[0]
        if not all(isinstance(answer, Sequence) for answer in (right, given)):
            return [Entry(task.format_answer(right), task.format_answer(given))]
        pairs = _side_by_side(right, given)
        return [Entry(*pair) for pair in pairs]

    @property
    def first_result_step(self) -> int:
        """The step of the first entry."""
        return int(np.argmax(self.batch.mask[:, 0])) + 1


def attempt(model: Model, text: str, memory_size: MemorySize | None = None) -> Attempt:
    """Give a model a problem in the task's own text and keep what happens inside."""
    problem = read_problem(model.task, text)
    if memory_size is None:
        memory_size = model.memory_size
    else:
        require_memory_size(memory_size, MOST_DRAWN_SLOTS)
    batch = model.task.batch_of([problem])
    outputs, internals = _unroll(_with_memory(model, memory_size), batch.inputs)
    return Attempt(model, batch, memory_size, outputs, _without_room(internals))


def _without_room(internals: Internals) -> Internals:
    """Without the slots that a growing memory had room for and never made."""
    memory = internals.memory
    if memory.slots is None:
        return internals
    there = int(memory.slots[-1, 0])
    cut = {
        "memory": memory.memory[..., :there, :],
        **{name: getattr(memory, name)[..., :there] for name in OVER_SLOTS},
    }
    grown: Internals = eqx.tree_at(
        lambda inside: [getattr(inside.memory, name) for name in cut], internals, list(cut.values())
    )
    return grown


def read_problem(task: AbstractTask, text: str) -> Problem:
    """A problem that is short enough to be drawn, from the task's own text."""
    problem = task.parse(text)
    length = task.length_of(problem)
    if length > LONGEST_DRAWN:
        raise SettingError("length of the problem", length, f"at most {LONGEST_DRAWN}, to be drawn")
    return problem


def _with_memory(model: Model, memory_size: MemorySize) -> DNC:
    return model_for(model.run, memory_size, model.selected)


def state_paths(
    found: Attempt, companions: int = COMPANIONS
) -> Float[np.ndarray, "time batch dimensions"] | None:
    """Cell states in the plane: the attempt's first, then those of random problems as long.

    None for a controller that carries no state, or when states are not finite.
    """
    model, length = found.model, found.batch.length
    inputs = found.batch.inputs
    if companions:
        drawn = model.task.sample(0, companions, length)
        inputs = np.concatenate([inputs, drawn.inputs], axis=1)
    dnc = _with_memory(model, found.memory_size)
    backend = backend_for(model.config, dnc, threads=1)
    states = np.asarray(backend.forward(dnc, inputs).cell_states)
    if not states.shape[-1] or not np.isfinite(states).all():
        return None
    return reduce_states(states, dimensions=2)[0]


def arrays(found: Attempt) -> dict[str, Any]:
    """Everything shown, by name, for a file of your own; time is the first axis."""
    inside = found.internals
    parts: dict[str, Any] = {
        "outputs": found.outputs,
        "inputs": found.batch.inputs,
        "targets": found.batch.targets,
    }
    heads = inside.reads.reshape(*inside.reads.shape[:2], inside.interface.free_gates.shape[-1], -1)
    parts |= {"cell_state": inside.cell_state, "hidden": inside.hidden, "reads": heads}
    parts |= {name: getattr(inside.interface, name) for name in vars(inside.interface)}
    parts |= {name: getattr(inside.memory, name) for name in vars(inside.memory) if name != "link"}
    return {name: np.asarray(array)[:, 0] for name, array in parts.items() if array is not None}


def _side_by_side(right: Sequence[Any], given: Sequence[Any]) -> list[tuple[str, str]]:
    count = max(len(right), len(given))

    def texts(answer: Sequence[Any]) -> list[str]:
        entries = ["?" if entry is None else str(entry) for entry in answer]
        return entries + [NONE] * (count - len(entries))

    return list(zip(texts(right), texts(given), strict=True))


def _unroll(model: DNC, inputs: Any) -> tuple[Any, Internals]:
    """As `unroll` with internals, with steps rounded up so that compiled programs are reused."""
    steps = len(inputs)
    found: tuple[Any, Internals] = jax.tree.map(
        lambda leaf: np.asarray(leaf)[:steps], _compiled_unroll(model, padded(inputs))
    )
    return found


@eqx.filter_jit
def _compiled_unroll(model: DNC, inputs: Any) -> tuple[Any, Internals]:
    found = model.unroll(inputs, internals=True)
    # steps * slots**2 numbers that nobody asks for: without them the compiler leaves them out
    nothing = jnp.zeros((*inputs.shape[:2], 0, 0), inputs.dtype)
    slim: Internals = eqx.tree_at(lambda inside: inside.memory.link, found.internals, nothing)
    return found.outputs, slim
