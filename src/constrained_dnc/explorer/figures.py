"""Plotly figures of the internals of a DNC, one function per figure.

They take the internals of `model.unroll(inputs, internals=True)` and draw one sample of the batch.
Steps, slots and heads are counted from 1. Slots after the last one in play are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float
from plotly.subplots import make_subplots

from constrained_dnc.colours import BLUE, GREEN, GREY, PHASE_COLOURS, VERMILION
from constrained_dnc.config import PAPER, PAPER_RULE, THRESHOLD
from constrained_dnc.errors import SettingError
from constrained_dnc.explorer import style
from constrained_dnc.explorer.models import Curve
from constrained_dnc.explorer.traces import rows_of
from constrained_dnc.model.addressing import link_after_write
from constrained_dnc.model.dnc import Internals
from constrained_dnc.shapes import AnyArray
from constrained_dnc.tasks.task import AbstractTask, Batch

Values = Float[np.ndarray, "..."]

TOUCHED = 0.01
"""A slot is in play from this weight on."""
WEAK = 0.5
"""Where no weight reaches this, colours are scaled to the largest weight."""
FEWEST_SLOTS = 8
DASHES = ("solid", "dash", "dot")
FAR = 200
"""If a longer length is shown, the axis is logarithmic."""
MOST_WRITTEN_STEPS = 130
"""On a longer tape the cells are too narrow for text."""
ROW = 17
"""Height of a named row in pixels."""
LEGEND = {"showlegend": True, "margin_t": 30}


def slots_in_play(internals: Internals, sample: int = 0) -> int:
    """The number of slots up to the last one noticeably written or read, at least 8."""
    memory = _one(internals, sample).memory
    written, read = memory.write_weights.max(0), memory.read_weights.max((0, 1))
    touched = np.flatnonzero(np.maximum(written, read) >= TOUCHED)
    return min(max(1 + int(touched.max(initial=-1)), FEWEST_SLOTS), written.size)


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
    figure = _rows_figure({row.name: row.values for row in rows}, height=ROW + 4)
    figure.update_traces(
        coloraxis="coloraxis", autocolorscale=None, zmin=None, zmax=None,
        customdata=[row.hover for row in rows],
        hovertemplate="step %{x}, %{y}: %{customdata}<extra></extra>",
    )  # fmt: skip
    if len(batch.inputs) <= MOST_WRITTEN_STEPS:
        figure.update_traces(text=[row.labels for row in rows], texttemplate="%{text}")
    return figure.update_layout(coloraxis={"cmin": -1, "cmax": 1})


def write_weights_figure(internals: Internals, sample: int = 0) -> go.Figure:
    """Where the write head wrote, over slots and time."""
    weights = _one(internals, sample).memory.write_weights
    return _slots_figure({"write head": weights}, slots_in_play(internals, sample))


def read_weights_figure(internals: Internals, sample: int = 0) -> go.Figure:
    """Where each read head read, over slots and time."""
    weights = _one(internals, sample).memory.read_weights
    return _slots_figure(_by_head("head", weights), slots_in_play(internals, sample))


def usage_figure(internals: Internals, sample: int = 0) -> go.Figure:
    """How much of each slot is in use, over time."""
    usage = _one(internals, sample).memory.usage
    return _slots_figure({"usage": usage}, slots_in_play(internals, sample))


def gates_figure(internals: Internals, sample: int = 0) -> go.Figure:
    """Write gate, allocation gate (0 = by content, 1 = new slot) and the free gates."""
    interface = _one(internals, sample).interface
    rows = {"write": interface.write_gate, "allocation": interface.allocation_gate}
    return _rows_figure(rows | _by_head("free", interface.free_gates))


def read_modes_figure(internals: Internals, sample: int = 0) -> go.Figure:
    """How each head addresses the memory: backward, forward or by content."""
    modes = _one(internals, sample).interface.read_modes  # time reads 3
    steps, heads, _ = modes.shape
    figure = _over_time(steps, 30 + style.TOP + style.BOTTOM + 44 * heads, heads)
    for head in range(1, heads + 1):
        for mode, (name, colour) in enumerate(style.MODES.items()):
            figure.add_bar(
                x=_steps(steps), y=modes[:, head - 1, mode], row=head, col=1,
                name=name, legendgroup=name, showlegend=head == 1,
                marker={"color": colour, "line": {"width": 0}},
                hovertemplate=f"step %{{x}}, head {head}, {name}: %{{y:.3f}}<extra></extra>",
            )  # fmt: skip
        figure.update_yaxes(range=[0, 1], tickvals=[0.5], ticktext=[f"head {head}"], row=head)
    return figure.update_layout(**LEGEND, barmode="stack", bargap=0)


def strengths_figure(internals: Internals, sample: int = 0) -> go.Figure:
    """How sharply each head looks up by content."""
    interface = _one(internals, sample).interface
    lines = {"write head": interface.write_strength} | _by_head("head", interface.read_strengths)
    figure = _lines_figure(lines, "strength")
    return figure.update_yaxes(range=_range(np.stack(list(lines.values()))))


def slot_figure(internals: Internals, slot: int, sample: int = 0) -> go.Figure:
    """One slot through time: when it is written, when read and by which head, its usage."""
    memory = _one(internals, sample).memory
    index = _index("slot", slot, memory.usage.shape[-1])
    reads = _by_head("head", memory.read_weights[..., index])
    figure = _lines_figure({"write head": memory.write_weights[:, index]} | reads, "weight")
    _add_line(figure, "usage", memory.usage[:, index], {"color": GREY, "dash": "dot"})
    return figure.update_yaxes(range=[-0.03, 1.03])


def memory_figure(internals: Internals, step: int, sample: int = 0) -> go.Figure:
    """The memory matrix after one step: a row for each slot."""
    memory = _one(internals, sample).memory.memory
    contents = memory[_index("step", step, len(memory)), : slots_in_play(internals, sample)]
    # Over all steps, so that colours keep their meaning from step to step.
    largest = float(np.nanmax(np.abs(memory), initial=1e-6))
    return _matrix_figure(contents, (-largest, largest), "entry of the word")


def link_figure(internals: Internals, step: int, sample: int = 0) -> go.Figure:
    """The link matrix after one step: bright where slot y was written right after slot x."""
    shown = slots_in_play(internals, sample)
    link = link_at(internals, step, sample)[:shown, :shown]
    return _matrix_figure(link, (0.0, 1.0), "written after slot")


def link_at(internals: Internals, step: int, sample: int = 0) -> Float[np.ndarray, "slots slots"]:
    """The link matrix after one step, rebuilt from the write weights where it was not kept."""
    memory = _one(internals, sample).memory
    index = _index("step", step, len(memory.write_weights))
    if memory.link.shape[-1]:
        return np.asarray(memory.link[index])
    link, next_link = jnp.zeros((memory.usage.shape[-1],) * 2), jax.jit(link_after_write)
    before = np.zeros_like(memory.precedence[0])
    for earlier in range(index + 1):
        link = next_link(link, before, memory.write_weights[earlier])
        before = memory.precedence[earlier]
    return np.asarray(link)


def states_figure(
    paths: Float[np.ndarray, "time batch dimensions"], encoding_steps: int, sample: int = 0
) -> go.Figure:
    """Cell states in the plane of their first two principal components, step by step.

    `paths` come from `constrained_dnc.evaluation.analyses.reduce_states`; one sample is drawn
    strongly, the others thinly.
    """
    if paths.shape[-1] < 2:
        paths = np.pad(paths, ((0, 0), (0, 0), (0, 2 - paths.shape[-1])))
    figure = go.Figure(layout={"template": style.LIGHT, "height": 330, **LEGEND})
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
            x=paths[part, sample, 0], y=paths[part, sample, 1], name=phase, mode="lines+markers",
            line={"color": PHASE_COLOURS[phase], "width": 1.8}, marker={"size": 5},
            customdata=_steps(len(paths))[part],
            hovertemplate="step %{customdata}: (%{x:.3f}, %{y:.3f})<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(title_text="first component", range=_range(paths[..., 0]))
    return figure.update_yaxes(title_text="second component", range=_range(paths[..., 1]))


def score_figure(
    curves: Sequence[Curve],
    length: int,
    training_lengths: tuple[int, int],
    paper_length: int | None = None,
) -> go.Figure:
    """Score against length, with one length marked and the paper's maximum length as a diamond.

    Curves of the paper's selection rule have the colour of the diamond.
    """
    figure = go.Figure(layout={"template": style.LIGHT, "height": 300, **LEGEND})
    drawn: Counter[str] = Counter()
    for curve in curves:
        colour = GREEN if curve.rule == PAPER_RULE else BLUE
        figure.add_scatter(
            x=list(curve.scores), y=[100 * score for score in curve.scores.values()],
            name=curve.name, mode="lines",
            line={"color": colour, "width": 2, "dash": DASHES[drawn[colour] % len(DASHES)]},
            hovertemplate=f"length %{{x}}, {curve.name}: %{{y:.1f}} %<extra></extra>",
        )  # fmt: skip
        drawn[colour] += 1
    threshold = 100 * THRESHOLD
    figure.add_vrect(*training_lengths, fillcolor=GREY, opacity=0.18, line_width=0)
    figure.add_hline(threshold, line={"width": 1, "dash": "dot", "color": GREY})
    figure.add_scatter(
        x=[length] * 2, y=[-2, 103], name=f"this length: {length}", mode="lines",
        line={"color": VERMILION, "width": 2}, hoverinfo="name",
    )  # fmt: skip
    if paper_length:
        name = (
            f"the paper, {PAPER.model.memory_size} slots, rule {PAPER_RULE}: maximum {paper_length}"
        )
        figure.add_scatter(
            x=[paper_length], y=[threshold], name=name, mode="markers", hoverinfo="name",
            marker={"symbol": "diamond", "size": 11, "color": GREEN},
        )  # fmt: skip
    longest = max((max(curve.scores) for curve in curves), default=length)
    if longest > FAR:  # keeps short lengths legible
        figure.update_xaxes(type="log", tickvals=[2, 5, 10, 20, 50, 100, 200, 500, 1000])
    figure.update_xaxes(title_text="length")
    return figure.update_yaxes(title_text="score (%)", range=[-2, 103])


def _one(internals: Internals, sample: int) -> Internals:
    """One sample of the batch, in NumPy."""
    one: Internals = jax.tree.map(lambda leaf: np.asarray(leaf)[:, sample], internals)
    return one


def _by_head(name: str, values: Values) -> dict[str, Values]:
    """Values (time, heads, ...) of each read head."""
    return {f"{name} {head}": values[:, head - 1] for head in range(1, values.shape[1] + 1)}


def _index(setting: str, number: int, count: int) -> int:
    """The index of a step or slot counted from 1."""
    if not 1 <= number <= count:
        raise SettingError(setting, number, f"an integer from 1 to {count}")
    return number - 1


def _steps(count: int) -> np.ndarray:
    return np.arange(1, count + 1)


def _over_time(steps: int, height: int, rows: int = 1) -> go.Figure:
    """Empty axes, one above the other, whose horizontal axis is the step."""
    figure = make_subplots(rows, 1, shared_xaxes=True, vertical_spacing=0.1 / rows)
    figure.update_layout(template=style.LIGHT, height=height, showlegend=False)
    figure.update_xaxes(range=[0.5, steps + 0.5])
    return figure.update_xaxes(title_text="step", row=rows)


def _slots_figure(heads: dict[str, Values], shown: int) -> go.Figure:
    """Weights (time, slots) as one heat map for each head, slot 1 on top."""
    steps = len(next(iter(heads.values())))
    largest = max(float(np.nanmax(weights, initial=0)) for weights in heads.values())
    height = 250 if len(heads) == 1 else 130
    figure = _over_time(steps, style.TOP + style.BOTTOM + height * len(heads), len(heads))
    for row, (name, weights) in enumerate(heads.items(), start=1):
        figure.add_heatmap(
            z=np.ascontiguousarray(weights[:, :shown].T), row=row, col=1, name=name,
            x0=1, dx=1, y0=1, dy=1, zmin=0, zmax=largest if 0 < largest < WEAK else 1.0,
            autocolorscale=True, showscale=False,
            hovertemplate=f"step %{{x}}, slot %{{y}}, {name}: %{{z:.3f}}<extra></extra>",
        )  # fmt: skip
        title = "slot" if len(heads) == 1 else f"{name}: slot"
        figure.update_yaxes(range=[shown + 0.5, 0.5], title_text=title, nticks=6, row=row)
    return figure


def _rows_figure(rows: dict[str, Values], height: int = ROW) -> go.Figure:
    """Named rows of one value from 0 to 1 per step."""
    values = np.stack([np.asarray(row, np.float32) for row in rows.values()])
    figure = _over_time(values.shape[1], style.TOP + style.BOTTOM + height * len(rows))
    figure.add_heatmap(
        z=values, x0=1, dx=1, y=list(rows), zmin=0, zmax=1, xgap=1, ygap=1,
        autocolorscale=True, showscale=False, hoverongaps=False,
        hovertemplate="step %{x}, %{y}: %{z:.3f}<extra></extra>",
    )  # fmt: skip
    return figure.update_yaxes(autorange="reversed", tickfont_size=10.5)


def _lines_figure(lines: dict[str, Values], what: str) -> go.Figure:
    """A line for the write head and one for each read head."""
    figure = _over_time(len(next(iter(lines.values()))), height=210).update_layout(**LEGEND)
    colours = (BLUE, *style.HEADS)
    for index, (name, values) in enumerate(lines.items()):
        _add_line(figure, name, values, {"color": colours[index % len(colours)]})
    return figure.update_yaxes(title_text=what)


def _add_line(figure: go.Figure, name: str, values: Values, line: dict[str, Any]) -> None:
    figure.add_scatter(
        x=_steps(len(values)), y=values, name=name, mode="lines",
        line={"width": 1.6, "shape": "hvh", **line},
        hovertemplate=f"step %{{x}}, {name}: %{{y:.3f}}<extra></extra>",
    )  # fmt: skip


def _matrix_figure(
    values: Float[np.ndarray, "rows columns"], limits: tuple[float, float], columns: str
) -> go.Figure:
    """A heat map with a row for each slot."""
    figure = go.Figure(layout={"template": style.LIGHT, "height": 330})
    figure.add_heatmap(
        z=np.ascontiguousarray(values), x0=1, dx=1, y0=1, dy=1, zmin=limits[0], zmax=limits[1],
        autocolorscale=True, showscale=False,
        hovertemplate=f"slot %{{y}}, {columns} %{{x}}: %{{z:.3f}}<extra></extra>",
    )  # fmt: skip
    height, width = values.shape
    figure.update_xaxes(range=[0.5, width + 0.5], title_text=columns, nticks=8)
    return figure.update_yaxes(range=[height + 0.5, 0.5], title_text="slot", nticks=8)


def _range(values: Values) -> list[float]:
    """The range of all finite values, with a margin."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    margin = 0.06 * (high - low) or 1.0
    return [low - margin, high + margin]
