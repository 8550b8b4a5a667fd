"""The demo of models that it trains; tests/test_zoo.py has that of pretrained ones."""

import re

import pytest

from constrained_dnc import predict
from constrained_dnc.cli import demo, main
from constrained_dnc.config import PRESETS
from constrained_dnc.study import read_study
from constrained_dnc.study.trial import complete_run
from constrained_dnc.tasks.registry import get_task
from smoke_studies import open_smoke


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """The study of a live demo of the preset smoke, its runs completed in this process."""
    monkeypatch.setattr(demo, "LIVE", PRESETS["smoke"])
    monkeypatch.setattr(demo, "SHOWN_EXTENDED", (10,))
    plan = open_smoke(tmp_path / "study")
    for run in plan.runs:
        complete_run(run.folder, plan.wanted)
    return plan


def test_the_live_demo_compares_what_it_has_trained(trained, capsys):
    command = ["demo", "--live", "--lengths", "3", "--study", str(trained.folder)]
    assert main([*command, "--constrained", "compr+reg"]) == 0
    output, errors = capsys.readouterr()
    assert "2 runs, 2 ended, 0 to go" in errors
    problem = get_task("copy").sample(0, 1, 3).problems[0]
    rows = read_study(trained.folder).results.query("selection == 'score' and memory == '80'")
    for run in trained.runs:
        answer = predict(run.folder, problem)
        name = re.escape(run.config.approach.name)
        shown = re.search(rf"^  {name} +(\S+)  \d of 3 right$", output, re.M)
        assert shown[1] == "".join(str(it) if 0 <= it <= 9 else "*" for it in answer)
        score = rows.query("run_id == @run.config.run_id and length == 10")["score"].item()
        assert re.search(rf"^{name} +- +- +- +{round(100 * score)}$", output, re.M)
    report, page = re.findall(r": (\S+\.html)$", output, re.M)
    assert report == str(trained.folder / "report" / "index.html")
    assert page == str(trained.folder / "explorer.html")
    assert "stateful-baseline" in (trained.folder / "explorer.html").read_text()


def test_a_task_that_cannot_be_printed_is_refused_before_training(tmp_path, capsys):
    study = tmp_path / "study"
    assert main(["demo", "--live", "--task", "add", "--study", str(study)]) == 2
    assert "add has problems or answers that are not digits" in capsys.readouterr().err
    assert not study.exists()
