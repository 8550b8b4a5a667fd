"""Findings recomputed from the Parquet files by independent lines."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import kendalltau

from constrained_dnc.report.findings import best_and_worst, find
from constrained_dnc.study import read_study
from synthetic import Request, write_study


@pytest.mark.parametrize("extended", [False, True])
def test_lengths_and_averages_from_the_files(tmp_path: Path, extended: bool) -> None:
    request = Request(tasks=("copy",), approaches=("reg",), trials=4, analysis=False)
    path = write_study(tmp_path, request)
    size, up_to = (500, 450) if extended else (50, 45)
    by_length: dict[int, list[float]] = {}
    averages = []
    for file in sorted((path / "results").glob("*.parquet")):
        rows = [row for row in pq.read_table(file).to_pylist() if row["memory_size"] == size]
        averages.append(np.mean([row["score"] for row in rows if row["length"] <= up_to]))
        for row in rows:
            by_length.setdefault(row["length"], []).append(row["score"])
    passed = [length for length, scores in by_length.items() if np.median(scores) >= 0.95]
    evaluation = find(read_study(path)).at(extended)
    assert evaluation.longest["copy", "reg"].length == max(passed)
    np.testing.assert_allclose(evaluation.averages["copy", "reg"], averages)


def test_order_ranks_and_instances(small_study: Path) -> None:
    findings = find(read_study(small_study))
    assert findings.approaches[-1] == "lstm-compr+reg"
    ranked = findings.ranked("sort", "stateful-baseline")
    assert ranked[1][0] == "sort-stateful-baseline-1"  # the diverged one counts, as the worse
    assert ranked[1][1] == pytest.approx(0.4)
    assert findings.ranked("sort", "no such approach") == []
    # Two of the paper's approaches with a state, two trials each, one run without results.
    assert len(findings.instances["sort"].score) == 4
    assert len(findings.instances["search"].score) == 3
    assert set(findings.instances["sort"].approaches) == {"stateful-baseline", "compr+reg"}
    assert set(findings.other_instances["sort"].approaches) == {"lstm-compr+reg"}


def test_tau_pools_the_papers_stateful_approaches_only(tmp_path: Path) -> None:
    pooled = ("stateful-baseline", "compr", "reg", "compr+reg")
    others = ("stateless-baseline", "peephole", "lstm-reg", "compr+reg+used", "mine")
    path = write_study(
        tmp_path, Request(("sort",), (*pooled, *others), trials=3, samples=2, extended=False)
    )
    curvature, score = [], []
    for approach in pooled:
        for seed in range(3):
            name = f"sort-{approach}-{seed}"
            rows = pq.read_table(path / "results" / f"{name}.parquet").to_pylist()
            score.append(np.mean([row["score"] for row in rows if row["length"] <= 45]))
            curvature.append(float(np.load(path / "analysis" / f"{name}.npz")["curvature"]))
    (found,) = find(read_study(path)).correlations()
    assert found.instances == 12
    assert found.tau == pytest.approx(kendalltau(curvature, score).statistic)


@pytest.mark.parametrize(("trials", "best", "worst"), [(10, 3, 3), (5, 3, 2), (2, 2, 0), (0, 0, 0)])
def test_best_and_worst_never_overlap(trials: int, best: int, worst: int) -> None:
    ranked = [(str(trial), 1.0 - trial / 10) for trial in range(trials)]
    found = best_and_worst(ranked)
    assert (len(found[0]), len(found[1])) == (best, worst)
    assert not set(found[0]) & set(found[1])
    if worst:
        assert found[1][-1] == str(trials - 1)
