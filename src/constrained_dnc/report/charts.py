"""Interactive Plotly charts for the page; a click on the legend hides an approach."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from constrained_dnc.colours import GREY, colours_of
from constrained_dnc.config import THRESHOLD
from constrained_dnc.report.curves import PLOTLY_DASHES, dashes
from constrained_dnc.report.findings import Findings

COLUMNS = 2


def chart(findings: Findings, memory: str) -> str:
    """Score against length with one memory, as HTML: a panel per task, a line per trial."""
    tasks = findings.tasks_with(memory)
    rows = -(-len(tasks) // COLUMNS)
    gaps = {"vertical_spacing": 0.22 / rows, "horizontal_spacing": 0.06}
    figure = make_subplots(rows, COLUMNS, subplot_titles=[*map(html.escape, tasks)], **gaps)
    named: set[str] = set()
    for place, task in enumerate(tasks):
        where = {"row": place // COLUMNS + 1, "col": place % COLUMNS + 1}
        for trace in _traces(findings, memory, task):
            figure.add_trace(trace.update(showlegend=trace.name not in named), **where)
            named.add(trace.name)
        first, last = findings.study.training_lengths
        figure.add_vrect(first, last, fillcolor=GREY, opacity=0.15, line_width=0, **where)
        thin = {"color": GREY, "width": 0.7}
        figure.add_hline(100 * THRESHOLD, line=thin, **where)
        for slots in {findings.trained_memory, memory} - {"growing"}:
            figure.add_vline(int(slots), line={**thin, "dash": "dash"}, **where)
    axis = {"color": GREY, "zeroline": False, "fixedrange": True}
    figure.update_xaxes(**axis, showgrid=False)
    figure.update_yaxes(**axis, range=[-2, 103], gridcolor="rgba(138,148,157,0.2)")
    if memory != findings.trained_memory:
        figure.update_xaxes(type="log", tickvals=[2, 5, 10, 20, 50, 100, 200, 500, 1000])
    figure.update_layout(
        template="none",
        height=80 + 250 * rows,
        margin={"l": 40, "r": 10, "t": 80, "b": 30},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": GREY, "family": "system-ui, sans-serif", "size": 12},
        legend={"orientation": "h", "x": 0, "y": 1 + 30 / (250 * rows), "yanchor": "bottom"},
        hovermode="closest",
    )
    config = {"responsive": True, "displayModeBar": False}
    options = {"full_html": False, "include_plotlyjs": False, "div_id": f"chart-{memory}"}
    return str(figure.to_html(config=config, **options))


def _traces(findings: Findings, memory: str, task: str) -> list[go.Scatter]:
    """The trials of every approach, all in one trace with gaps between them, and the floor."""
    colours, traces = colours_of(findings.approaches), []
    dash = PLOTLY_DASHES[dashes(findings, memory)]
    for it, ending, look in ((findings, "", dash), (findings.digital, ", digital", "dashdot")):
        for key in it.keys([memory], [task]):
            line = {"color": colours[key[2]], "width": 1.2, "dash": look}
            traces.append(_trace(it.trial_lines(key), html.escape(key[2]) + ending, line))
    floor = findings.floor_line(task, [memory])
    if len(floor):
        traces.append(_trace({"": floor}, "floor", {"color": GREY, "width": 1.2, "dash": "dot"}))
    return traces


def _trace(lines: Mapping[str, pd.Series], name: str, line: dict[str, Any]) -> go.Scatter:
    """One trace of several lines of scores by length; their names appear on hovering."""
    points = []
    for label, curve in lines.items():
        points += [*zip(curve.index, (100 * curve).round(2), [label] * len(curve), strict=True)]
        points.append((None, None, label))
    lengths, scores, labels = zip(*points, strict=True)
    return go.Scatter(
        x=lengths,
        y=scores,
        text=labels,
        name=name,
        legendgroup=name,
        mode="lines",
        line=line,
        hovertemplate="length %{x}: %{y:.1f} %, %{text}",
    )
