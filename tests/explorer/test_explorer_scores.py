"""Stored scores: each curve says what it is of."""

import json
import shutil

from constrained_dnc import zoo
from constrained_dnc.evaluation.results import read_results_file
from constrained_dnc.explorer import open_model
from constrained_dnc.files import read_tensors, write_table, write_tensors
from constrained_dnc.training.folder import EVALUATION, SELECTED


def test_scores_of_a_pretrained_model_and_of_the_papers_rule(runs, monkeypatch, tmp_path):
    folder = tmp_path / "copy" / "compr+reg"
    shutil.copytree(runs["compr+reg"], folder)
    tensors, metadata = read_tensors(folder / SELECTED["unseen"])
    write_tensors(folder / SELECTED["score"], tensors, metadata | {"selection": "score"})
    (folder / SELECTED["unseen"]).unlink()
    scores = {
        "score": {"4": {"8": 0.5, "7": 0.95, "6": 0.9499}, "40": {"5": 0.96}},
        "unseen": {"4": {"3": 0.5}},
        "seen": {"4": {"2": 0.99}},
    }
    known = {"trial": 0, "trials": [0], "iterations": 10, "iteration": 6, "commit": ""}
    (folder / zoo.SCORES).write_text(json.dumps(known | {"state_counts": {}, "scores": scores}))
    monkeypatch.setattr(zoo, "MODELS", tmp_path)
    curves = open_model("zoo:copy/compr+reg").curves
    assert [curve.name for curve in curves] == [
        "4 slots, rule score: maximum 7",
        "40 slots, rule score: maximum 5",
        "4 slots, rule unseen: maximum 0",
    ]
    assert list(curves[0].scores) == [6, 7, 8]


def test_stored_scores_are_those_of_the_run_and_of_the_parameters_shown(runs, tmp_path):
    (curve,) = open_model(runs["compr+reg"]).curves
    assert (curve.rule, curve.memory, list(curve.scores)) == ("score", "4", [1, 2, 3, 4])
    assert open_model(runs["stateless-baseline"]).curves == ()
    shutil.copytree(runs["compr+reg"], tmp_path / "run")
    path = tmp_path / "run" / EVALUATION
    table = read_results_file(path)
    for foreign in ({"run_id": "another"}, {"iteration": 9999}):
        write_table(path, table.assign(**foreign))
        assert open_model(str(tmp_path / "run")).curves == ()
