"""Names of states and commands, from what happens around them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from constrained_dnc.machine.automaton import Machine
from constrained_dnc.machine.recording import Recording
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.dnc_memory import Interface

SURE = 0.95
"""The share of visits that a name must hold for."""
MOST_INPUTS = 2
"""In the name of a state that stands for the input just read."""


def named(
    machine: Machine, recording: Recording, steps: Int[np.ndarray, "steps 3"], model: DNC
) -> Machine:
    """The machine with names for its states and commands, and what the network says.

    `steps` are the state, input symbol and read symbol that each step of the recording begins with.
    """
    states = range(len(machine.next_state))
    return replace(
        machine,
        state_names=_numbered([_state_name(state, recording, steps[:, 0]) for state in states]),
        command_names=_numbered([_command_name(hidden, model) for hidden in machine.hidden]),
        answers=_answers(recording, steps),
    )


def _answers(
    recording: Recording, steps: Int[np.ndarray, "steps 3"]
) -> dict[tuple[int, int, int], str]:
    said: defaultdict[tuple[int, int, int], Counter[str]] = defaultdict(Counter)
    for (state, symbol, read), name in zip(steps.tolist(), recording.output_names, strict=True):
        said[state, symbol, read][name] += 1
    return {
        transition: name if count >= SURE * names.total() else "varies"
        for transition, names in said.items()
        for name, count in names.most_common(1)
    }


def _state_name(state: int, recording: Recording, before: Int[np.ndarray, "steps"]) -> str:
    """The name of a state: the input that led there, or the phase of the task."""
    led = recording.after[before == state]  # the steps before those that begin in this state
    if not len(led):
        return "end"
    led = led[led >= 0]
    if not len(led):
        return "start"
    encoding = recording.is_encoding[led].mean()
    if encoding < SURE:
        return "answering" if encoding <= 1 - SURE else "both phases"
    ranked = Counter(recording.symbol[led].tolist()).most_common()
    if sum(count for _, count in ranked[:MOST_INPUTS]) < SURE * len(led):
        return "taking input"
    names = [recording.input_names[symbol].removesuffix(" or blank") for symbol, _ in ranked]
    return "just read " + " or ".join(sorted(names[:MOST_INPUTS]))


def _command_name(hidden: Float[np.ndarray, "hidden"], model: DNC) -> str:
    """What a command does to the memory, or a plain word for memories without known parts."""
    parts = model.memory.split(model.interface_weight @ hidden + model.interface_bias)
    if not isinstance(parts, Interface):
        return "command"
    modes = np.asarray(parts.read_modes)  # backward, forward, content
    moves = [("back", "on", "by content")[int(mode)] for mode in modes.argmax(axis=1)]
    reading = "read " + " and ".join(dict.fromkeys(moves))
    if float(parts.write_gate) < 0.5:
        return reading
    where = "a new slot" if float(parts.allocation_gate) >= 0.5 else "a slot by content"
    return f"write to {where}, {reading}"


def _numbered(names: list[str]) -> tuple[str, ...]:
    """Names with numbers where several are equal.

    >>> _numbered(["start", "answering", "answering"])
    ('start', 'answering (1)', 'answering (2)')
    """
    counts, used = Counter(names), Counter[str]()
    result = []
    for name in names:
        used[name] += 1
        result.append(f"{name} ({used[name]})" if counts[name] > 1 else name)
    return tuple(result)
