"""A small model whose controller is a known machine."""

from __future__ import annotations

import jax
import numpy as np

from constrained_dnc.machine.automaton import UNKNOWN, Machine
from constrained_dnc.model.build import build_dnc
from constrained_dnc.model.dnc import DNC
from constrained_dnc.parts import APPROACHES
from constrained_dnc.tasks.numeral import Copy
from tiny_runs import TINY_MODEL

TASK = Copy()
INPUTS = np.unique(TASK.sample(0, 64, 2).inputs.reshape(-1, 2), axis=0)
CONTROL = int(np.argmax(INPUTS[:, 1]))


def tiny_dnc(approach: str = "compr") -> DNC:
    return build_dnc(APPROACHES[approach], TASK, TINY_MODEL, key=jax.random.key(0))


def known_machine(seed: int = 0) -> Machine:
    """Encoding and decoding, each once too often: states 1 and 2, and 3 and 4, are equivalent."""
    rng = np.random.default_rng(seed)
    size = (5, len(INPUTS), 1)
    next_state, command = np.full(size, UNKNOWN), np.full(size, UNKNOWN)
    numerals = [symbol for symbol in range(len(INPUTS)) if symbol != CONTROL]
    for state, after in ((0, 1), (1, 2), (2, 1)):
        next_state[state, numerals, 0] = after
        command[state, numerals, 0] = numerals if state else len(INPUTS) + np.array(numerals)
        next_state[state, CONTROL], command[state, CONTROL] = 3, CONTROL
    blank = int(np.argmin((INPUTS**2).sum(axis=1)))
    for state, after in ((3, 4), (4, 3)):
        next_state[state, blank], command[state, blank] = after, 2 * len(INPUTS)
    return Machine(
        inputs=INPUTS,
        input_names=tuple(map(str, range(len(INPUTS)))),
        reads=np.zeros((1, TINY_MODEL.word_size), np.float32),
        hidden=rng.normal(size=(2 * len(INPUTS) + 1, TINY_MODEL.hidden_size)).astype(np.float32),
        next_state=next_state,
        command=command,
        counts=(next_state != UNKNOWN).astype(np.int64),
        start=0,
    )
