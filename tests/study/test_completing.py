"""One run from its config to its scores, as a worker completes it."""

import pickle
from dataclasses import replace

import pandas as pd
import pytest

from constrained_dnc import RunError, load_run
from constrained_dnc.config import with_min_iterations
from constrained_dnc.files import locked, read_arrays
from constrained_dnc.study.trial import Wanted, complete_run, is_done
from constrained_dnc.training.run import plan_run, replace_config
from tiny_runs import fingerprint, tiny_config

QUICK = Wanted(("score",), analyses=False)


def planned(folder, **settings):
    plan_run(folder, tiny_config(iterations=20, checkpoint_every=5, **settings))
    return folder


def test_a_planned_run_ends_with_scores_and_analyses_and_nothing_is_done_twice(tmp_path):
    run = planned(tmp_path / "run")
    assert load_run(run).status.state == "planned"
    (run / "failure.txt").write_text("Traceback of an earlier attempt")
    assert complete_run(run, Wanted()) == "finished"
    assert is_done(run, Wanted())
    assert not (run / "failure.txt").exists()
    table = pd.read_parquet(run / "evaluation.parquet")
    rows = table[["selection", "memory", "length"]].itertuples(index=False, name=None)
    assert sorted(rows) == sorted(
        [
            *((rule, "4", n) for rule in ("unseen", "seen", "score") for n in (1, 2, 3, 4)),
            *((rule, "40", n) for rule in ("unseen", "score") for n in (2, 5)),
            *((rule, "growing", n) for rule in ("unseen", "score") for n in (2, 5)),
        ]
    )
    assert read_arrays(run / "analyses.npz")["states"].shape[1] == 4

    files = {path: path.stat().st_mtime_ns for path in run.iterdir() if path.suffix != ".lock"}
    assert complete_run(run, Wanted()) == "finished"
    assert {path: path.stat().st_mtime_ns for path in files} == files


def test_a_run_that_is_extended_keeps_its_earlier_scores(tmp_path):
    run = planned(tmp_path / "run")
    complete_run(run, Wanted())
    longer = with_min_iterations(load_run(run).config, 40)
    replace_config(run, longer)
    assert not is_done(run, QUICK)
    complete_run(run, Wanted())
    straight = tmp_path / "straight"
    plan_run(straight, longer)
    complete_run(straight, Wanted())
    assert fingerprint(run) == fingerprint(straight)
    table, other = (pd.read_parquet(it / "evaluation.parquet") for it in (run, straight))
    assert set(table["iterations"]) == {20, 40}
    now = table[table["iterations"] == 40].reset_index(drop=True)
    pd.testing.assert_frame_equal(now, other)


def test_an_error_comes_back_as_text_and_leaves_its_traceback(tmp_path, monkeypatch):
    run = planned(tmp_path / "run")

    class TroubleError(Exception):
        def __init__(self, one, two):  # cannot be copied to another process
            super().__init__(one)

    def fail(*args, **options):
        raise TroubleError("no data today\nnor tomorrow", 2)

    with monkeypatch.context() as patch:
        patch.setattr("constrained_dnc.study.trial.train", fail)
        with pytest.raises(RunError, match=r"^TroubleError: no data today$") as raised:
            complete_run(run, QUICK)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    assert "in fail" in (run / "failure.txt").read_text()
    with locked(run / "completing.lock"):  # it is free
        pass
    assert complete_run(run, QUICK) == "finished"


def test_an_approach_without_a_memory_is_scored_as_it_was_trained(tmp_path):
    config = tiny_config(iterations=20)
    bare = replace(config.approach, name="bare", memory=type(config.approach.memory)("none"))
    plan_run(tmp_path / "run", replace(config, approach=bare))
    complete_run(tmp_path / "run", QUICK)
    assert set(pd.read_parquet(tmp_path / "run" / "evaluation.parquet")["memory"]) == {"4"}
