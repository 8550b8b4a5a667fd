"""Studies that are planned, extended and refused; nothing is trained here."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from constrained_dnc.config import RULES, SMOKE, Start
from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.evaluation.results import results_frame
from constrained_dnc.files import locked, read_json, write_json, write_table
from constrained_dnc.parts import APPROACHES
from constrained_dnc.report import published
from constrained_dnc.study import read_study
from constrained_dnc.study.plan import open_study, reopen_study, requested_configs
from constrained_dnc.study.trial import rows_of, write_failure
from constrained_dnc.training.folder import ANALYSES, EVALUATION
from constrained_dnc.training.run import open_run, plan_run, replace_config, write_config
from smoke_studies import open_smoke
from synthetic import row
from tiny_runs import STATUS


def mark_done(plan, run) -> None:
    """Give a run the files of one that is trained, scored and analysed."""
    config, iterations = run.config, run.config.training.iterations
    selected = dict.fromkeys(RULES, iterations)
    status = {"iteration": iterations, "iterations": iterations, "best_iteration": selected}
    write_json(run.folder / "status.json", STATUS | status | {"run_id": config.run_id})
    write_config(run.folder, config, "fused", threads=1)
    origin = {"selection": np.array(plan.wanted.rules[0]), "iteration": np.array(iterations)}
    np.savez(run.folder / ANALYSES, **origin)
    of_run = {"run_id": config.run_id, "iterations": iterations, "batch_size": 8}
    rows = [
        row(config.task, config.approach.name, config.seed, planned.length, 1.0)
        | of_run
        | {"selection": rule, "memory": str(planned.memory), "batches": planned.batches}
        for rule, planned in rows_of(run, plan.wanted)
    ]
    write_table(run.folder / EVALUATION, results_frame(rows))


def names(runs) -> list[str]:
    return [run.folder.name for run in runs]


def test_the_papers_study_has_350_runs_and_covers_everything_before_it_repeats():
    configs = requested_configs("paper")
    assert len({config.run_id for config in configs}) == len(configs) == 350
    first = {(config.task, config.approach.name) for config in configs[:35]}
    assert first == {(task, name) for task in published.TASKS for name in published.APPROACHES}
    assert [config.seed for config in configs] == sorted(config.seed for config in configs)
    assert {config.training.iterations for config in configs} == {300_000}
    chosen = requested_configs("quick", ["sort", "sort"], ["all"], trials=2)
    assert {config.task for config in chosen} == {"sort"}
    assert len(chosen) == 2 * len(APPROACHES)


@pytest.mark.parametrize(
    ("wrong", "setting"),
    [
        ({"preset": "huge"}, "preset"),
        ({"tasks": ["juggle"]}, "task"),
        ({"approaches": ["magic"]}, "approach"),
        ({"trials": 0}, "trials"),
    ],
)
def test_what_cannot_be_run_is_refused(wrong, setting):
    with pytest.raises(SettingError, match=f"^{setting} "):
        requested_configs(**{"preset": "smoke", **wrong})


def test_every_run_is_there_at_once_with_what_the_study_says_of_them(tmp_path):
    half = tmp_path / "study" / "runs" / ".copy-compr+reg-0.unfinished"  # by a killed command
    half.mkdir(parents=True)
    (half / "config.json").write_text("{")
    (tmp_path / "study" / "study.json").write_text("{}")
    plan = open_smoke(tmp_path / "study", command=["study", "--study", "my study"])
    assert names(plan.runs) == ["copy-stateful-baseline-0", "copy-compr+reg-0"]
    assert {run.status.state for run in plan.runs} == {"planned"}
    study = read_study(tmp_path / "study")
    assert study.tasks == ("copy",)
    assert study.approaches == ("compr+reg", "stateful-baseline")
    assert study.memories == ("8", "80", "growing")
    assert study.stored["command"] == "cdnc study --study 'my study'"
    assert study.provenance["jax"]
    assert {path.name for path in (tmp_path / "study").iterdir()} == {"study.json", "runs", "lock"}
    assert not half.exists()
    assert set(study.missing()) == {
        f"copy, {name}: 0 of 1 trials have results{kind}."
        for name in ("compr+reg", "stateful-baseline")
        for kind in ("", " with memory 80", " with memory growing")
    }


def test_a_run_is_done_with_results_and_analyses(tmp_path):
    plan = open_smoke(tmp_path)
    first, second = plan.runs
    assert plan.to_do() == [first, second]
    mark_done(plan, second)
    assert names(open_smoke(tmp_path).to_do()) == names([first])
    (second.folder / ANALYSES).unlink()
    assert plan.to_do() == [first, second]
    assert names(open_smoke(tmp_path, analyses=False).to_do()) == names([first])


@pytest.mark.parametrize(
    ("column", "value"), [("selection", "score"), ("memory", "growing"), ("length", 2)]
)
def test_results_that_lack_a_rule_a_memory_or_a_length_are_completed(tmp_path, column, value):
    plan = open_smoke(tmp_path)
    mark_done(plan, plan.runs[0])
    path = plan.runs[0].folder / EVALUATION
    table = pd.read_parquet(path)
    table[table[column] != value].to_parquet(path)
    assert plan.to_do() == list(plan.runs)


def test_a_quick_look_scores_one_rule_and_a_later_request_the_others(tmp_path):
    quick = open_smoke(tmp_path, rules=["score"], analyses=False)
    for run in quick.runs:
        mark_done(quick, run)
    assert quick.to_do() == []
    assert reopen_study(tmp_path).to_do() == []
    full = open_smoke(tmp_path)
    assert full.to_do() == list(full.runs)
    narrow = open_smoke(tmp_path, rules=["score"], analyses=False)
    assert (narrow.wanted.rules, narrow.wanted.analyses) == (("score",), False)
    resumed = reopen_study(tmp_path).wanted
    assert (resumed.rules, resumed.analyses) == (RULES, True)


@pytest.mark.parametrize(
    ("change", "is_done"),
    [
        ({"lengths": "2..7"}, False),
        ({"lengths": "3,5"}, True),
        ({"extension_lengths": "500"}, False),
        ({"batches": 9}, False),
        ({"batches": 1}, True),
        ({"batch_size": 5}, False),
    ],
)
def test_another_evaluation_is_of_the_runs_that_are_there(tmp_path, change, is_done):
    plan = open_smoke(tmp_path)
    for run in plan.runs:
        mark_done(plan, run)
    assert plan.to_do() == []
    model, training, evaluation = SMOKE.parts
    parts = model, training, replace(evaluation, **change)
    changed = open_smoke(tmp_path, parts=parts)
    assert names(changed.runs) == names(plan.runs)
    assert changed.to_do() == ([] if is_done else list(changed.runs))
    assert {run.config.evaluation for run in reopen_study(tmp_path).runs} == {parts[2]}


def test_failed_runs_are_named_and_tried_again(tmp_path):
    plan = open_smoke(tmp_path)
    first, second = plan.runs
    write_failure(first.folder, "Traceback\n  ...\nTrouble: no data today\n")
    assert plan.to_do() == [first, second]
    (failure,) = read_study(tmp_path).failures
    assert failure.pop("traceback").read_text().startswith("Traceback")
    origin = {"task": "copy", "approach": "stateful-baseline", "seed": 0}
    origin["run_id"] = first.config.run_id
    assert failure == origin | {"reason": "Trouble: no data today"}


def test_a_larger_request_keeps_what_is_done(tmp_path):
    plan = open_smoke(tmp_path)
    stored = read_json(tmp_path / "study.json")
    mark_done(plan, plan.runs[0])
    larger = open_smoke(tmp_path, ["copy", "sort"], trials=2)
    assert len(larger.runs) == 8
    assert len(larger.to_do()) == 7
    assert read_json(tmp_path / "study.json")["created"] == stored["created"]


def test_more_iterations_extend_the_runs_that_are_named(tmp_path):
    plan = open_smoke(tmp_path, ["copy"], ["compr"], trials=2)
    for run in plan.runs:
        mark_done(plan, run)
    (longer,) = open_smoke(tmp_path, ["copy"], ["compr"], trials=1, iterations=120).to_do()
    assert (longer.folder.name, longer.config.training.iterations) == ("copy-compr-0", 120)
    study = read_study(tmp_path)
    assert study.requested == {("copy", "compr"): (2, 120)}
    assert "copy, compr, trial 0: measured after 60 of 120 iterations." in study.missing()
    assert not any("trial 1" in sentence for sentence in study.missing())


def test_fewer_iterations_are_refused_with_the_budget_of_every_run(tmp_path):
    open_smoke(tmp_path, ["copy"], ["compr"], trials=3, iterations=400)
    open_smoke(tmp_path, ["copy"], ["compr"], trials=1, iterations=4000)
    with pytest.raises(
        SettingError,
        match=r"has 1 runs of 4000 iterations and 2 runs of 400 iterations, not 200; use another "
        rf"--study for less, or cdnc study --study {tmp_path} alone",
    ):
        open_smoke(tmp_path, ["copy"], ["compr"], trials=3, iterations=200)
    assert open_smoke(tmp_path, ["sort"], ["compr"], trials=1, iterations=200).runs


def test_two_commands_that_open_a_study_at_once_both_add_to_it(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        with locked(tmp_path / "lock"):
            waiting = pool.submit(open_smoke, tmp_path, ["sort"])
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.3)
            assert not (tmp_path / "study.json").exists()
        waiting.result(timeout=60)
    open_smoke(tmp_path)
    assert read_study(tmp_path).tasks == ("copy", "sort")


def test_other_settings_are_refused_and_nothing_is_touched(tmp_path):
    open_smoke(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    with pytest.raises(SettingError, match=r"model\.memory_size is 8, not 16.*use another --study"):
        open_study(tmp_path, requested_configs("quick"))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == before


def test_a_study_is_resumed_by_its_folder_alone(tmp_path):
    model, training, evaluation = SMOKE.parts
    parts = replace(model, hidden_size=24), training, evaluation
    first = open_smoke(tmp_path, ["sort"], ["compr"], trials=2, parts=parts)
    words = ["sort", "copy"], ["compr", "reg"]
    second = open_smoke(tmp_path, *words, trials=1, iterations=120, parts=parts)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    reopened = {run.config.run_id: run.config for run in reopen_study(tmp_path).runs}
    assert reopened == {run.config.run_id: run.config for run in (*first.runs, *second.runs)}
    assert [config.seed for config in reopened.values()] == [0, 0, 0, 0, 1]
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == before


def test_a_fine_tuned_run_is_remembered_and_not_mixed_with_a_fresh_one(tmp_path):
    (run,) = open_smoke(tmp_path, ["copy"], ["compr"], trials=1).runs
    tuned = replace(run.config, start=Start("0123456789abcdef"))
    write_config(run.folder, tuned, "fused", threads=1)
    assert [run.config for run in reopen_study(tmp_path).runs] == [tuned]
    with pytest.raises(SettingError, match="copy-compr-0 starts from other parameters"):
        open_smoke(tmp_path, ["copy"], ["compr"], trials=2)


def test_what_is_in_the_way_of_a_run_is_named(tmp_path):
    (run,) = open_smoke(tmp_path, ["copy"], ["compr"], trials=1).runs
    (run.folder / "config.json").write_text("{")
    with pytest.raises(RunError, match="copy-compr-0 is in the way"):
        open_smoke(tmp_path, ["copy"], ["compr"], trials=1)


def test_folders_of_something_else_files_and_links_are_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(SettingError, match="it is not a study"):
        open_smoke(tmp_path)
    with pytest.raises(SettingError, match="study"):
        open_smoke(tmp_path / "thesis.tex")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_study_changes_nothing_behind_a_link(tmp_path):
    """A stranger's study may have links to one's own runs."""
    mine, study = tmp_path / "mine", tmp_path / "study"
    (run,) = open_smoke(study, ["copy"], ["compr"], trials=1).runs
    plan_run(mine, run.config)
    (run.folder / "config.json").unlink()
    run.folder.rmdir()
    run.folder.symlink_to(mine)
    assert open_run(run.folder).config == run.config  # it can be read
    with pytest.raises(RunError, match="copy-compr-0 is a link"):
        open_smoke(study, ["copy"], ["compr"], trials=1, iterations=120)
    (study / "runs").rename(tmp_path / "moved")
    (study / "runs").symlink_to(tmp_path / "moved")
    with pytest.raises(RunError, match="runs is a link"):
        open_smoke(study)
    assert list(mine.iterdir()) == [mine / "config.json"]
    assert len(list((tmp_path / "moved").iterdir())) == 1


def test_a_run_may_have_been_trained_longer_than_its_study_knows(tmp_path):
    (run,) = open_smoke(tmp_path, ["copy"], ["compr"], trials=1).runs
    longer = replace(run.config, training=replace(run.config.training, iterations=100))
    replace_config(run.folder, longer)
    assert reopen_study(tmp_path).runs[0].config == longer
