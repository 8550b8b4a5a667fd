"""A machine as text, JSON, DOT and SVG."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from constrained_dnc.colours import BLUE
from constrained_dnc.machine.automaton import Machine
from constrained_dnc.model.dnc import DNC

LONGEST_LABEL = 24
CHAIN = 5
"""States in a row of a drawing, if they form a chain."""


def describe(machine: Machine) -> list[list[str]]:
    """The rows of a readable table: state, inputs, reads, next state, command, answer.

    Inputs with the same effect share a row; a command is named without its number.
    """
    rows: dict[tuple[str, ...], tuple[list[str], set[int]]] = {}
    for state, symbol, read in machine.transitions():
        transition = state, symbol, read
        command = machine.command_names[machine.command[transition]].partition(" (")[0]
        after = machine.state_names[machine.next_state[transition]]
        key = (machine.state_names[state], after, command, machine.answers.get(transition, ""))
        names, reads = rows.setdefault(key, ([], set()))
        reads.add(read)
        if machine.input_names[symbol] not in names:
            names.append(machine.input_names[symbol])
    table = []
    for (name, after, command, answer), (names, reads) in rows.items():
        is_any = len(reads) == len(machine.reads)
        seen = "any" if is_any else ", ".join(f"r{read}" for read in sorted(reads))
        table.append([name, ", ".join(names), seen, after, command, answer or "-"])
    return table


def as_json(machine: Machine, model: DNC) -> str:
    """Everything needed to run the machine with a DNC's memory, without the network.

    A step: look up [state][input][read]; send `interface` of the command to the memory; the output
    is `output` of the command + `readout` @ the new reads.
    """
    weights = (model.interface_weight, model.output_weight)
    interface, output = (machine.hidden @ np.asarray(weight).T for weight in weights)
    stored = {
        "start": machine.start,
        "states": machine.state_names,
        "inputs": [
            {"name": name, "vector": vector.tolist()}
            for name, vector in zip(machine.input_names, machine.inputs, strict=True)
        ],
        "reads": machine.reads.tolist(),
        "next_state": machine.next_state.tolist(),
        "command": machine.command.tolist(),
        "visits": machine.counts.tolist(),
        "commands": [
            {"name": name, "interface": xi.tolist(), "output": y.tolist()}
            for name, xi, y in zip(
                machine.command_names,
                interface + np.asarray(model.interface_bias),
                output + np.asarray(model.output_bias),
                strict=True,
            )
        ],
        "readout": np.asarray(model.readout_weight).tolist(),
    }
    return json.dumps(stored, indent=1, ensure_ascii=False)


def edges(machine: Machine) -> dict[tuple[int, int], list[str]]:
    """The inputs that lead from one state to another, by the pair of states."""
    found: dict[tuple[int, int], list[str]] = {}
    for transition in machine.transitions():
        state, symbol, _ = transition
        names = found.setdefault((state, int(machine.next_state[transition])), [])
        if machine.input_names[symbol] not in names:
            names.append(machine.input_names[symbol])
    return found


def as_dot(machine: Machine) -> str:
    """The graph in the language of Graphviz."""
    lines = ["digraph machine {", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
    lines += [
        f"  {index} [label={_quoted(name)}];" for index, name in enumerate(machine.state_names)
    ]
    for (state, after), names in edges(machine).items():
        lines.append(f"  {state} -> {after} [label={_quoted(_shortened(names))}];")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _shortened(names: list[str]) -> str:
    text = ", ".join(names)
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 3]}..."


def machine_svg(machine: Machine) -> str:
    """A picture of the graph: by Graphviz if it is installed, otherwise by Matplotlib."""
    if dot := shutil.which("dot"):
        run = partial(subprocess.run, capture_output=True, text=True, check=False)
        done = run([dot, "-Tsvg"], input=as_dot(machine))
        if done.returncode == 0:
            return done.stdout
    picture = io.StringIO()
    draw(machine).savefig(picture, format="svg", metadata={"Date": None})
    return picture.getvalue()


def draw(machine: Machine) -> Figure:
    """States in columns by their distance from the start, arrows with the inputs.

    A long chain of states turns at the end of a row and goes back in the next one.
    """
    depth = _depths(machine)
    columns = [[q for q, at in depth.items() if at == x] for x in range(max(depth.values()) + 1)]
    tallest = max(map(len, columns))
    width = min(len(columns), CHAIN) if tallest == 1 else len(columns)
    height = 1.5 * tallest + 0.2
    position: dict[int, tuple[float, float]] = {}
    for at, column in enumerate(columns):
        row, across = divmod(at, width)
        across = width - 1 - across if row % 2 else across
        for down, state in enumerate(column):
            position[state] = 2.4 * across, -1.5 * (down - (len(column) - 1) / 2) - height * row
    rows = -(-len(columns) // width)
    figure = Figure(figsize=(2.4 * width + 0.4, height * rows + 1), layout="tight")
    axes: Any = figure.add_subplot()
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.set_xlim(-1.1, 2.4 * (width - 1) + 1.1)
    axes.set_ylim(-height * (rows - 0.5) - 0.4, height / 2 + 0.6)
    for state, (x, y) in position.items():
        box = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": BLUE}
        name = machine.state_names[state].replace(" ", "\n", 1)
        axes.text(x, y, name, ha="center", va="center", fontsize=9, bbox=box, zorder=3)
    for (state, after), names in edges(machine).items():
        bend = 0.0 if depth[after] == depth[state] + 1 else -0.3
        _arrow(axes, position[state], position[after], bend, _shortened(names))
    return figure


def _arrow(
    axes: Any, tail: tuple[float, float], head: tuple[float, float], bend: float, label: str
) -> None:
    (x, y), (u, v) = tail, head
    style: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 11, "color": "0.35"}
    if tail == head:  # a loop above the box
        ends, bend, at = ((x - 0.3, y + 0.25), (x + 0.3, y + 0.25)), -1.3, (x, y + 0.78)
    else:
        ends, at = (tail, head), ((x + u) / 2, (y + v) / 2 + 0.12 + abs(bend) * abs(u - x) / 2)
        style |= {"shrinkA": 20 if x == u else 32, "shrinkB": 20 if x == u else 32}
    axes.add_patch(FancyArrowPatch(*ends, connectionstyle=f"arc3,rad={bend}", zorder=1, **style))
    beside = (
        {"ha": "left", "va": "center"}
        if x == u and tail != head
        else {"ha": "center", "va": "bottom"}
    )
    axes.text(at[0] + 0.1 * (beside["ha"] == "left"), at[1], label, fontsize=8, **beside)


def _depths(machine: Machine) -> dict[int, int]:
    """The number of transitions from the start to every state."""
    depth, todo = {machine.start: 0}, [machine.start]
    reached = edges(machine)
    for state in todo:
        new = [after for before, after in reached if before == state and after not in depth]
        depth |= dict.fromkeys(new, depth[state] + 1)
        todo += new
    return depth
