"""Plans on disk."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from constrained_dnc.config import RULES, SMOKE
from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.evaluation.results import results_frame
from constrained_dnc.files import locked
from constrained_dnc.parts import APPROACHES
from constrained_dnc.report import published
from constrained_dnc.study import read_study, write_results
from constrained_dnc.study.layout import analysis_file, results_file, write_failure
from constrained_dnc.sweep.plan import Plan, open_study, plan_study, reopen_study
from smoke_studies import open_smoke
from synthetic import row


def mark_done(plan: Plan, config) -> None:
    (plan.folder / "analysis").mkdir(exist_ok=True)
    np.savez(plan.folder / "analysis" / f"{config.run_id}.npz", selection=np.array("unseen"))
    iterations = config.training.iterations
    origin = {"run_id": config.run_id, "iterations": iterations}
    origin["batch_size"] = config.evaluation.batch_size
    rows = [
        row(config.task, config.approach.name, config.seed, planned.length, 1.0)
        | origin
        | {"selection": rule, "memory": str(planned.memory), "batches": planned.batches}
        for rule, planned in plan.rows_of(config)
    ]
    write_results(plan.folder, config.run_id, iterations, results_frame(rows))


def test_the_papers_study_has_350_runs_and_covers_everything_before_it_repeats(tmp_path):
    configs = plan_study(tmp_path, "paper").configs
    assert len({config.run_id for config in configs}) == len(configs) == 350
    first = {(config.task, config.approach.name) for config in configs[:35]}
    assert first == {(task, name) for task in published.TASKS for name in published.APPROACHES}
    assert [config.seed for config in configs] == sorted(config.seed for config in configs)
    assert {config.training.iterations for config in configs} == {300_000}
    chosen = plan_study(tmp_path, "quick", ["sort", "sort"], ["all"], trials=2).configs
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
def test_what_cannot_be_run_is_refused(wrong, setting, tmp_path):
    with pytest.raises(SettingError, match=f"^{setting} "):
        plan_study(tmp_path, **{"preset": "smoke", **wrong})


def test_a_study_says_what_was_requested(tmp_path):
    plan = open_smoke(tmp_path / "study", command=["study", "--study", "my study"])
    study = read_study(tmp_path / "study")
    assert study.tasks == ("copy",)
    assert study.approaches == ("stateful-baseline", "compr+reg")
    assert study.memories == ("8", "80", "growing")
    assert study.settings["training.window"] == plan.configs[0].training.window
    assert list(study.request["runs"]) == [config.run_id for config in plan.configs]
    assert study.request["command"] == "cdnc study --study 'my study'"
    assert study.request["versions"]["jax"]


def test_a_run_is_done_with_results_and_analysis(tmp_path):
    plan = open_smoke(tmp_path)
    first, second = plan.configs
    assert plan.to_do() == [first, second]
    mark_done(plan, second)
    assert open_smoke(tmp_path).to_do() == [first]
    analysis_file(tmp_path, second.run_id).unlink()
    assert plan.to_do() == [first, second]
    assert open_smoke(tmp_path, analyses=False).to_do() == [first]


@pytest.mark.parametrize(
    ("column", "value"), [("selection", "score"), ("memory", "growing"), ("length", 2)]
)
def test_results_that_lack_a_rule_a_memory_or_a_length_are_completed(tmp_path, column, value):
    plan = open_smoke(tmp_path)
    first, _ = plan.configs
    mark_done(plan, first)
    path = results_file(tmp_path, first.run_id, first.training.iterations)
    table = pd.read_parquet(path)
    table[table[column] != value].to_parquet(path)
    assert not plan.is_done(first)


def test_a_quick_look_evaluates_one_rule_and_a_later_request_the_others(tmp_path):
    quick = open_smoke(tmp_path, rules=["score"], analyses=False)
    for config in quick.configs:
        mark_done(quick, config)
    assert quick.to_do() == []
    assert reopen_study(tmp_path).to_do() == []
    assert open_smoke(tmp_path).to_do() == list(quick.configs)


@pytest.mark.parametrize(
    ("change", "is_done"),
    [
        ({"lengths": "2..7"}, False),
        ({"lengths": "3,5"}, True),
        ({"extension_lengths": "500"}, False),
        ({"batches": 9}, False),
        ({"batch_size": 5}, False),
    ],
)
def test_another_evaluation_is_of_the_runs_that_are_there(tmp_path, change, is_done):
    plan = open_smoke(tmp_path)
    for config in plan.configs:
        mark_done(plan, config)
    assert plan.to_do() == []
    model, training, evaluation = SMOKE.parts
    parts = model, training, replace(evaluation, **change)
    changed = open_smoke(tmp_path, parts=parts)
    assert [config.run_id for config in changed.configs] == [c.run_id for c in plan.configs]
    assert changed.to_do() == ([] if is_done else list(changed.configs))
    assert reopen_study(tmp_path).configs == changed.configs


def test_failed_runs_are_named_and_tried_again(tmp_path):
    plan = open_smoke(tmp_path)
    first, second = plan.configs
    write_failure(tmp_path, first.run_id, "Traceback\n  ...\nTrouble: no data today\n")
    write_failure(tmp_path, "another", "of a run that is not the study's")
    assert plan.to_do() == [first, second]
    origin = {"run_id": first.run_id, "task": "copy", "approach": "stateful-baseline", "seed": 0}
    assert read_study(tmp_path).failures == (origin | {"reason": "Trouble: no data today"},)


def test_a_larger_request_keeps_what_is_done(tmp_path):
    plan = open_smoke(tmp_path)
    created = read_study(tmp_path).request["created"]
    mark_done(plan, plan.configs[0])
    larger = open_smoke(tmp_path, ["copy", "sort"], trials=2)
    assert len(larger.configs) == 8
    assert plan.configs[0] not in larger.to_do()
    assert len(larger.to_do()) == 7
    assert read_study(tmp_path).request["created"] == created


def test_a_longer_request_has_its_runs_to_do_again_and_a_shorter_one_not(tmp_path):
    plan = open_smoke(tmp_path)
    for config in plan.configs:
        mark_done(plan, config)
    longer = open_smoke(tmp_path, iterations=120)
    assert [config.run_id for config in longer.to_do()] == [c.run_id for c in plan.configs]
    mark_done(longer, longer.configs[0])
    assert longer.to_do() == [longer.configs[1]]
    shorter = open_smoke(tmp_path, iterations=90)
    assert shorter.to_do() == [shorter.configs[1]]
    assert open_smoke(tmp_path).to_do() == []


def test_a_study_remembers_all_requests(tmp_path):
    open_smoke(tmp_path, ["sort"], ["compr"], trials=3)
    open_smoke(tmp_path, ["copy", "add"], ["compr"], iterations=80)
    open_smoke(tmp_path, ["sort"], ["compr"], trials=3)
    study = read_study(tmp_path)
    assert study.requested == {
        ("copy", "compr"): (1, 80),
        ("add", "compr"): (1, 80),
        ("sort", "compr"): (3, 60),
    }
    assert len(study.request["runs"]) == 5
    assert "copy, compr: 0 of 1 trials have results." in study.missing()


def test_longer_training_is_missing_only_where_it_was_requested(tmp_path):
    for trials, iterations in ((2, 60), (1, 120)):
        plan = open_smoke(tmp_path, approaches=["compr"], trials=trials, iterations=iterations)
        for config in plan.configs:
            mark_done(plan, config)
    assert read_study(tmp_path).missing() == []
    open_smoke(tmp_path, approaches=["compr"], trials=2, iterations=180)
    assert [text for text in read_study(tmp_path).missing() if "measured after" in text] == [
        "copy, compr, trial 0: measured after 120 of 180 iterations.",
        "copy, compr, trial 1: measured after 60 of 180 iterations.",
    ]


def test_two_sweeps_that_open_a_study_at_once_both_add_to_it(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        with locked(tmp_path / "lock"):
            waiting = pool.submit(open_smoke, tmp_path, ["sort"])
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.3)
            assert not (tmp_path / "study.json").exists()
        waiting.result(timeout=60)
    open_smoke(tmp_path)
    assert read_study(tmp_path).tasks == ("sort", "copy")


def test_other_settings_are_refused_and_nothing_is_touched(tmp_path):
    open_smoke(tmp_path)
    before = (tmp_path / "study.json").read_bytes()
    with pytest.raises(SettingError, match=r"model\.memory_size differs .*use another --study"):
        open_study(plan_study(tmp_path, "quick"))
    assert (tmp_path / "study.json").read_bytes() == before


@pytest.mark.parametrize("place", ["results", "analysis"])
def test_corrupt_files_are_renamed_and_made_again(tmp_path, caplog, place):
    plan = open_smoke(tmp_path)
    first, second = plan.configs
    mark_done(plan, first)
    (path,) = (tmp_path / place).iterdir()
    path.write_bytes(path.read_bytes()[:20] + b"{")
    assert open_smoke(tmp_path).to_do() == [first, second]
    assert not path.exists()
    assert path.with_name(f"{path.name}.corrupt").exists()
    assert f"{path} " in caplog.text


def test_a_folder_of_something_else_and_a_file_are_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(SettingError, match="it is not a study"):
        open_smoke(tmp_path)
    with pytest.raises(SettingError, match="study"):
        open_smoke(tmp_path / "thesis.tex")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_study_is_resumed_by_its_folder_alone(tmp_path):
    model, training, evaluation = SMOKE.parts
    parts = replace(model, hidden_size=24), training, evaluation
    first = open_smoke(tmp_path, ["sort"], ["compr"], trials=2, parts=parts)
    names = ["sort", "copy"], ["compr", "reg"]
    second = open_smoke(tmp_path, *names, trials=1, iterations=120, parts=parts)
    before = (tmp_path / "study.json").read_bytes()
    reopened = {config.run_id: config for config in reopen_study(tmp_path).configs}
    assert reopened == {config.run_id: config for config in (*first.configs, *second.configs)}
    assert [config.seed for config in reopened.values()] == [0, 0, 0, 0, 1]
    assert (tmp_path / "study.json").read_bytes() == before


def test_a_quick_look_at_a_full_study_does_not_narrow_it(tmp_path):
    open_smoke(tmp_path)
    assert open_smoke(tmp_path, rules=["score"], analyses=False).rules == ("score",)
    resumed = reopen_study(tmp_path)
    assert (resumed.rules, resumed.analyses) == (RULES, True)


def test_a_corrupt_study_json_costs_one_sentence(tmp_path):
    open_smoke(tmp_path)
    path = tmp_path / "study.json"
    path.write_text(path.read_text().replace('"settings"', '"setings"'))
    with pytest.raises(RunError, match=r"study\.json cannot be read: 'settings' is missing"):
        reopen_study(tmp_path)
