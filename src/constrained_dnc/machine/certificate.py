"""A proof by interval arithmetic that a machine with one-hot writes answers every input right.

The proof is for machines that take no notice of what they read: then the inputs alone determine
the commands. All inputs of a length are run at once. At every step the commands that some input
may cause are known, so each slot has a few possible contents, and read weights have bounds.
`docs/machine.md` has the argument.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import jax
import numpy as np
from jaxtyping import Bool, Float

from constrained_dnc.errors import SettingError, require_integer
from constrained_dnc.evaluation.digital import with_writes
from constrained_dnc.machine.automaton import UNKNOWN, Machine
from constrained_dnc.machine.fidelity import FIDELITY, entries_of, phase_symbols
from constrained_dnc.model.addressing import EPSILON, content_weights
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.dnc_memory import DNCMemory
from constrained_dnc.model.growing import Growing
from constrained_dnc.tasks.sequence import AbstractSequenceTask
from constrained_dnc.tasks.task import AbstractTask, Problem

SLACK = 1e-3
"""Added to the bounds of outputs: more than the rounding errors of float32 that were measured."""
LOSS = 2 * EPSILON
"""The most that a one-hot write can lose of its write gate: its sum leaves out the full slots."""
LEAST_USAGE = 1e-9
"""A written slot that may be used less than this could be mistaken for an empty one."""

Bounds = Float[np.ndarray, "2 ..."]
"""Lower and upper bounds."""


class NotProvedError(Exception):
    """Where a proof breaks; the message is a sentence."""


@dataclass(frozen=True)
class Certificate:
    """Whether every input of a length is proved to be answered right, and if not, where it breaks.

    `bounds` are those of the outputs at each entry, by (place, entry), both counted from 0.
    """

    length: int
    slots: int
    breaks: str
    bounds: dict[tuple[int, Problem], Bounds]

    @property
    def holds(self) -> bool:
        return not self.breaks


def certify(model: DNC, machine: Machine, task: AbstractTask, length: int) -> Certificate:
    """Try to prove that the model, run as the machine with one-hot writes, is always right.

    This needs the DNC's memory with a fixed number of slots and a look-up over all of them, a
    machine with one read symbol, and a task whose results depend on one entry each.

    Args:
        model: The model that the machine was extracted from, with a number of slots.
        machine: Takes the place of the controller.
        task: The task that the model was trained on.
        length: The input length that the proof is about.
    """
    require_integer("length", length, 1)
    run = _Prover(model, machine, task, length)
    bounds: dict[tuple[int, Problem], Bounds] = {}
    try:
        for position, entry in product(range(length), run.entries):
            bounds[position, entry] = run.outputs(length, position, entry)
        for (position, entry), bound in bounds.items():
            run.check(length, position, entry, bound)
        breaks = ""
    except NotProvedError as error:
        breaks = str(error)
    return Certificate(length, run.slots, breaks, bounds)


def as_certified(model: DNC, machine: Machine) -> DNC:
    """The model that a certificate is about: the machine as its controller, writes one-hot."""
    return with_writes(machine.apply(model), "one-hot")


class _Prover:
    """A machine in the model's memory, with all that does not depend on the input's length.

    The last row of arrays over contents is that of an empty slot.
    """

    def __init__(self, model: DNC, machine: Machine, task: AbstractTask, length: int):
        memory = model.memory
        if not isinstance(memory, DNCMemory) or not (
            memory.read_lookup is memory.write_lookup is content_weights
        ):
            raise SettingError("a certificate needs the DNC's memory with a look-up over all slots")
        if isinstance(memory.size, Growing):
            raise SettingError("a certificate needs a memory with a fixed number of slots")
        if model.constrains_reads:
            raise SettingError("a certificate needs reads without constraints")
        if len(machine.reads) > 1:
            raise SettingError(
                "a certificate needs a machine that takes no notice of what it reads"
            )
        if not isinstance(task, AbstractSequenceTask) or not _is_entrywise(task, length):
            raise SettingError(f"a result of {task.name} does not depend on one entry alone")
        self.task, self.machine, self.slots, self.heads = (
            task,
            machine,
            memory.size,
            memory.num_reads,
        )
        self.entries, symbols = entries_of(task), phase_symbols(machine, task)
        self.symbol_of = dict(zip(self.entries, symbols[0], strict=True))
        self.control, self.blank = symbols[1][0], symbols[2][0]
        self.clip = np.inf if model.clip_value is None else model.clip_value
        hidden = machine.hidden.astype(np.float64).clip(-self.clip, self.clip)
        vectors = hidden @ _float64(model.interface_weight).T + _float64(model.interface_bias)
        with jax.enable_x64(True):
            xi = jax.vmap(memory.split)(jax.numpy.asarray(vectors))
        self.free, self.modes = _float64(xi.free_gates), _float64(xi.read_modes)
        self.mass, self.allocation = _float64(xi.write_gate), _float64(xi.allocation_gate)
        contents = self.mass[:, None] * _float64(xi.write_vector)
        contents = np.concatenate([contents, np.zeros((1, memory.word_size))])
        heads = (
            [xi.read_keys, xi.write_key[:, None]],
            [xi.read_strengths, xi.write_strength[:, None]],
        )
        keys, strengths = (_float64(np.concatenate(parts, axis=1)) for parts in heads)
        norms = np.sqrt((keys**2).sum(-1) + EPSILON)[..., None]
        norms = norms * np.sqrt((contents**2).sum(-1) + EPSILON) + EPSILON
        # of every content for the read heads of every command, then for its write head
        self.scores = strengths[..., None] * (keys @ contents.T) / norms
        readout = _float64(model.readout_weight).reshape(-1, self.heads, memory.word_size)
        self.readout = np.einsum("yrw,cw->cyr", readout, contents)
        output = _float64(model.output_weight), _float64(model.output_bias)
        self.share = hidden @ output[0].T + output[1]  # of each command in the output

    def outputs(self, length: int, position: int, entry: Problem) -> Bounds:
        """Bounds of the outputs at the step of a result, over all inputs with that entry there."""
        slots, last = self.slots, length + 1 + position
        if last >= slots:
            raise NotProvedError(f"{slots} slots are too few: every step may write to a new one")
        possible = np.zeros((slots, len(self.mass) + 1), np.bool_)  # contents of every slot
        possible[:, -1] = True
        usage, precedence = np.zeros(slots), np.zeros((2, slots))
        link, reads = np.zeros((2, slots, slots)), np.zeros((2, self.heads, slots))
        states, mass = {self.machine.start}, np.zeros(2)
        for step in range(last + 1):
            symbols: Iterable[int] = self.symbol_of.values()
            if step >= length:
                symbols = [self.control if step == length else self.blank]
            elif step == position:
                symbols = [self.symbol_of[entry]]
            commands, states = self._follow(states, symbols)
            usage[max(step - 1, 0)] = mass[0]
            freed = self.free[commands].max(axis=0)[:, None] * np.minimum(reads[1], 1)
            usage *= np.prod(1 - freed, axis=0)
            self._require_new_slot(step, usage, commands, possible)
            mass = _hull(self.mass[commands]) * [1 - LOSS, 1]
            possible[step, -1], possible[step, commands] = False, True
            link[:, step] = mass[:, None] * precedence
            precedence = (1 - mass[::-1, None]) * precedence
            precedence[:, step] += mass
            reads = self._read(commands, possible, link, reads)
        return self._outputs(commands, possible, reads)

    def check(self, length: int, position: int, entry: Problem, bounds: Bounds) -> None:
        """Refuse outputs that may stand for another entry than the right one."""
        problem = (
            (self.entries[0],) * position + (entry,) + (self.entries[0],) * (length - position - 1)
        )
        targets = self.task.batch_of([problem]).targets
        outputs = np.repeat(targets.astype(np.float64), 2, axis=1)
        outputs[length + 1 + position] = bounds + np.array([[-SLACK], [SLACK]])
        answers = {answer[position] for answer in self.task.read(outputs, length)}
        if answers != {self.task.solve(problem)[position]}:
            ranges = ", ".join(f"{low:.3f} to {high:.3f}" for low, high in bounds.T[:-1])
            right = ", ".join(f"{value:g}" for value in targets[length + 1 + position, 0, :-1])
            where = f"entry {position + 1} of length {length}, where the input is {entry}"
            raise NotProvedError(f"{where}: the output may be {ranges}, right is {right}")

    def _follow(self, states: set[int], symbols: Iterable[int]) -> tuple[list[int], set[int]]:
        """The commands and the next states that are possible."""
        transitions = [(state, symbol, 0) for symbol in symbols for state in states]
        for transition in transitions:
            if UNKNOWN in (self.machine.next_state[transition], self.machine.command[transition]):
                state, name = (
                    self.machine.state_names[transition[0]],
                    self.machine.input_names[transition[1]],
                )
                raise NotProvedError(f"the table lacks the transition of {state!r} on {name!r}")
        commands = sorted({int(self.machine.command[transition]) for transition in transitions})
        return commands, {int(self.machine.next_state[transition]) for transition in transitions}

    def _require_new_slot(
        self,
        step: int,
        usage: Float[np.ndarray, "slots"],
        commands: list[int],
        possible: Bool[np.ndarray, "slots contents"],
    ) -> None:
        """Refuse a step that may write to another slot than the first empty one.

        While all written slots are in use, the allocation weight of that slot is 1 - epsilon, and
        of any other at most epsilon.
        """
        if not usage[:step].min(initial=1) >= LEAST_USAGE:
            raise NotProvedError(f"step {step + 1} may reuse a slot that was freed")
        low, high = _softmax(self.scores[commands, -1], possible)
        others = np.delete(high, step, axis=-1).max(axis=-1, initial=0)
        gate = self.allocation[commands]
        ahead = gate * (1 - 2 * EPSILON) + (1 - gate) * (low[:, step] - others)
        if not (ahead >= SLACK).all():
            raise NotProvedError(f"step {step + 1} may write to a slot by content")

    def _read(
        self,
        commands: list[int],
        possible: Bool[np.ndarray, "slots contents"],
        link: Bounds,
        reads: Bounds,
    ) -> Bounds:
        """Bounds of the read weights after a step."""
        content = _softmax(self.scores[commands, :-1], possible)
        backward, forward = reads @ link, reads @ link.swapaxes(1, 2)
        mode_b, mode_f, mode_c = np.moveaxis(self.modes[commands], -1, 0)[..., None]
        weights = mode_b * backward[:, None] + mode_f * forward[:, None] + mode_c * content
        return np.stack([weights[0].min(axis=0), weights[1].max(axis=0)])

    def _outputs(
        self, commands: list[int], possible: Bool[np.ndarray, "slots contents"], reads: Bounds
    ) -> Bounds:
        # bounds, contents, outputs, heads, slots
        shares = reads * np.array([1 - LOSS, 1])[:, None, None]
        products = self.readout[..., None] * shares[:, None, None]
        is_possible = possible.T[:, None]
        low = np.where(is_possible, products.min(axis=0).sum(axis=-2), np.inf).min(axis=0)
        high = np.where(is_possible, products.max(axis=0).sum(axis=-2), -np.inf).max(axis=0)
        outputs = np.stack([low.sum(axis=-1), high.sum(axis=-1)]) + _hull(self.share[commands])
        return outputs.clip(-self.clip, self.clip)


def _softmax(
    scores: Float[np.ndarray, "*heads contents"], possible: Bool[np.ndarray, "slots contents"]
) -> Bounds:
    """Bounds of a softmax over slots whose contents are among those that are possible."""
    change = LOSS * np.abs(scores)  # a content is known up to what the write may lose
    low = np.where(possible, (scores - change)[..., None, :], np.inf).min(axis=-1)
    high = np.where(possible, (scores + change)[..., None, :], -np.inf).max(axis=-1)
    top = high.max(axis=-1, keepdims=True)
    small, large = np.exp(low - top), np.exp(high - top)
    least, most = small + _sum_of_others(large), large + _sum_of_others(small)
    return np.stack(
        [
            np.divide(small, least, out=np.zeros_like(small), where=least > 0),
            np.divide(large, most, out=np.ones_like(large), where=most > 0),
        ]
    )


def _sum_of_others(values: Float[np.ndarray, "*heads slots"]) -> Float[np.ndarray, "*heads slots"]:
    """For every slot the sum over all others, without the cancellation of a difference."""
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(1, 1)])
    before = np.cumsum(padded, axis=-1)[..., :-2]
    after = np.cumsum(padded[..., ::-1], axis=-1)[..., ::-1][..., 2:]
    return before + after


def _is_entrywise(task: AbstractSequenceTask, length: int) -> bool:
    """Whether every result depends on the entry at its place alone, on samples of the task."""
    result = {entry: task.solve((entry,))[0] for entry in entries_of(task)}
    problems = task.sample((0, FIDELITY), 100, length).problems
    return all(
        task.solve(problem) == tuple(result[entry] for entry in problem) for problem in problems
    )


def _hull(values: Float[np.ndarray, "count ..."]) -> Bounds:
    return np.stack([values.min(axis=0), values.max(axis=0)])


def _float64(array: object) -> Float[np.ndarray, "..."]:
    return np.asarray(array, np.float64)
