"""Studies that grew."""

from pathlib import Path

import numpy as np

from constrained_dnc.report import longer_training
from constrained_dnc.report.drawing import style
from constrained_dnc.report.findings import find
from constrained_dnc.report.verdicts import judge_all
from constrained_dnc.study import read_study, write_results
from synthetic import Request, row, write_study

ENDS = {("reg", 0): {100: 20, 300: 40}, ("reg", 1): {100: 30}, ("stateful-baseline", 0): {300: 25}}


def grown(path: Path) -> Path:
    """Two runs of reg, one of them trained on; a run of the baseline that never was shorter."""
    names = ("stateful-baseline", "reg")
    write_study(path, Request(("sort",), names, trials=0, analysis=False, extended=False))
    for (name, seed), ends in ENDS.items():
        for iterations, end in ends.items():
            counts = {"iterations": iterations, "iteration": iterations - 10}
            rows = [row("sort", name, seed, at, float(at <= end), **counts) for at in range(2, 61)]
            write_results(path, f"{name}-{seed}-{iterations}", rows)
    return path


def test_the_newest_of_every_run_counts(tmp_path: Path) -> None:
    findings = find(read_study(grown(tmp_path)))
    assert findings.plain.longest["sort", "reg"].trials == 2
    (trained,) = {v.budget for v in judge_all(findings) if v.here and "maximum" in v.claim.measure}
    assert trained == "1 and 2 trials, 100 to 300 iterations"


def test_lengths_at_every_stage(tmp_path: Path) -> None:
    findings = find(read_study(grown(tmp_path)))
    stages = longer_training.evaluations(findings)
    assert list(stages) == [100, 300]
    table = longer_training.lengths_by_iterations(findings, stages)
    found = {(r["iterations"], r["approach"]): r["max_length"] for r in table.records}
    # The median of trials that end at 20 and at 30 is 0.5 in between.
    assert found == {(100, "reg"): 20, (300, "reg"): 40, (300, "stateful-baseline"): 25}
    with style():
        panel = longer_training.length_against_iterations(findings, stages).axes[0]
    drawn = [np.asarray(line.get_xydata()).tolist() for line in panel.lines]
    assert drawn == [[[300, 25]], [[100, 20], [300, 40]]]


def test_every_run_says_how_long_it_was_trained(tmp_path: Path) -> None:
    table = longer_training.runs(read_study(grown(tmp_path)))
    told = {label: [cell.ours for cell in cells] for label, cells in table.rows}
    assert told == {
        "sort, reg, trial 0": ["300", "finished", "0", "290"],
        "sort, reg, trial 1": ["100", "finished", "0", "90"],
        "sort, stateful-baseline, trial 0": ["300", "finished", "0", "290"],
    }


def test_a_study_that_never_grew_has_no_stages(tmp_path: Path) -> None:
    request = Request(("sort",), ("reg",), trials=2, analysis=False, extended=False)
    study = read_study(write_study(tmp_path, request))
    assert longer_training.stages(study) == ()
    assert longer_training.drawings(find(study), {}) == []
