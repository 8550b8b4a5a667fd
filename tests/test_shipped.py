"""What comes with the repository: trained models and the results of the study they are from."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from constrained_dnc import load_run, predict, zoo
from constrained_dnc.errors import SettingError
from constrained_dnc.evaluation.results import stored_results
from constrained_dnc.evaluation.scoring import evaluate
from constrained_dnc.report import Report, build_report
from constrained_dnc.report.states import phase_states, stored_at, wanted_embeddings
from constrained_dnc.study import read_study

ROOT = Path(__file__).parents[1]
RESULTS, FRESH = ROOT / "results" / "paper-100k", ROOT / "results" / "copy-20k"


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_the_zoo_has_a_baseline_and_a_constrained_model():
    assert {"zoo:sort/stateful-baseline", "zoo:sort/compr+reg"} <= zoo.pretrained().keys()
    assert size(zoo.MODELS) < 17e6


@pytest.mark.parametrize("name", sorted(zoo.pretrained()))
def test_a_pretrained_model_scores_what_is_stored(name):
    run = load_run(name)
    rows = stored_results(run.folder)
    rows = rows[(rows["selection"] == "score") & (rows["inference"] == "network")]
    stored = rows[rows["memory"] == "50"].set_index("length")["score"]
    assert run.status.state == "finished"
    assert {run.selected().iteration} == set(rows["iteration"])
    assert run.config.seed in zoo.read_origin(run.folder).trials
    table = evaluate(run, lengths=[10, 25], batches=1, threads=1)
    all_batches = evaluate(run, lengths=[10], threads=1)  # all the batches of the study
    sample = 1 / (all_batches["batches"][0] * all_batches["batch_size"][0])
    assert abs(all_batches["score"][0] - stored[10]) <= sample
    assert table["score"].tolist() == pytest.approx(stored[[10, 25]].tolist(), abs=0.1)


def test_a_pretrained_model_sorts():
    answer = predict("zoo:sort/compr+reg", "3 1 4 1 0 2 2 4 0 1")
    assert list(answer) == sorted([3, 1, 4, 1, 0, 2, 2, 4, 0, 1])


def test_a_pretrained_model_copies_twenty_times_the_longest_input_of_its_training():
    problem = np.random.default_rng(1).integers(0, 5, 300)
    answer = predict("zoo:copy/compr+reg+used", problem, memory=500, selection="unseen")
    assert np.mean(np.array(answer) == problem) > 0.95
    with pytest.raises(SettingError, match="'seen'"):
        predict("zoo:copy/compr+reg+used", problem, selection="seen")


def test_the_results_are_those_of_the_models():
    assert size(RESULTS / "runs") + size(RESULTS / "embeddings") < 25e6  # a report may be there
    results = pd.concat([read_study(path).results for path in (RESULTS, FRESH)])
    measured = results[results["batches"] > 0]
    for name, folder in zoo.pretrained().items():
        stored = stored_results(folder)
        rows = results[results["run_id"] == stored["run_id"][0]]
        one = rows.iloc[0]
        model = f"zoo:{one['task']}/{one['approach']}"
        assert name in (model, f"{model}-{one['seed']}")
        order = ["selection", "memory", "inference", "length"]
        ours, theirs = (table.sort_values(order, ignore_index=True) for table in (stored, rows))
        pd.testing.assert_frame_equal(ours, theirs)
    assert np.isfinite(measured["score"]).all()


def test_no_embedding_is_left_to_whoever_makes_the_report(monkeypatch):
    lock = (ROOT / "requirements.lock").read_text()
    (version,) = re.findall(r"^scikit-learn==(\S+)", lock, re.MULTILINE)
    monkeypatch.setattr("sklearn.__version__", version)  # of which they are
    study = read_study(RESULTS)
    wanted = wanted_embeddings(Report(study).analysed)
    assert len(wanted) > 20
    drawn = [states for pair in wanted if (states := phase_states(study, *pair)) is not None]
    assert all(stored_at(study, states).exists() for states in drawn)


def check_pages(docs):
    command = [sys.executable, str(ROOT / "scripts" / "results_page.py"), "--check", "--docs", docs]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_the_documents_say_what_the_results_say(tmp_path):
    assert check_pages(ROOT / "docs").returncode == 0
    for page in ("results.md", "results-tables.md", "memory-size.md"):
        shutil.copy(ROOT / "docs" / page, tmp_path)
    (tmp_path / "results.md").write_text("All is well.", encoding="utf-8")
    wrong = check_pages(tmp_path)
    assert wrong.returncode == 1
    assert "does not say what" in wrong.stderr


@pytest.mark.slow
def test_the_results_make_a_whole_report(tmp_path):
    shutil.copytree(RESULTS, tmp_path / "study")
    page = build_report(tmp_path / "study")
    assert "compr+reg" in page.read_text(encoding="utf-8")
