"""Stored scores: each curve says what it is of."""

import shutil

from constrained_dnc import load_run
from constrained_dnc.evaluation.results import read_results_file, results_frame
from constrained_dnc.explorer import open_model, stored_curves
from constrained_dnc.files import write_table
from constrained_dnc.training.folder import EVALUATION


def test_curves_of_the_rule_shown_come_first_then_those_of_the_papers(runs, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(runs["compr+reg"], folder)
    row = read_results_file(folder / EVALUATION).query("selection == 'score'").iloc[0]
    unseen = load_run(folder).selected("unseen").iteration
    rows = [
        row.to_dict()
        | {"selection": rule, "memory": memory, "inference": inference, "length": length}
        | {
            "score": score,
            "floor": floor,
            "iteration": row["iteration"] if rule == "score" else unseen,
        }
        for rule, memory, inference, length, score, floor in (
            ("score", "4", "digital", 9, 0.99, 0.2),
            ("score", "4", "network", 6, 0.9499, 0.2),
            ("score", "4", "network", 7, 0.95, 0.2),
            ("score", "4", "network", 8, 0.96, 0.95),
            ("score", "40", "network", 5, 0.96, 0.2),
            ("seen", "4", "network", 2, 0.99, 0.2),
            ("unseen", "4", "network", 3, 0.5, 0.2),
        )
    ]
    write_table(folder / EVALUATION, results_frame(rows))
    curves = stored_curves(open_model(str(folder)))
    assert [curve.name for curve in curves] == [
        "4 slots, rule score: maximum 7",
        "40 slots, rule score: maximum 5",
        "4 slots, rule score, digital: maximum 9",
        "4 slots, rule unseen: maximum 0",
    ]
    assert list(curves[0].scores) == [6, 7, 8]


def test_stored_scores_are_those_of_the_run_and_of_the_parameters_shown(runs, tmp_path):
    (curve,) = stored_curves(open_model(runs["compr+reg"]))
    assert (curve.rule, curve.memory, list(curve.scores)) == ("score", "4", [1, 2, 3, 4])
    assert stored_curves(open_model(runs["stateless-baseline"])) == ()
    shutil.copytree(runs["compr+reg"], tmp_path / "run")
    path = tmp_path / "run" / EVALUATION
    table = read_results_file(path)
    for foreign in ({"run_id": "another"}, {"iteration": 9999}):
        write_table(path, table.assign(**foreign))
        assert stored_curves(open_model(str(tmp_path / "run"))) == ()
