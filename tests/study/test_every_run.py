"""Whatever takes a run takes every kind of run, and leaves it as it was."""

import shutil

import numpy as np
import pytest

from constrained_dnc import RunError, SettingError, evaluate, load_run, predict, resume, train, zoo
from constrained_dnc.explorer import open_model
from constrained_dnc.study.plan import gather, open_study
from constrained_dnc.study.trial import Wanted, complete_run
from constrained_dnc.training.run import plan_run
from tiny_runs import REVERSE, contents, tiny_config

CONFIG = tiny_config(iterations=10)


def trained(folder):
    return train(CONFIG, folder / "trained", threads=1).folder


def of_a_study(folder):
    (run,) = open_study(folder / "study", [CONFIG]).runs
    complete_run(run.folder, Wanted(("score",), analyses=False))
    return run.folder


def pretrained(folder):
    return "zoo:copy/compr+reg"


def copied(folder):
    return shutil.copytree(trained(folder), folder / "copied")


def moved(folder):
    return trained(folder).rename(folder / "moved")


def without_checkpoints(folder):
    run = trained(folder)
    for checkpoint in run.glob("checkpoint-*"):
        checkpoint.unlink()
    return run


def fine_tuned(folder):
    start = load_run(trained(folder)).model
    return train(tiny_config(iterations=10, seed=1), folder / "tuned", start=start).folder


def with_user_code(folder):
    path = folder / "reverse.py"
    path.write_text(REVERSE)
    run = train(tiny_config(f"{path}:Reverse", iterations=10), folder / "own", threads=1)
    path.unlink()  # its text is in the run
    return run.folder


KINDS = [
    trained,
    of_a_study,
    pretrained,
    copied,
    moved,
    without_checkpoints,
    fine_tuned,
    with_user_code,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_run(kind, tmp_path):
    name = kind(tmp_path)
    run = load_run(name)
    before = contents(run.folder)
    assert run.status.state == "finished"
    assert run.task.name == run.task_name
    problem = run.task.sample(0, 1, 3).problems[0]
    answer = predict(name, problem)
    assert predict(run, problem) == answer
    scores = evaluate(name, lengths=[2, 3], batches=1, threads=1, store=False)
    assert scores["score"].tolist() == (
        evaluate(run, lengths=[2, 3], batches=1, threads=1, store=False)["score"].tolist()
    )
    assert open_model(str(name), trust_code=True).run == run
    if kind is pretrained:
        for writing in (resume, lambda it: train(run.config, it)):
            with pytest.raises(SettingError, match="not a pretrained model"):
                writing(name)
    else:
        assert resume(name).status.iteration == run.status.iteration
    (gathered,) = gather([name], tmp_path / "gathered", analyses=False).runs
    assert gathered.config.run_id == run.config.run_id
    assert predict(gathered.folder, problem) == answer
    again = evaluate(gathered.folder, lengths=[2, 3], batches=1, threads=1)
    np.testing.assert_array_equal(again["score"], scores["score"])
    after = contents(run.folder)
    assert {name: after[name] for name in before if name != "status.json"} == {
        name: text for name, text in before.items() if name != "status.json"
    }
    assert (run.folder in zoo.pretrained().values()) == (kind is pretrained)


def test_a_planned_run_has_no_answers_yet(tmp_path):
    plan_run(tmp_path / "run", CONFIG)
    run = load_run(tmp_path / "run")
    assert (run.status.state, run.task_name) == ("planned", "copy")
    for asking in (lambda: predict(run, "1"), lambda: evaluate(run), lambda: run.model):
        with pytest.raises(RunError, match="no selected parameters yet"):
            asking()
    with pytest.raises(SettingError, match="none of the runs has ended"):
        gather([run.folder], tmp_path / "study")
    assert resume(run.folder).status.state == "finished"
