"""What a study will take, before it begins."""

import re

import pytest

from constrained_dnc.cli import main
from constrained_dnc.study import estimate
from constrained_dnc.study.estimate import RunCost, describe, measure_run
from constrained_dnc.study.trial import Wanted, complete_run
from smoke_studies import open_smoke
from tiny_runs import tiny_config


def test_core_hours_time_and_disk_are_sums_over_what_is_left(monkeypatch):
    costs = {"copy": RunCost(0.1, 60.0, 30.0, 2e6), "sort": RunCost(0.2, 60.0, 30.0, 1e6)}
    monkeypatch.setattr(estimate, "measure_run", lambda config, wanted: costs[config.task])
    to_do = [(tiny_config(task, seed=seed), 900) for task in costs for seed in range(3)]
    lines = list(describe(to_do, 8, Wanted(), workers=2))
    assert lines[0] == "8 runs, 2 ended, 6 to go: 5400 iterations"
    assert len(lines) == 8
    copy, sort = lines[1:3]
    assert copy == (
        "measured here, one core, copy compr: 100 ms an iteration; a run takes 0:00:04 to train, "
        "at most 0:01:00 to score, 0:00:30 to analyse"
    )
    assert "sort compr: 200 ms" in sort
    seconds = 3 * (90 + 90) + 3 * (180 + 90)
    assert lines[4] == f"  {seconds / 3600:.2g} core-hours, 9 MB on disk"
    assert lines[5] == "  0:11:15 with 2 workers here"  # half of the sum
    assert (
        lines[6] == "  0:04:30 with 64 workers on cores like these, 6 of them busy"
    )  # the longest
    assert "a GPU: not known" in lines[7]


def test_the_disk_is_that_of_a_run(tmp_path):
    """A preset whose run takes a second."""
    (run,) = open_smoke(tmp_path, ["copy"], ["compr"], trials=1).runs
    cost = measure_run(run.config, Wanted())
    assert min(cost.iteration, cost.scoring, cost.analyses) > 0
    complete_run(run.folder, Wanted())
    files = [path for path in run.folder.iterdir() if path.suffix != ".lock"]
    held = sum(path.stat().st_size for path in files)
    assert cost.bytes == pytest.approx(held, rel=0.5)


def test_a_dry_run_writes_nothing_and_knows_what_is_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(estimate, "measure_run", lambda *_: RunCost(0.1, 1.0, 1.0, 1e6))
    study = tmp_path / "study"
    command = ["study", "--preset", "smoke", "--study", str(study), "--dry-run"]
    assert main(command) == 0
    assert "not begun" in capsys.readouterr().out
    assert not study.exists()
    plan = open_smoke(study)
    complete_run(plan.runs[0].folder, plan.wanted)
    before = {path: path.stat().st_mtime_ns for path in study.rglob("*")}
    assert main(command) == 0
    assert "2 runs, 1 ended, 1 to go: 60 iterations" in capsys.readouterr().out
    assert main([*command, "--training.iterations", "100"]) == 0
    assert "2 runs, 0 ended, 2 to go: 140 iterations" in capsys.readouterr().out
    assert main([*command, "--training.iterations", "30"]) == 2  # as without --dry-run
    assert {path: path.stat().st_mtime_ns for path in study.rglob("*")} == before
    assert re.search(r"not 30; use another --study", capsys.readouterr().err)
