"""Plotly figures of the internals of a DNC, one function per figure.

They take the internals of `model.unroll(inputs, internals=True)` and draw one sample of the batch.
Steps, slots and heads are counted from 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from constrained_dnc import published
from constrained_dnc.choices import PAPER_RULE
from constrained_dnc.colours import BLUE, GREEN, PHASE_COLOURS, VERMILION
from constrained_dnc.errors import SettingError
from constrained_dnc.explorer import style
from constrained_dnc.explorer.tape import rows_of
from constrained_dnc.model.addressing import link_after_write
from constrained_dnc.model.dnc import Internals
from constrained_dnc.shapes import AnyArray
from constrained_dnc.tasks.task import AbstractTask, Batch

Values = Float[np.ndarray, "..."]

TOUCHED = 0.01
"""A slot whose weights never reach this is not drawn."""
WEAK = 0.5
"""Where no weight reaches this, colours are scaled to the largest weight."""
FEWEST_SLOTS = 8
DASHES = ("solid", "dash", "dot", "dashdot")
FAR = 200
"""From this length on, lengths lie on a logarithmic axis."""
MOST_WRITTEN_STEPS = 130
"""On a longer tape the cells are too narrow for text."""
ROW = 17
"""Height of a named row in pixels."""


def slots_in_play(internals: Internals, sample: int = 0) -> int:
    """The number of slots up to the last one noticeably written or read, at least 8."""
    memory = internals.memory
    written = np.asarray(memory.write_weights[:, sample]).max(0)
    read = np.asarray(memory.read_weights[:, sample]).max((0, 1))
    touched = np.flatnonzero(np.maximum(written, read) >= TOUCHED)
    last = int(touched[-1]) + 1 if touched.size else 0
    return min(max(last, FEWEST_SLOTS), written.size)


def tape_figure(
    task: AbstractTask,
    batch: Batch,
    outputs: Float[AnyArray, "time batch outputs"],
    sample: int = 0,
) -> go.Figure:
    """Input, target and output of every step; targets only at the steps of the loss.

    Cells show symbols, colours the values that the network sees.
    """
    rows = rows_of(task, batch, np.asarray(outputs), sample)
    figure = _rows_figure({row.name: row.values for row in rows}, (-1.0, 1.0), room=4)
    figure.update_traces(
        coloraxis="coloraxis", autocolorscale=None, zmin=None, zmax=None,
        customdata=[row.hover for row in rows],
        hovertemplate="step %{x}, %{y}: %{customdata}<extra></extra>",
    )  # fmt: skip
    if len(batch.inputs) <= MOST_WRITTEN_STEPS:
        figure.update_traces(text=[row.labels for row in rows], texttemplate="%{text}")
    return figure.update_layout(coloraxis={"cmin": -1, "cmax": 1})


def write_weights_figure(
    internals: Internals, sample: int = 0, slots: int | None = None
) -> go.Figure:
    """Where the write head wrote, over slots and time."""
    weights = np.asarray(internals.memory.write_weights[:, sample])
    return _slots_figure({"write head": weights}, _shown(internals, sample, slots))


def read_weights_figure(
    internals: Internals, sample: int = 0, slots: int | None = None
) -> go.Figure:
    """Where each read head read, over slots and time."""
    weights = np.moveaxis(np.asarray(internals.memory.read_weights[:, sample]), 1, 0)
    heads = {f"head {head}": each for head, each in enumerate(weights, start=1)}
    return _slots_figure(heads, _shown(internals, sample, slots))


def usage_figure(internals: Internals, sample: int = 0, slots: int | None = None) -> go.Figure:
    """How much of each slot is in use, over time."""
    usage = np.asarray(internals.memory.usage[:, sample])
    return _slots_figure({"usage": usage}, _shown(internals, sample, slots))


def gates_figure(internals: Internals, sample: int = 0) -> go.Figure:
    """Write gate, allocation gate (0 = by content, 1 = new slot) and the free gates."""
    interface = internals.interface
    rows = {
        "write": np.asarray(interface.write_gate[:, sample]),
        "allocation": np.asarray(interface.allocation_gate[:, sample]),
    }
    for head, gate in enumerate(np.asarray(interface.free_gates[:, sample]).T, start=1):
        rows[f"free {head}"] = gate
    return _rows_figure(rows, limits=(0.0, 1.0))


def read_modes_figure(internals: Internals, sample: int = 0) -> go.Figure:
    """How each head addresses the memory: backward, forward or by content."""
    modes = np.asarray(internals.interface.read_modes[:, sample])  # time reads 3
    steps, heads, _ = modes.shape
    figure = _over_time(steps, 30 + style.TOP + style.BOTTOM + 44 * heads, heads)
    figure.update_layout(margin_t=30, showlegend=True, barmode="stack", bargap=0)
    domains = _stacked(heads, gap=0.12)
    for head in range(heads):
        for mode, (name, colour) in enumerate(style.MODES.items()):
            figure.add_bar(
                x=_steps(steps),
                y=modes[:, head, mode],
                name=name,
                legendgroup=name,
                showlegend=head == 0,
                marker={"color": colour, "line": {"width": 0}},
                yaxis=_axis("y", head),
                hovertemplate=f"step %{{x}}, head {head + 1}, {name}: %{{y:.3f}}<extra></extra>",
            )
        figure.update_layout(
            {
                _axis("yaxis", head): {
                    "domain": domains[head],
                    "range": [0, 1],
                    "tickvals": [0.5],
                    "ticktext": [f"head {head + 1}"],
                }
            }
        )
    return figure


def strengths_figure(internals: Internals, sample: int = 0) -> go.Figure:
    """How sharply each head looks up by content."""
    interface = internals.interface
    lines = {"write head": np.asarray(interface.write_strength[:, sample])}
    for head, line in enumerate(np.asarray(interface.read_strengths[:, sample]).T, start=1):
        lines[f"head {head}"] = line
    figure = _lines_figure(lines, "strength")
    return figure.update_yaxes(range=_range(np.stack(list(lines.values()))))


def slot_figure(internals: Internals, slot: int, sample: int = 0) -> go.Figure:
    """One slot through time: when it is written, when read and by which head, its usage."""
    memory = internals.memory
    place = _index("slot", slot, memory.usage.shape[-1])
    lines = {"write head": np.asarray(memory.write_weights[:, sample, place])}
    for head, line in enumerate(np.asarray(memory.read_weights[:, sample, :, place]).T, start=1):
        lines[f"head {head}"] = line
    figure = _lines_figure(lines, "weight")
    figure.add_scatter(
        x=_steps(len(lines["write head"])),
        y=np.asarray(memory.usage[:, sample, place]),
        name="usage",
        mode="lines",
        line={"color": style.GREY, "width": 1.5, "dash": "dot", "shape": "hvh"},
        hovertemplate="step %{x}, usage: %{y:.3f}<extra></extra>",
    )
    figure.update_yaxes(range=[-0.03, 1.03])
    return figure


def memory_figure(
    internals: Internals, step: int, sample: int = 0, slots: int | None = None
) -> go.Figure:
    """The memory matrix after one step: a row for each slot."""
    memory = np.asarray(internals.memory.memory[:, sample])
    contents = memory[_index("step", step, len(memory)), : _shown(internals, sample, slots)]
    # Over all steps, so that colours keep their meaning from step to step.
    largest = float(np.nanmax(np.abs(memory), initial=1e-6))
    figure = _matrix_figure(contents, (-largest, largest), "entry")
    figure.update_yaxes(title_text="slot")
    figure.update_xaxes(title_text="entry of the word")
    return figure


def link_figure(
    internals: Internals, step: int, sample: int = 0, slots: int | None = None
) -> go.Figure:
    """The link matrix after one step: bright where slot y was written right after slot x."""
    link = link_at(internals, step, sample)
    shown = _shown(internals, sample, slots)
    figure = _matrix_figure(link[:shown, :shown], (0.0, 1.0), "after slot")
    figure.update_yaxes(title_text="slot")
    figure.update_xaxes(title_text="written after slot")
    return figure


def link_at(internals: Internals, step: int, sample: int = 0) -> Float[np.ndarray, "slots slots"]:
    """The link matrix after one step, rebuilt from the write weights where it was not kept."""
    memory = internals.memory
    place = _index("step", step, len(memory.write_weights))
    if memory.link.shape[-1]:
        return np.asarray(memory.link[place, sample])
    link = jnp.zeros((memory.usage.shape[-1],) * 2)
    before = jnp.zeros_like(memory.precedence[0, sample])
    for step_before in range(place + 1):
        link = _next_link(link, before, memory.write_weights[step_before, sample])
        before = memory.precedence[step_before, sample]
    return np.asarray(link)


_next_link = jax.jit(link_after_write)


def states_figure(
    paths: Float[np.ndarray, "time batch dimensions"], encoding_steps: int, sample: int = 0
) -> go.Figure:
    """Cell states in the plane of their first two principal components, step by step.

    `paths` come from `constrained_dnc.analysis.state_space.reduce_states`; one sample is drawn
    strongly, the others thinly.
    """
    if paths.shape[-1] < 2:
        paths = np.pad(paths, ((0, 0), (0, 0), (0, 2 - paths.shape[-1])))
    figure = go.Figure(layout=_layout(height=330, showlegend=True, margin_t=30))
    parts = {
        "encoding": slice(None, encoding_steps),
        "decoding": slice(encoding_steps - 1, None),  # from where encoding ended
    }
    others = np.delete(paths, sample, axis=1)
    for phase, part in parts.items():
        gaps = np.pad(others[part, :, :2], ((0, 1), (0, 0), (0, 0)), constant_values=np.nan)
        x, y = gaps.transpose(2, 1, 0).reshape(2, -1)
        figure.add_scatter(
            x=x, y=y, mode="lines", line={"color": PHASE_COLOURS[phase], "width": 0.7},
            opacity=0.35, hoverinfo="skip", showlegend=False,
        )  # fmt: skip
    for phase, part in parts.items():
        figure.add_scatter(
            x=paths[part, sample, 0],
            y=paths[part, sample, 1],
            name=phase,
            mode="lines+markers",
            line={"color": PHASE_COLOURS[phase], "width": 1.8},
            marker={"size": 5},
            customdata=_steps(len(paths))[part],
            hovertemplate="step %{customdata}: (%{x:.3f}, %{y:.3f})<extra></extra>",
        )
    figure.update_xaxes(title_text="first component", range=_range(paths[..., 0]))
    figure.update_yaxes(title_text="second component", range=_range(paths[..., 1]))
    return figure


def score_figure(
    scores: dict[str, dict[int, float]],
    length: int,
    training_lengths: tuple[int, int],
    paper_length: int | None = None,
    paper_like: Collection[str] = (),
) -> go.Figure:
    """Score against length, a line for each name in `scores`, with one length marked.

    Lines in `paper_like`, those of the paper's selection rule, have the colour of its maximum.
    """
    figure = go.Figure(layout=_layout(height=300))
    drawn: Counter[str] = Counter()
    for name, line in scores.items():
        colour = GREEN if name in paper_like else BLUE
        dash = DASHES[drawn[colour] % len(DASHES)]
        drawn[colour] += 1
        figure.add_scatter(
            x=list(line),
            y=[100 * score for score in line.values()],
            name=name,
            mode="lines",
            line={"color": colour, "width": 2, "dash": dash},
            hovertemplate=f"length %{{x}}, {name}: %{{y:.1f}} %<extra></extra>",
        )
    first, last = training_lengths
    figure.add_vrect(first, last, fillcolor=style.GREY, opacity=0.18, line_width=0)
    figure.add_hline(
        100 * published.THRESHOLD, line={"width": 1, "dash": "dot", "color": style.GREY}
    )
    marked = {"this length": (length, VERMILION)}
    if paper_length:
        name = f"the paper's maximum, {published.SLOTS} slots, rule {PAPER_RULE}"
        marked[name] = (paper_length, GREEN)
    for name, (place, colour) in marked.items():
        figure.add_scatter(
            x=[place] * 3,
            y=[-2, 100 * published.THRESHOLD, 103],
            name=name,
            mode="lines",
            line={"color": colour, "width": 2},
            hovertemplate=f"{name}: {place}<extra></extra>",
        )
    if paper_length:  # a diamond at the threshold: no curve has one
        symbols = {"symbol": "diamond", "size": 11, "opacity": [0, 1, 0]}
        figure.data[-1].update(mode="lines+markers", marker=symbols, line_width=1)
    figure.update_layout(showlegend=True, margin_t=30)
    longest = max((length for line in scores.values() for length in line), default=length)
    if longest > FAR:  # short inputs are what a person looks at
        figure.update_xaxes(type="log", tickvals=[2, 5, 10, 20, 50, 100, 200, 500, 1000])
    figure.update_xaxes(title_text="length")
    figure.update_yaxes(title_text="score (%)", range=[-2, 103])
    return figure


def _shown(internals: Internals, sample: int, slots: int | None) -> int:
    return slots_in_play(internals, sample) if slots is None else slots


def _index(setting: str, number: int, count: int) -> int:
    """The index of a step or slot counted from 1."""
    if not 1 <= number <= count:
        raise SettingError(setting, number, f"an integer from 1 to {count}")
    return number - 1


def _layout(**more: Any) -> dict[str, Any]:
    return {"template": style.LIGHT, "showlegend": False, **more}


def _steps(count: int) -> np.ndarray:
    return np.arange(1, count + 1)


def _over_time(steps: int, height: int, panels: int = 1) -> go.Figure:
    """An empty figure whose horizontal axis is the step, below the last of its panels."""
    axis = {
        "range": [0.5, steps + 0.5],
        "title": {"text": "step"},
        "anchor": _axis("y", panels - 1),
    }
    return go.Figure(layout=_layout(height=height, xaxis=axis))


def _axis(name: str, number: int) -> str:
    """Plotly's names of axes: y, y2, y3, ..."""
    return f"{name}{number + 1}" if number else name


def _stacked(count: int, gap: float) -> list[list[float]]:
    """The vertical domains of equal panels, the first on top."""
    height = 1 / (count + (count - 1) * gap)
    return [
        [max(0.0, 1 - place * (1 + gap) * height - height), 1 - place * (1 + gap) * height]
        for place in range(count)
    ]


def _slots_figure(heads: dict[str, Values], shown: int) -> go.Figure:
    """Weights (time, slots) as one heat map for each head, slot 1 on top."""
    steps = len(next(iter(heads.values())))
    largest = _largest(*heads.values())
    each = 250 if len(heads) == 1 else 130
    figure = _over_time(steps, style.TOP + style.BOTTOM + each * len(heads), len(heads))
    domains = _stacked(len(heads), gap=0.08)
    for place, (name, weights) in enumerate(heads.items()):
        figure.add_heatmap(
            z=np.ascontiguousarray(weights[:, :shown].T),
            x0=1, dx=1, y0=1, dy=1, zmin=0, zmax=largest,
            autocolorscale=True, showscale=False, name=name, yaxis=_axis("y", place),
            hovertemplate=f"step %{{x}}, slot %{{y}}, {name}: %{{z:.3f}}<extra></extra>",
        )  # fmt: skip
        figure.update_layout(
            {
                _axis("yaxis", place): {
                    "domain": domains[place],
                    "range": [shown + 0.5, 0.5],
                    "title": {"text": "slot" if len(heads) == 1 else f"{name}: slot"},
                    "nticks": 6,
                }
            }
        )
    return figure


def _largest(*weights: Values) -> float:
    """The upper end of the colours: 1, or the largest of weak weights."""
    largest = max(float(np.nanmax(each, initial=0)) for each in weights)
    return largest if 0 < largest < WEAK else 1.0


def _rows_figure(rows: dict[str, Values], limits: tuple[float, float], room: int = 0) -> go.Figure:
    """Named rows of one value per step, `room` pixels higher than they need to be."""
    values = np.stack([np.asarray(row, np.float32) for row in rows.values()])
    figure = _over_time(values.shape[1], style.TOP + style.BOTTOM + (ROW + room) * len(rows))
    figure.add_heatmap(
        z=values, x0=1, dx=1, y=list(rows), zmin=limits[0], zmax=limits[1], xgap=1, ygap=1,
        autocolorscale=True, showscale=False, hoverongaps=False,
        hovertemplate="step %{x}, %{y}: %{z:.3f}<extra></extra>",
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", tickfont_size=10.5)
    return figure


def _lines_figure(lines: dict[str, Values], what: str) -> go.Figure:
    """A line for the write head and one for each read head."""
    steps = len(next(iter(lines.values())))
    figure = _over_time(steps, height=210)
    colours = (BLUE, *style.HEADS)
    for place, (name, line) in enumerate(lines.items()):
        figure.add_scatter(
            x=_steps(steps),
            y=line,
            name=name,
            mode="lines",
            line={"color": colours[place % len(colours)], "width": 1.6, "shape": "hvh"},
            hovertemplate=f"step %{{x}}, {name}: %{{y:.3f}}<extra></extra>",
        )
    figure.update_layout(showlegend=True, margin_t=30)
    figure.update_yaxes(title_text=what)
    return figure


def _matrix_figure(
    values: Float[np.ndarray, "rows columns"], limits: tuple[float, float], column: str
) -> go.Figure:
    figure = go.Figure(layout=_layout(height=330))
    figure.add_heatmap(
        z=np.ascontiguousarray(values), x0=1, dx=1, y0=1, dy=1, zmin=limits[0], zmax=limits[1],
        autocolorscale=True, showscale=False,
        hovertemplate=f"slot %{{y}}, {column} %{{x}}: %{{z:.3f}}<extra></extra>",
    )  # fmt: skip
    rows, columns = values.shape
    figure.update_xaxes(range=[0.5, columns + 0.5], nticks=8)
    figure.update_yaxes(range=[rows + 0.5, 0.5], nticks=8)
    return figure


def _range(values: Values) -> list[float]:
    """All finite values, with a margin."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    margin = 0.06 * (high - low) or 1.0
    return [low - margin, high + margin]
