"""Figures show the data they are given."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.patches import StepPatch
from matplotlib.text import Text
from PIL import Image

from constrained_dnc import published
from constrained_dnc.approaches import USED_SLOTS
from constrained_dnc.report import drawing, figures
from constrained_dnc.report.findings import Findings, find
from constrained_dnc.report.page import collect
from constrained_dnc.study import read_study
from synthetic import Request, write_study


@pytest.fixture
def findings(small_study: Path) -> Findings:
    return find(read_study(small_study))


def test_every_approach_has_one_colour_and_no_two_share_colour_and_dash() -> None:
    names = (*published.APPROACHES, *published.SUPPLEMENT_C, *USED_SLOTS)
    looks = {(drawing.colour(name), drawing.dash(name)) for name in names}
    assert len(looks) == len(names)


def test_an_own_approach_has_the_same_colour_in_every_report() -> None:
    colours = {name: drawing.colour(name) for name in ("my-approach", "Gru", "größer")}
    script = (
        f"from constrained_dnc.report import drawing; print(*map(drawing.colour, {[*colours]}))"
    )
    environment = os.environ | {"PYTHONHASHSEED": "1"}  # another process has other hashes
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [*colours.values()]
    assert not set(colours.values()) & set(drawing.COLOURS.values())


def upright_lines(panel: Axes) -> list[float]:
    positions = [np.unique(np.asarray(line.get_xdata())) for line in panel.lines]
    return [float(at[0]) for at in positions if len(at) == 1]


def test_curves_are_the_medians(findings: Findings) -> None:
    with drawing.style():
        figure = figures.score_against_length(findings, extended=False)
    panel = figure.axes[0]
    curve = findings.plain.curves["sort", "stateful-baseline"]
    line = next(ln for ln in panel.lines if ln.get_color() == drawing.colour("stateful-baseline"))
    np.testing.assert_allclose(np.asarray(line.get_ydata()), 100 * np.median(curve.scores, axis=0))
    assert upright_lines(panel) == [50]


def test_extension_has_a_log_axis_and_both_numbers_of_slots(findings: Findings) -> None:
    with drawing.style():
        panel = figures.score_against_length(findings, extended=True).axes[0]
    assert panel.get_xscale() == "log"
    assert upright_lines(panel) == [50, 500]


def test_dots_show_which_lengths_were_measured(findings: Findings) -> None:
    for extended in (False, True):
        panel, *_ = figures.score_against_length(findings, extended).axes
        lines = [line for line in panel.lines if len(line.get_xdata()) > 2]
        gaps = {bool(np.any(np.diff(line.get_xdata()) > 1)) for line in lines}
        assert gaps == {extended}
        assert {line.get_marker() for line in lines} == {"." if extended else ""}


def test_trajectories_overlay_all_samples(findings: Findings, page: Path) -> None:
    with drawing.style():
        figure = figures.state_trajectories(findings, "sort", "encoding")
    shown = [panel for panel in figure.axes if panel.collections]
    assert len(shown) == 6  # three approaches with a state, two trials
    for panel in shown:
        lines, dots = panel.collections
        assert len(lines.get_paths()) == 30 * 2
        assert np.shape(dots.get_offsets()) == (31 * 2, 2)


def test_wanted_embeddings_leave_out_the_decoding_of_search(findings: Findings) -> None:
    wanted = figures.wanted_embeddings(findings)
    phases = {(run_id.split("-")[0], phase) for run_id, phase in wanted}
    assert phases == {("sort", "encoding"), ("sort", "decoding"), ("search", "encoding")}


def test_histograms_are_shares(findings: Findings) -> None:
    with drawing.style():
        figure = figures.memory_modes(findings, "sort", "write")
    steps = [
        patch for panel in figure.axes for patch in panel.patches if isinstance(patch, StepPatch)
    ]
    assert len(steps) == 4 * 2 * 2  # approaches, trials, phases
    for step in steps:
        assert np.sum(step.get_data()[0]) == pytest.approx(1)


def test_single_trials_stand_side_by_side(tmp_path: Path) -> None:
    names = ("stateful-baseline", "compr", "reg", "compr+reg", "peephole", "mine")
    request = Request(("sort",), names, trials=1, samples=2, extended=False)
    findings = find(read_study(write_study(tmp_path, request)))
    with drawing.style():
        figure = figures.memory_modes(findings, "sort", "write")
    shown = [panel for panel in figure.axes if panel.get_visible()]
    assert [panel.get_ylabel() for panel in shown] == list(findings.approaches)
    rows = {round(panel.get_position().y0, 3) for panel in shown}
    assert len(rows) == 2  # five and one
    right = max(panel.get_position().x1 for panel in shown)
    assert right > 0.95  # no blank half
    assert [bool(len(panel.get_xticks())) for panel in shown] == [False, *[True] * 5]


@pytest.mark.parametrize("mode", ["read", "write"])
def test_words_have_room_above_a_single_trial(findings: Findings, monkeypatch, mode: str) -> None:
    monkeypatch.setattr(figures, "best_and_worst", lambda ranked: ([ranked[0][0]], []))
    with drawing.style():
        figure = figures.memory_modes(findings, "sort", mode)
        figure.dpi = drawing.DPI
        renderer = FigureCanvasAgg(figure).get_renderer()
        figure.draw(renderer)
        words = (figure.get_suptitle(), figure.get_supxlabel())
        title, label = (
            text.get_window_extent(renderer)
            for text in figure.findobj(Text)
            if text.get_text() in words
        )
        (legend,) = (legend.get_window_extent(renderer) for legend in figure.legends)
    assert not title.overlaps(legend)
    for box in (title, label, legend):
        assert 0 <= box.x0 < box.x1 <= figure.bbox.width


def test_dark_figures_keep_the_colours_of_the_data(findings: Findings) -> None:
    with drawing.style():
        figure = figures.score_against_length(findings, extended=False)
        before = [line.get_color() for line in figure.axes[0].lines[:3]]
        drawing.darken(figure)
    assert [line.get_color() for line in figure.axes[0].lines[:3]] == before
    assert to_hex(figure.get_facecolor()) == drawing.DARK["ground"]
    assert to_hex(figure.axes[0].title.get_color()) == drawing.DARK["ink"]


def test_files_of_every_figure(findings: Findings, page: Path) -> None:
    found = collect(findings.study).drawings.values()
    names = {drawing.name for drawings in found for drawing in drawings}
    assert "peephole_vs_vanilla_lstm" in names
    assert {"states_sort_encoding", "states_search_encoding", "read_modes_search"} <= names
    directory = page.parent / "figures"
    assert {file.stem for file in directory.glob("*.svg")} == names
    for name in names:
        pixels = np.asarray(Image.open(directory / f"{name}.png").convert("L"))
        assert min(pixels.shape) > 200
        assert pixels.std() > 5  # not blank


def test_curvature_shows_the_papers_approaches_and_the_others_apart(findings: Findings) -> None:
    found = {drawing.name: drawing for drawing in figures.all_drawings(findings)}
    with drawing.style():
        dots = [
            sum(len(np.asarray(dots.get_offsets())) for dots in panel.collections)
            for name in ("curvature_vs_score", "curvature_vs_score_others")
            for panel in found[name].draw().axes[:1]
        ]
    assert dots == [4, 2]  # two trials of two approaches; two of lstm-compr+reg


def test_a_damaged_analysis_leaves_a_word(tmp_path: Path) -> None:
    request = Request(("sort",), ("reg",), trials=2, samples=2, extended=False)
    path = write_study(tmp_path, request)
    (path / "analysis" / "sort-reg-0.npz").write_bytes(b"PK\x03\x04 torn")
    findings = find(read_study(path))
    with drawing.style():
        figure = figures.memory_modes(findings, "sort", "write")
    words = [text.get_text() for panel in figure.axes for text in panel.texts]
    assert words == ["no analysis"]
    assert len([panel for panel in figure.axes if panel.patches]) == 1
    assert any("sort-reg-0.npz" in sentence for sentence in findings.study.missing())


def test_a_name_may_have_dollars(tmp_path: Path) -> None:
    request = Request(("$\\frac{$",), ("a$b$",), trials=1, analysis=False, extended=False)
    study = read_study(write_study(tmp_path, request))
    with drawing.style():
        drawing.png(figures.score_against_length(find(study), extended=False))
