"""Findings recomputed from the Parquet files by independent lines."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

from constrained_dnc.report import Report
from constrained_dnc.report.curves import score_against_length
from constrained_dnc.report.drawing import style
from constrained_dnc.report.findings import Findings, by_rule, stages_of
from constrained_dnc.report.score_tables import properties, runs
from constrained_dnc.report.states import properties_against_score
from constrained_dnc.report.tables import lengths_by_iterations, lengths_by_memory
from constrained_dnc.study import read_study
from made_up import add_rows, findings_of
from synthetic import Request, row, run_folder, run_id, write_study


@pytest.mark.parametrize(("memory", "up_to"), [("50", 45), ("500", 450)])
def test_lengths_and_averages_from_the_files(tmp_path: Path, memory: str, up_to: int) -> None:
    request = Request(tasks=("copy",), approaches=("reg",), trials=4, analysis=False)
    path = write_study(tmp_path, request)
    frame = pd.concat(map(pd.read_parquet, sorted(path.glob("runs/*/evaluation.parquet"))))
    frame = frame[frame["memory"] == memory]
    findings = Findings(read_study(path), "unseen")
    lengths = findings.lengths.loc[memory, "copy", "reg"]
    for measure, column in (("entries", "score"), ("whole", "sequence_accuracy")):
        medians = frame.groupby("length")[column].median()
        assert lengths.at[measure, "length"] == max(medians[medians >= 0.95].index, default=0)
        passed = frame[frame[column] >= 0.95].groupby("seed")["length"].max()
        assert lengths.at[measure, "each"] == tuple(passed)
    averages = frame[frame["length"] <= up_to].groupby("seed")["score"].mean()
    np.testing.assert_allclose(findings.averages_of((memory, "copy", "reg")), averages)


def test_the_default_rule_comes_first_then_the_papers(tmp_path: Path) -> None:
    rules = ("unseen", "seen", "score")
    request = Request(("sort",), ("reg",), trials=1, analysis=False, selections=rules)
    assert list(by_rule(read_study(write_study(tmp_path, request)))) == ["score", "unseen", "seen"]


def test_a_trial_that_was_given_up_fails_in_table_and_figure_alike(tmp_path: Path) -> None:
    path = write_study(tmp_path, Request(("sort",), ("reg",), 0, analysis=False, growing=True))
    add_rows(
        path,
        [
            row("sort", "reg", seed, at, score, memory="growing", batches=int(at <= last))
            for seed, last in enumerate((100, 20, 20))
            for at in (5, 10, 20, 50, 100)
            for score in [(1.0 if at < last else 0.3) if at <= last else float("nan")]
        ],
    )
    findings = Findings(read_study(path), "unseen")
    key = ("growing", "sort", "reg")
    assert findings.lengths.at[(*key, "entries"), "length"] == 10
    assert findings.lengths.at[(*key, "entries"), "each"] == (50, 10, 10)
    assert findings.curves[key].median().tolist() == [1, 1, 0.3, 0, 0]
    assert [list(line.index) for line in findings.trial_lines(key).values()] == [
        [5, 10, 20, 50, 100],
        [5, 10, 20],
        [5, 10, 20],
    ]


def test_no_maximum_length_where_the_floor_reaches_95_percent(tmp_path: Path) -> None:
    findings = findings_of(tmp_path, "sort", {"500": {"reg": [200, 200]}})
    key = ("500", "sort", "reg", "entries")
    assert findings.lengths.at[key, "length"] == 200
    study = read_study(tmp_path)
    study.__dict__["history"] = study.history.assign(floor=study.history["length"] / 200)
    assert Findings(study, "unseen").lengths.at[key, "length"] == 150


def test_tau_pools_the_papers_stateful_approaches_only(tmp_path: Path) -> None:
    pooled = ("stateful-baseline", "compr", "reg", "compr+reg")
    names = (*pooled, "stateless-baseline", "peephole")
    path = write_study(tmp_path, Request(("sort",), names, trials=2, samples=2, extended=False))
    curvature, score = [], []
    for run in (run_folder(path, "sort", name, seed) for name in pooled for seed in range(2)):
        rows = pd.read_parquet(run / "evaluation.parquet")
        score.append(rows[rows["length"] <= 45]["score"].mean())
        curvature.append(float(np.load(run / "analyses.npz")["curvature"]))
    findings = Findings(read_study(path), "unseen")
    (correlation,) = findings.correlations()
    assert correlation.instances == 8
    assert correlation.tau == pytest.approx(kendalltau(curvature, score).statistic)
    analysed = findings.instances.dropna(subset="curvature")
    assert set(analysed["approach"]) == {*names} - {"stateless-baseline"}


def test_digital_inference_and_state_counts_stand_apart(tmp_path: Path) -> None:
    ends = [20, 30, 40]
    study = findings_of(tmp_path, "copy", {"50": {"reg": ends}}).study
    network = study.history.assign(
        inference="network", state_count=2.0 ** (9 - study.history["seed"])
    )
    digital = network.assign(inference="digital", score=(network["length"] <= 60).astype(float))
    study.__dict__["history"] = pd.concat([network, digital], ignore_index=True)
    findings = Findings(study, "unseen")
    key = ("50", "copy", "reg", "entries")
    assert findings.lengths.at[key, "each"] == tuple(ends)
    assert findings.digital.lengths.at[key, "each"] == (60, 60, 60)
    cells = lengths_by_memory(findings).cells.loc[("copy", "reg")]
    assert cells["50 slots (training), entries"] == "30 (20, 30, 40)"
    assert cells["50 slots (training), digital, entries"] == "60 (60, 60, 60)"
    (correlation,) = findings.correlations("state_count")
    assert (correlation.tau, correlation.instances) == (-1.0, 3)
    counts = properties(findings).cells.loc[("copy", "state count"), "reg"]
    assert counts == "256 (128 to 512, n = 3)"
    assert runs(findings).cells["state count"].tolist() == ["512", "256", "128"]
    with style():
        (panel,) = properties_against_score(findings).axes
        lines = score_against_length(findings, "50").axes[0].lines
    assert panel.get_title(loc="left") == "copy, tau -1.00"
    patterns = [line._unscaled_dash_pattern[1] or () for line in lines]
    assert [tuple(pattern) for pattern in patterns].count((4, 1.5, 1, 1.5)) == 4  # and the median


def test_a_diverged_run_counts(small_report: Report) -> None:
    ranked = small_report.main.ranked("sort", "stateful-baseline")
    assert ranked.index[1] == run_id("sort", "stateful-baseline", 1)
    assert ranked.iloc[1] == pytest.approx(0.4)


def test_a_study_that_grew_has_the_lengths_of_every_stage(tmp_path: Path) -> None:
    ends = {("reg", 0): {100: 20, 300: 40}, ("reg", 1): {100: 30}, ("compr", 0): {300: 25}}
    path = write_study(tmp_path, Request(("sort",), ("compr", "reg"), trials=0, analysis=False))
    add_rows(
        path,
        [
            row("sort", name, seed, at, float(at <= end), iterations=iterations)
            for (name, seed), stages in ends.items()
            for iterations, end in stages.items()
            for at in range(2, 61)
        ],
    )
    findings = Findings(read_study(path), "unseen")
    assert findings.lengths.at[("50", "sort", "reg", "entries"), "each"] == (40, 30)
    cells = lengths_by_iterations(findings, stages_of(findings)).cells
    assert cells.loc[("sort", 100), "reg"] == "20 (20, 30)"
    assert cells.loc[("sort", 300), "reg"] == "40"
    assert cells.loc[("sort", 300), "compr"] == "25"
