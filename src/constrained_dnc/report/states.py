"""Figures of cell states, of curvature and state count against score, and of memory modes."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import sklearn
from jaxtyping import Float, Float32
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from constrained_dnc.colours import GREEN, LIGHT, PHASE_COLOURS, colours_of
from constrained_dnc.evaluation.analyses import BINS, DIMENSIONS, embed
from constrained_dnc.files import make_folder, refuse_link, write_atomically
from constrained_dnc.model.config import available_cores
from constrained_dnc.report import published
from constrained_dnc.report.drawing import Drawing, grid
from constrained_dnc.report.findings import Findings
from constrained_dnc.report.tables import DASH, PROPERTIES_CAPTION, rounded
from constrained_dnc.study import Study
from constrained_dnc.study.study import EMBEDDINGS

# From dark to light with time; both ends stand out from either background.
TIME_COLOURS = LinearSegmentedColormap.from_list(
    "time", ["#3b0f70", "#8c2981", "#de4968", "#fe9f6d", "#f5d08f"]
)
DRIFT = ("drift_by_length", "drift_lengths")
MODES = {"write": "0 = by content, 1 = new slot", "read": "0 = sequential, 1 = by content"}
ABOVE_COUNTS = 4 * 4096
"""Where a state count above 4096 is drawn."""
BEST = WORST = 3
Draw = Callable[[Axes, str], None]
"""Draws the panel of a run."""


def properties_drawings(findings: Findings) -> Iterator[Drawing]:
    """Curvature, state count and whatever else is known of the states, against the score."""
    if findings.properties:
        yield Drawing(
            "properties_vs_score",
            "Properties of the states against score",
            "One dot per seed with a state; tau is Kendall's, over the instances of "
            f"{', '.join(findings.pooled)}. {PROPERTIES_CAPTION} Selected by {findings.selection}.",
            partial(properties_against_score, findings),
        )
    tasks = [task for task in findings.tasks if _analysed(findings, task, DRIFT[0])]
    if tasks:
        yield Drawing(
            "drift_vs_length",
            "Drift against length",
            "The median distance of the states to the nearest of training lengths, over the spread "
            "of those; a line per seed, without those that diverged. Grey: the training lengths. "
            f"Selected by {findings.selection}.",
            partial(drift_against_length, findings, tasks),
        )


def drawings(findings: Findings) -> Iterator[Drawing]:
    """Every figure of states and modes that the analysed runs allow; these take long."""
    study = findings.study
    trials = (
        f"The {BEST} best seeds of every approach and the {WORST} worst of the others, with their "
        f"average scores. Selected by {findings.selection}."
    )
    for task in findings.tasks:
        for phase in phases_of(task) if _analysed(findings, task, "curvature") else ():
            yield Drawing(
                f"states_{task}_{phase}",
                f"Cell states, {task}, {phase}",
                f"t-SNE of the cell states at length {study.unseen_length}, after PCA to "
                f"{DIMENSIONS} dimensions, all samples overlaid: dots are states, lines are "
                f"transitions, from dark to light with time. {trials}",
                partial(state_trajectories, findings, task, phase),
            )
    for task in findings.tasks:
        for mode in MODES if _analysed(findings, task, "write_mode_encoding") else ():
            yield Drawing(
                f"{mode}_modes_{task}",
                f"{mode.capitalize()} modes, {task}",
                f"Histograms at length {study.training_lengths[1]} ({MODES[mode]}). {trials}",
                partial(memory_modes, findings, task, mode),
            )


def wanted_embeddings(findings: Findings) -> list[tuple[str, str]]:
    """The pairs (run id, phase) that the figures of states show."""
    return [
        (run_id, phase)
        for task in findings.tasks
        for approach in _analysed(findings, task, "curvature")
        for run_id in best_and_worst(findings, task, approach)
        for phase in phases_of(task)
    ]


def best_and_worst(findings: Findings, task: str, approach: str) -> list[str]:
    """The run ids of the best trials, and of the worst of the others."""
    ranked = findings.ranked(task, approach).index.tolist()
    return ranked[:BEST] + ranked[BEST:][-WORST:]


def properties_against_score(findings: Findings, tasks: Sequence[str] | None = None) -> Figure:
    """By task a panel for every known property, a dot per trial."""
    colours, properties = colours_of(findings.approaches), findings.properties
    frame = findings.instances.dropna(subset=[*properties], how="all")
    tasks = [task for task in tasks or findings.tasks if (frame["task"] == task).any()]
    names = [name for name in findings.approaches if (frame["approach"] == name).any()]
    taus = {
        (name, correlation.task): correlation.tau
        for name in properties
        for correlation in findings.correlations(name)
    }
    columns = len(properties) * max(1, 4 // len(properties))
    figure, panels = grid(len(properties) * len(tasks), columns, width=2.9, height=2.5)
    for panel, (task, measure) in zip(panels, product(tasks, properties), strict=True):
        for name in names:
            dots = frame[(frame["task"] == task) & (frame["approach"] == name)]
            shown = dots[measure]
            if measure == "state_count":
                shown = shown.clip(upper=ABOVE_COUNTS)
            panel.scatter(shown, 100 * dots["average"], s=24, color=colours[name])
        tau = rounded(taus.get((measure, task)), 2)
        panel.set_title(task if tau == DASH else f"{task}, tau {tau}", loc="left")
        panel.set(ylim=(-2, 103), xlabel=properties[measure])
        if measure == "state_count":
            panel.set_xscale("log", base=2)
            panel.set_xlim(0.7, 1.4 * ABOVE_COUNTS)
            panel.set_xticks([1, 8, 64, 512, ABOVE_COUNTS], ["1", "8", "64", "512", ">4096"])
        else:
            finite = frame[measure][np.isfinite(frame[measure])]
            panel.set_xlim(0, 1.05 * finite.max() or 1)
    figure.supylabel("average score (%)", fontsize=9)
    _add_legend(figure, findings, names)
    return figure


def drift_against_length(findings: Findings, tasks: Sequence[str]) -> Figure:
    """By task a panel for each phase, a line per trial."""
    colours, names = colours_of(findings.approaches), dict.fromkeys(findings.approaches, False)
    figure, panels = grid(2 * len(tasks), columns=4, width=2.9, height=2.5)
    for panel, (task, phase) in zip(panels, product(tasks, (0, 1)), strict=True):
        for name in _analysed(findings, task, DRIFT[0]):
            for run_id in findings.ranked(task, name).index:
                arrays = findings.study.analysis(run_id, *DRIFT)
                if arrays:
                    lengths, drift = arrays[DRIFT[1]], arrays[DRIFT[0]][:, phase]
                    panel.plot(lengths, drift, "o-", color=colours[name], lw=0.9, ms=3)
                    names[name] = True
        panel.axvspan(*findings.study.training_lengths, color=LIGHT["ink"], alpha=0.07, lw=0)
        panel.set_yscale("symlog", linthresh=0.01)
        panel.set_ylim(bottom=0)
        panel.set_title(f"{task}, {PHASES[phase]}", loc="left")
    figure.supxlabel("length", fontsize=9)
    figure.supylabel("drift", fontsize=9)
    _add_legend(figure, findings, [name for name, is_drawn in names.items() if is_drawn])
    return figure


def _add_legend(figure: Figure, findings: Findings, names: Sequence[str]) -> None:
    """Approaches by their colour."""
    colours = colours_of(findings.approaches)
    handles = [Line2D([], [], ls="", marker="o", color=colours[name], label=name) for name in names]
    columns = max(1, int(figure.get_figwidth() / 1.6))
    figure.legend(handles=handles, loc="outside upper left", ncols=columns)


def state_trajectories(findings: Findings, task: str, phase: str) -> Figure:
    """t-SNE paths of the best and the worst trials, a row per approach."""
    names = _analysed(findings, task, "curvature")
    rows = {name: best_and_worst(findings, task, name) for name in names}
    return _trial_panels(findings, task, rows, partial(_draw_states, findings, phase))


def state_picture(
    findings: Findings, task: str, approaches: Sequence[str], trials: int = 5
) -> Figure:
    """The paths of the first trials of some approaches while they read, a row per approach."""
    curves = {name: findings.curves[findings.trained_memory, task, name] for name in approaches}
    rows = {name: [run for _, run in curve.index[:trials]] for name, curve in curves.items()}
    return _trial_panels(findings, task, rows, partial(_draw_states, findings, "encoding"), 2.3)


def memory_modes(findings: Findings, task: str, mode: str) -> Figure:
    """Histograms of the write or read mode in both phases, a row per approach."""
    names = _analysed(findings, task, f"{mode}_mode_encoding")
    rows = {name: best_and_worst(findings, task, name) for name in names}
    figure = _trial_panels(findings, task, rows, partial(_draw_modes, findings, mode))
    figure.supxlabel(MODES[mode], fontsize=9, y=0.06 / figure.get_figheight(), va="bottom")
    handles = [Patch(color=PHASE_COLOURS[phase], alpha=0.75, label=phase) for phase in PHASES]
    figure.legend(handles=handles, loc="upper right", ncols=2, borderaxespad=0.1)
    return figure


def _analysed(findings: Findings, task: str, array: str) -> list[str]:
    """The approaches with at least one run whose analysis has the array."""
    return [
        name
        for name in findings.approaches
        if any(findings.study.analysis(run, array) for run in findings.ranked(task, name).index)
    ]


def _trial_panels(
    findings: Findings, task: str, rows: Mapping[str, Sequence[str]], draw: Draw, size: float = 1.55
) -> Figure:
    """A row of panels per approach, a column per run."""
    columns = max(map(len, rows.values()))
    # Margins in inches rather than a layout engine, which takes seconds for this many panels.
    width, height = max(size * columns + 0.4, 4.0), size * len(rows) + 0.8
    edges = {"left": 0.3 / width, "right": 1 - 0.1 / width, "wspace": 0.1, "hspace": 0.2}
    edges |= {"bottom": 0.4 / height, "top": 1 - 0.45 / height}
    figure = Figure((width, height))
    panels = figure.subplots(len(rows), columns, squeeze=False, gridspec_kw=edges)
    for (name, runs), across in zip(rows.items(), panels, strict=True):
        scores, seeds = findings.ranked(task, name), findings.study.runs["seed"]
        for panel, run_id in zip(across, runs, strict=False):
            draw(panel, run_id)
            panel.set(xticks=[], yticks=[])
            title = f"seed {seeds[run_id]}: {100 * scores[run_id]:.0f} %"
            panel.set_title(title, fontsize=7.5, fontweight="normal", pad=2)
        for panel in across[len(runs) :]:
            panel.remove()
        colour = colours_of(findings.approaches)[name]
        across[0].set_ylabel(name, color=colour, fontweight="bold", fontsize=8.5)
    return figure


def _draw_states(findings: Findings, phase: str, panel: Axes, run_id: str) -> None:
    path = embedding(findings.study, run_id, phase)  # time, batch, 2
    if path is None:
        return _label_missing(panel)
    steps = np.stack([path[:-1], path[1:]], axis=2).reshape(-1, 2, 2)
    when = np.repeat(np.linspace(0, 1, len(path) - 1), path.shape[1])
    lines = LineCollection(list(steps), colors=TIME_COLOURS(when), lw=0.35, alpha=0.55)
    lines.set_rasterized(True)
    panel.add_collection(lines)
    across, up = path.reshape(-1, 2).T
    panel.scatter(across, up, s=1.6, color=GREEN, lw=0, zorder=3, rasterized=True)
    panel.margins(0.04)
    for spine in panel.spines.values():
        spine.set_visible(True)
    return None


def _draw_modes(findings: Findings, mode: str, panel: Axes, run_id: str) -> None:
    histograms = findings.study.analysis(run_id, *(f"{mode}_mode_{phase}" for phase in PHASES))
    if not histograms:
        return _label_missing(panel)
    for phase in PHASES:
        counts, shade = histograms[f"{mode}_mode_{phase}"], PHASE_COLOURS[phase]
        share, edges = counts / max(counts.sum(), 1), np.linspace(0, 1, BINS + 1)
        panel.stairs(share, edges, fill=True, fc=(shade, 0.55), ec=shade, lw=0.9)
    panel.set_xlim(0, 1)
    return None


def _label_missing(panel: Axes) -> None:
    """Label a panel whose analysis is missing or corrupt."""
    panel.text(0.5, 0.5, "no analysis", transform=panel.transAxes, ha="center", va="center", size=7)


PHASES = ("encoding", "decoding")
FEWEST_STATES = 4  # in one phase; fewer are not worth drawing


def phases_of(task: str) -> tuple[str, ...]:
    """The phases of a task whose states are drawn."""
    return PHASES[:1] if task in published.ENCODING_ONLY else PHASES


def embedding(study: Study, run_id: str, phase: str) -> Float32[np.ndarray, "time batch 2"] | None:
    """The embedded states of a run in one phase; None for a run without states."""
    states = phase_states(study, run_id, phase)
    if states is None:
        return None
    path = stored_at(study, states)
    with suppress(Exception):  # absent or corrupt: recompute it
        stored: Float32[np.ndarray, "..."] = np.load(path, allow_pickle=False)
        if stored.shape == (*states.shape[:2], 2):
            return stored
    embedded = embed(states)
    refuse_link(path.parent)
    make_folder(path.parent)
    buffer = io.BytesIO()
    np.save(buffer, embedded, allow_pickle=False)
    write_atomically(path, buffer.getvalue())
    return embedded


def embed_all(
    study: Study,
    run_phases: Iterable[tuple[str, str]],
    progress: Callable[[str, int, int], None],
) -> None:
    """Compute the missing embeddings of pairs (run id, phase), one per core at a time."""
    pairs = list(run_phases)
    # Threads suffice: the gradient of t-SNE releases the interpreter lock.
    with ThreadPoolExecutor(available_cores()) as pool:
        for done, _ in enumerate(pool.map(lambda pair: embedding(study, *pair), pairs), start=1):
            progress("t-SNE", done, len(pairs))


def phase_states(
    study: Study, run_id: str, phase: str
) -> Float[np.ndarray, "time batch dimensions"] | None:
    """The reduced states of a run in one phase; None if there are too few to draw."""
    arrays = study.analysis(run_id, "states", "encoding_steps")
    if "states" not in arrays:
        return None
    steps = int(arrays["encoding_steps"])  # with the end-of-input flag
    states = arrays["states"][:steps] if phase == "encoding" else arrays["states"][steps:]
    return states if len(states) >= 2 and states[..., 0].size >= FEWEST_STATES else None


def stored_at(study: Study, states: Float[np.ndarray, "time batch dimensions"]) -> Path:
    """The file of an embedding, named by a hash of the states and scikit-learn's version."""
    digest = hashlib.sha256(f"{sklearn.__version__} {states.shape} {states.dtype}".encode())
    digest.update(np.ascontiguousarray(states).tobytes())
    return study.path / EMBEDDINGS / f"{digest.hexdigest()[:32]}.npy"
