"""Figures show the data they are given, and one approach has one colour."""

import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.patches import StepPatch
from PIL import Image

from constrained_dnc.colours import DARK, LIGHT, colours_of
from constrained_dnc.report import Report, curves, drawing, states
from constrained_dnc.report.findings import Findings
from constrained_dnc.study import read_study
from made_up import findings_of
from synthetic import Request, run_folder, run_id, write_study

ENDS = {"50": {"reg": [23, 30]}, "500": {"reg": [10, 60]}, "growing": {"reg": [45, 90]}}


def lines_of(panel: Axes, colour: str) -> list[np.ndarray]:
    """The lines of a colour that are no dots."""
    lines = [line for line in panel.lines if line.get_color() == colour]
    return [np.asarray(line.get_ydata()) for line in lines if line.get_marker() == "None"]


def test_one_line_per_trial_and_the_floor(small_report: Report) -> None:
    findings = small_report.main
    with drawing.style():
        panel = curves.score_against_length(findings, "50").axes[0]
    shade = colours_of(findings.approaches)["compr+reg"]
    scores = 100 * findings.curves["50", "sort", "compr+reg"].to_numpy()
    *trials, median = lines_of(panel, shade)
    np.testing.assert_allclose(trials, scores)
    np.testing.assert_allclose(median, np.median(scores, axis=0))
    (floor,) = (line for line in panel.lines if set(np.asarray(line.get_ydata())) == {20.0})
    assert len(np.asarray(floor.get_xdata())) == 99
    named = {text.get_text(): to_hex(text.get_color()) for text in panel.texts}
    expected = {name: shade.lower() for name, shade in colours_of(findings.approaches).items()}
    assert named == expected


def test_the_median_of_the_seeds_is_a_thicker_line(tmp_path: Path) -> None:
    findings = findings_of(tmp_path, "sort", {"50": {"reg": [18, 22, 40]}})
    with drawing.style():
        panel = curves.score_against_length(findings, "50").axes[0]
    lines = [line for line in panel.lines if line.get_color() == colours_of(["reg"])["reg"]]
    assert [line.get_linewidth() > 1 for line in lines] == [False, False, False, True]
    np.testing.assert_allclose(lines[-1].get_ydata(), 100.0 * (np.arange(2, 101) <= 22))


def test_memories_have_dashes_of_their_own(tmp_path: Path) -> None:
    findings = findings_of(tmp_path, "sort", ENDS)
    with drawing.style():
        figure = curves.score_by_memory(findings, "sort")
    (panel,) = figure.axes
    shade = colours_of(["reg"])["reg"]
    dashes = [line._unscaled_dash_pattern for line in panel.lines if line.get_color() == shade]
    assert len(dict.fromkeys(dashes[::3])) == 3  # two seeds and a median each
    assert panel.get_xscale() == "log"
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["50 slots (training)", "500 slots", "growing memory"]


def test_an_svg_takes_ink_and_ground_from_the_page_and_keeps_the_colours_of_the_data(
    small_report: Report,
) -> None:
    with drawing.style():
        element = drawing.svg(curves.score_against_length(small_report.main, "50"), "a")
        other = drawing.svg(curves.score_against_length(small_report.main, "500"), "b")
    for shade in (*LIGHT.values(), "black", "#000000"):
        assert shade not in element
    assert "currentColor" in element
    for shade in colours_of(small_report.main.approaches).values():
        assert shade.lower() in element
    ids = [set(re.findall(r' id="([^"]+)"', text)) for text in (element, other)]
    assert not ids[0] & ids[1]  # both can stand on one page
    assert {*re.findall(r"url\(#([^)]+)\)", element)} <= ids[0]
    dark = drawing.standalone(element).partition("prefers-color-scheme: dark")[2]
    assert DARK["ink"] in dark


def test_any_number_of_the_analyses_is_compared_with_the_score_and_drift_with_length(
    tmp_path: Path,
) -> None:
    path = write_study(tmp_path, Request(("sort",), ("reg",), 4, samples=2, extended=False))
    for seed in range(4):
        file = run_folder(path, "sort", "reg", seed) / "analyses.npz"
        by_length = np.array([[0.1, 0.2], [1.0, seed]])
        own = {"drift": 0.2 * seed, "my_measure": float(-seed)}
        drift = {"drift_by_length": by_length, "drift_lengths": np.array([30, 100])}
        np.savez(file, **{**np.load(file), **own, **drift})
    findings = Findings(read_study(path), "unseen")
    properties = {"curvature", "drift", "state_count", "my_measure"}
    assert findings.properties.keys() == properties
    (drift_tau,), (own_tau,) = (findings.correlations(name) for name in ("drift", "my_measure"))
    assert drift_tau.tau == -own_tau.tau
    names = [drawing.name for drawing in states.properties_drawings(findings)]
    assert names == ["properties_vs_score", "drift_vs_length"]
    with drawing.style():
        encoding, decoding = states.drift_against_length(findings, ["sort"]).axes
    assert sorted(line.get_ydata()[1] for line in decoding.lines) == [0, 1, 2, 3]
    assert {tuple(line.get_ydata()) for line in encoding.lines} == {(0.1, 1.0)}


def test_trajectories_overlay_all_samples(small_report: Report, page: Path) -> None:
    findings = small_report.analysed
    with drawing.style():
        all_trials = states.state_trajectories(findings, "sort", "encoding")
        names = ("stateful-baseline", "compr+reg")
        picture = states.state_picture(findings, "sort", names, trials=2)
    for figure, count in ((all_trials, 6), (picture, 4)):  # approaches with a state x two trials
        shown = [panel for panel in figure.axes if panel.collections]
        assert len(shown) == count
        for panel in shown:
            lines, dots = panel.collections
            assert isinstance(lines, LineCollection)
            assert len(lines.get_paths()) == 30 * 2
            assert np.shape(dots.get_offsets()) == (31 * 2, 2)


def test_embeddings_leave_out_the_decoding_of_search(small_report: Report) -> None:
    pairs = states.wanted_embeddings(small_report.analysed)
    runs = small_report.study.runs
    phases = {(runs.at[run_id, "task"], phase) for run_id, phase in pairs}
    assert phases == {("sort", "encoding"), ("sort", "decoding"), ("search", "encoding")}


@pytest.mark.parametrize(
    ("trials", "shown"), [(2, [0, 1]), (5, [0, 1, 2, 3, 4]), (8, [0, 1, 2, 5, 6, 7])]
)
def test_the_three_best_and_of_the_others_the_three_worst(
    tmp_path: Path, trials: int, shown: list[int]
) -> None:
    findings = findings_of(tmp_path, "sort", {"50": {"reg": [90 - 10 * n for n in range(trials)]}})
    run_ids = states.best_and_worst(findings, "sort", "reg")
    assert run_ids == [run_id("sort", "reg", seed) for seed in shown]


def test_histograms_are_shares_and_a_corrupt_analysis_leaves_a_word(tmp_path: Path) -> None:
    path = write_study(tmp_path, Request(("sort",), ("reg",), 2, samples=2, extended=False))
    (run_folder(path, "sort", "reg", 0) / "analyses.npz").write_bytes(b"PK\x03\x04 torn")
    findings = Findings(read_study(path), "unseen")
    with drawing.style():
        figure = states.memory_modes(findings, "sort", "write")
    steps = [it for panel in figure.axes for it in panel.patches if isinstance(it, StepPatch)]
    assert [np.sum(step.get_data()[0]) for step in steps] == pytest.approx([1, 1])
    assert [text.get_text() for panel in figure.axes for text in panel.texts] == ["no analysis"]


def test_files_of_every_figure(small_report: Report, page: Path) -> None:
    names = {it.name for section in small_report.drawings.values() for it in section}
    assert {
        "score_vs_length_50_score",
        "score_vs_length_500_unseen",
        "peephole_vs_vanilla_lstm_score",
        "memory_sort_score",
        "properties_vs_score",
        "states_sort_decoding",
        "read_modes_search",
    } <= names
    directory = page.parent / "figures"
    assert {file.stem for file in directory.glob("*.svg")} == names
    assert {file.stem for file in directory.glob("*.pdf")} == names
    for name in names:
        pixels = np.asarray(Image.open(directory / f"{name}.png").convert("L"))
        assert min(pixels.shape) > 200
        assert pixels.std() > 5  # not blank
