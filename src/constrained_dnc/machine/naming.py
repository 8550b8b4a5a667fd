"""Names of states and commands, from what happens around them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from jaxtyping import Int

from constrained_dnc.machine.automaton import Machine
from constrained_dnc.machine.recording import Recording
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.memory import Interface

SURE = 0.95
"""The share of visits that a name must hold for."""


def named(
    machine: Machine, recording: Recording, steps: Int[np.ndarray, "steps 2"], model: DNC
) -> Machine:
    """The machine with names for its states and commands."""
    return replace(
        machine,
        state_names=_numbered(_state_names(machine, recording, steps[:, 0])),
        command_names=_numbered(_command_names(machine, model)),
    )


def _state_names(
    machine: Machine, recording: Recording, before: Int[np.ndarray, "steps"]
) -> list[str]:
    """By the input that led there, or by the phase of the task."""
    names = []
    for state in range(len(machine.next_state)):
        rows = np.nonzero(before == state)[0]  # steps that begin in this state
        led = recording.after[rows]
        if state == machine.start and (led < 0).all():
            names.append("start")
        elif not len(rows):
            names.append("end")
        else:
            names.append(_phase_name(recording, led[led >= 0]))
    return names


def _phase_name(recording: Recording, led: Int[np.ndarray, "steps"]) -> str:
    encoding = recording.is_encoding[led]
    symbol, count = Counter(recording.symbol[led].tolist()).most_common(1)[0]
    if encoding.mean() >= SURE:
        if count >= SURE * len(led):
            return f"just read {recording.input_names[symbol].removesuffix(' or blank')}"
        return "taking input"
    said = Counter(np.array(recording.output_names)[led].tolist()).most_common(1)[0]
    if encoding.mean() <= 1 - SURE:
        if said[1] >= SURE * len(led) and said[0]:
            return f"just answered {said[0]}"
        return "answering"
    return "mixed"


def _command_names(machine: Machine, model: DNC) -> list[str]:
    """What a command does to the memory, or a plain word for memories without known parts."""
    names = []
    for hidden in machine.hidden:
        parts = model.memory.split(model.interface_weight @ hidden + model.interface_bias)
        names.append(_memory_name(parts) if isinstance(parts, Interface) else "command")
    return names


def _memory_name(parts: Interface) -> str:
    modes = np.asarray(parts.read_modes)  # backward, forward, content
    moves = [("back", "on", "by content")[int(mode)] for mode in modes.argmax(axis=1)]
    wanted = Counter(moves).most_common(1)[0][0]
    reading = {"back": "read back", "on": "read on", "by content": "look up"}[wanted]
    if float(parts.write_gate) < 0.5:
        return reading
    where = "new slot" if float(parts.allocation_gate) >= 0.5 else "found slot"
    return f"write to {where}"


def _numbered(names: list[str]) -> tuple[str, ...]:
    """Names with numbers where several are equal.

    >>> _numbered(["start", "answering", "answering"])
    ('start', 'answering 1', 'answering 2')
    """
    counts, used = Counter(names), Counter[str]()
    result = []
    for name in names:
        used[name] += 1
        result.append(f"{name} {used[name]}" if counts[name] > 1 else name)
    return tuple(result)


