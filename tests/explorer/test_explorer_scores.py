"""Stored scores beside the paper's: each number says what it is of."""

import json
import shutil

from constrained_dnc import published, zoo
from constrained_dnc.evaluation.scoring import EVALUATION_FILE
from constrained_dnc.explorer import open_model, views
from constrained_dnc.explorer.scores import Curve, describe_curves, describe_paper
from constrained_dnc.files import read_tensors, write_table, write_tensors
from constrained_dnc.results import read_results_file
from constrained_dnc.training.disk import SELECTED, STATUS


def test_maximum_length_and_average():
    scores = {length: 1.0 if length <= 20 else 0.5 for length in range(1, 60)}
    curve = Curve("unseen", "50 slots", scores | {30: 0.95, 31: 0.9499})
    assert curve.max_length == 30
    assert round(curve.average, 6) == round((19 + 23 * 0.5 + 0.95 + 0.9499) / 44, 6)
    assert Curve("unseen", "50 slots", {2: 1.0}).average is None
    assert Curve("unseen", "50 slots", {2: 0.1}).max_length == 0


def test_rules_and_iterations_are_told_apart():
    curves = [
        Curve("score", "50 slots", {2: 1.0}, 70),
        Curve("score", "500 slots", {3: 1.0}, 70),
        Curve("unseen", "50 slots", {4: 1.0}, 80),
        Curve("unseen", "80 slots", {5: 1.0}, 40),
    ]
    assert describe_curves(curves, 90) == (
        "Rule score, iteration 70 of 90: maximum length 2 with 50 slots, 3 with 500 "
        "slots. Rule unseen (the paper's), iteration 80 of 90: maximum length 4 with 50 slots. "
        "Rule unseen (the paper's), iteration 40 of 90: maximum length 5 with 80 slots."
    )


def test_the_paper_stands_beside_its_own_rule(runs, monkeypatch, tmp_path):
    """A pretrained model has parameters of the rule score; the paper's number is of another."""
    folder = tmp_path / "copy" / "compr+reg"
    shutil.copytree(runs["compr+reg"], folder)
    tensors, metadata = read_tensors(folder / SELECTED["unseen"])
    write_tensors(folder / SELECTED["score"], tensors, metadata | {"selection": "score"})
    (folder / SELECTED["unseen"]).unlink()
    scores = {
        "score": {"4": {"7": 0.99, "8": 0.5}, "40": {"5": 0.96}},
        "unseen": {"4": {"3": 0.97, "4": 0.9}},
        "seen": {"4": {"2": 0.99}},
    }
    metadata = {
        "trial": 0,
        "trials": [0],
        "iterations": 10,
        "iteration": 6,
        "commit": "",
        "scores": scores,
    }
    (folder / zoo.SCORES).write_text(json.dumps(metadata))
    monkeypatch.setattr(zoo, "MODELS", tmp_path)
    model = open_model("zoo:copy/compr+reg")
    note = views.scores_note(model)
    assert "Rule score, iteration 6 of 10: maximum length 7 with 4 slots, 5 with 40 slots" in note
    chosen = json.loads((folder / STATUS).read_text())["best_iteration"]["unseen"]
    assert f"Rule unseen (the paper's), iteration {chosen} of 10: maximum length 3" in note
    paper = published.max_lengths(False)["copy", "compr+reg"]
    assert (
        "The paper's compr+reg (rule unseen, 300000 iterations on lengths 5 to 15, medians of 10 "
        f"trials): maximum length {paper} with 50 slots"
    ) in note
    assert "seen, 4 slots" not in " ".join(model.scores)
    assert list(model.scores) == [
        "4 slots, rule score",
        "40 slots, rule score",
        "4 slots, rule unseen",
    ]


def test_averages_say_over_which_lengths():
    curve = Curve("unseen", "50 slots", dict.fromkeys(range(2, 46), 0.5), 7)
    assert "(average score 50 % over lengths 2 to 45)" in describe_curves([curve], 9)
    assert "% over lengths 2 to 45)" in describe_paper("sort", "compr+reg")


def test_a_run_without_scores_says_how_to_get_them(runs):
    name = runs["stateless-baseline"]
    note = views.scores_note(open_model(name))
    assert note.startswith(f"No scores are stored; `cdnc evaluate {name}` makes them.")


def test_scores_of_another_run_are_not_shown(runs, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(runs["compr+reg"], folder)
    path = folder / EVALUATION_FILE
    write_table(path, read_results_file(path).assign(run_id="another"))
    assert open_model(str(folder)).curves == ()


def test_corrupt_scores_are_named(runs, tmp_path, caplog):
    folder = tmp_path / "run"
    shutil.copytree(runs["compr+reg"], folder)
    path = folder / EVALUATION_FILE
    path.write_bytes(path.read_bytes()[:100])
    assert open_model(str(folder)).curves == ()
    assert f"its scores are not shown: {path} cannot be read" in caplog.text
