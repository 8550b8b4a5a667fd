"""Plans on disk."""

import errno
import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from constrained_dnc import published
from constrained_dnc.approaches import APPROACHES
from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.files import locked
from constrained_dnc.study import disk, query, read_study, write_results
from constrained_dnc.study.disk import analysis_file, results_name, write_analysis
from constrained_dnc.sweep import plan as plan_module
from constrained_dnc.sweep.plan import EVALUATED, Plan, make_request, open_study
from synthetic import row

SMOKE = make_request("smoke")


def mark_done(plan: Plan, config) -> None:
    (plan.folder / "analysis").mkdir(exist_ok=True)
    np.savez(plan.folder / "analysis" / f"{config.run_id}.npz")
    task, approach, seed = config.task, config.approach.name, config.seed
    about = {"run_id": config.run_id, "iterations": config.training.iterations}
    rows = [
        row(task, approach, seed, length, 1.0, **about, memory=memory, selection=rule)
        for rule, memories in EVALUATED.items()
        for memory in memories
        for length in (2, 3)
    ]
    name = results_name(config.run_id, config.training.iterations)
    write_results(plan.folder, name, rows)


def test_the_papers_study_has_350_runs_and_covers_everything_before_it_repeats():
    configs = make_request("paper").configs()
    assert len({config.run_id for config in configs}) == len(configs) == 350
    first = {(config.task, config.approach.name) for config in configs[:35]}
    assert first == {(task, name) for task in published.TASKS for name in published.APPROACHES}
    assert [config.seed for config in configs] == sorted(config.seed for config in configs)
    assert {config.training.iterations for config in configs} == {300_000}


def test_a_request_overrides_the_budget():
    request = make_request("quick", ["sort", "sort"], ["all"], trials=2, iterations=70)
    assert request.tasks == ("sort",)
    assert request.approaches == tuple(APPROACHES)
    configs = request.configs()
    assert len(configs) == 2 * len(APPROACHES)
    assert {config.training.iterations for config in configs} == {70}


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
    with pytest.raises(SettingError, match=f"^{setting} is .*; accepted: "):
        make_request(**{"preset": "smoke", **wrong})


def test_two_tasks_of_one_name_are_refused(tmp_path):
    text = "from constrained_dnc.tasks.copy import Copy\n\nclass Mine(Copy):\n    name = 'mine'\n"
    paths = [tmp_path / name for name in ("one.py", "two.py")]
    for path in paths:
        path.write_text(text)
    with pytest.raises(SettingError, match="tasks with different names"):
        make_request("smoke", [f"{path}:Mine" for path in paths])


def test_a_study_says_what_was_asked_for(tmp_path):
    open_study(tmp_path / "study", SMOKE, ["reproduce", "--study", "my study"])
    study = read_study(tmp_path / "study")
    assert study.tasks == ("copy",)
    assert study.approaches == ("stateful-baseline", "compr+reg")
    assert (study.memory_size, study.extended_memory_size) == (8, 80)
    assert study.request["command"] == "cdnc reproduce --study 'my study'"
    assert study.request["versions"]["jax"]


def test_a_run_is_done_with_results_and_analysis(tmp_path):
    plan = open_study(tmp_path, SMOKE)
    first, second = plan.configs
    assert plan.to_do() == [first, second]
    mark_done(plan, second)
    assert open_study(tmp_path, SMOKE).to_do() == [first]
    (tmp_path / "analysis" / f"{second.run_id}.npz").unlink()
    assert plan.to_do() == [first, second]


@pytest.mark.parametrize(
    "lacks", [("selection", "score"), ("selection", "seen"), ("memory", "growing")]
)
def test_results_that_lack_a_rule_or_a_memory_are_to_be_completed(tmp_path, lacks):
    plan = open_study(tmp_path, SMOKE)
    first, _ = plan.configs
    mark_done(plan, first)
    path = tmp_path / "results" / f"{results_name(first.run_id, first.training.iterations)}.parquet"
    table = pq.read_table(path)
    pq.write_table(table.filter(pc.not_equal(table[lacks[0]], lacks[1])), path)  # as in the past
    assert not plan.is_done(first)
    path.write_bytes(b"PAR1")
    assert not plan.is_done(first)
    pq.write_table(table, path)
    assert plan.is_done(first)


def test_a_run_is_given_up_after_three_attempts_and_tried_again_without_them(tmp_path):
    plan = open_study(tmp_path, SMOKE)
    first, second = plan.configs
    for count in (1, 2):
        assert len(plan.add_attempt(first, f"reason {count}")) == count
        assert plan.to_do() == [first, second]
        assert read_study(tmp_path).failures == ()
    plan.add_attempt(first, "reason 3", "Traceback\nreason 3")
    assert plan.to_do() == [second]
    assert plan.attempts(first) == ["reason 1", "reason 2", "reason 3"]
    failure = {
        "run_id": first.run_id,
        "task": "copy",
        "approach": "stateful-baseline",
        "seed": 0,
        "reason": "reason 3",
        "attempts": 3,
    }
    assert read_study(tmp_path).failures == (failure,)
    stored = json.loads((tmp_path / "attempts" / f"{first.run_id}.json").read_text())
    assert stored["last_traceback"] == ["Traceback", "reason 3"]
    (tmp_path / "attempts" / f"{first.run_id}.json").unlink()
    assert plan.to_do() == [first, second]
    assert plan.write_failures() == []


def test_attempts_at_a_run_that_ended_well_do_not_count_when_it_becomes_longer(tmp_path):
    plan = open_study(tmp_path, SMOKE)
    for _ in range(2):
        plan.add_attempt(plan.configs[0], "no memory")
    mark_done(plan, plan.configs[0])
    longer = open_study(tmp_path, make_request("smoke", iterations=120))
    assert longer.attempts(longer.configs[0]) == []
    assert longer.add_attempt(longer.configs[0], "no disk") == ["no disk"]
    assert longer.configs[0] in longer.to_do()
    analysis_file(tmp_path, plan.configs[0].run_id).unlink()  # what is not analysed has not ended
    assert len(longer.add_attempt(longer.configs[0], "no disk")) == 2


def test_a_later_and_smaller_request_does_not_hide_failures(tmp_path):
    plan = open_study(tmp_path, SMOKE)
    for _ in range(3):
        plan.add_attempt(plan.configs[1], "no memory")
    smaller = open_study(tmp_path, make_request("smoke", approaches=["stateful-baseline"]))
    assert [failure["approach"] for failure in smaller.write_failures()] == ["compr+reg"]


def test_a_larger_request_keeps_what_is_done(tmp_path):
    plan = open_study(tmp_path, SMOKE)
    created = read_study(tmp_path).request["created"]
    mark_done(plan, plan.configs[0])
    larger = open_study(tmp_path, make_request("smoke", ["copy", "sort"], trials=2))
    assert len(larger.configs) == 8
    assert plan.configs[0] not in larger.to_do()
    assert len(larger.to_do()) == 7
    assert read_study(tmp_path).request["created"] == created


def test_a_longer_request_has_its_runs_to_do_again_and_a_shorter_one_not(tmp_path):
    plan = open_study(tmp_path, SMOKE)
    for config in plan.configs:
        mark_done(plan, config)
    longer = open_study(tmp_path, make_request("smoke", iterations=120))
    assert [config.run_id for config in longer.to_do()] == [c.run_id for c in plan.configs]
    mark_done(longer, longer.configs[0])
    assert longer.to_do() == [longer.configs[1]]
    shorter = open_study(tmp_path, make_request("smoke", iterations=90))
    assert shorter.to_do() == [shorter.configs[1]]
    assert open_study(tmp_path, SMOKE).to_do() == []
    assert read_study(tmp_path).request["iterations"] == 120


def test_a_study_remembers_all_requests(tmp_path):
    open_study(tmp_path, make_request("smoke", ["sort"], ["compr"], trials=3))
    open_study(tmp_path, make_request("smoke", ["copy", "add"], ["compr"], iterations=80))
    open_study(tmp_path, make_request("smoke", ["sort"], ["compr"], trials=3))
    study = read_study(tmp_path)
    assert study.asked == {
        ("copy", "compr"): (1, 80),
        ("add", "compr"): (1, 80),
        ("sort", "compr"): (3, 60),
    }
    assert (study.tasks, study.approaches) == (("copy", "add", "sort"), ("compr",))
    assert "copy, compr: 0 of 1 trials have results." in study.missing()


def test_a_study_killed_while_it_was_first_written_is_resumed(tmp_path):
    for name in ("lock", ".study.json.1a2b3c4d.unfinished"):
        (tmp_path / name).touch()
    open_study(tmp_path, SMOKE)
    assert not list(tmp_path.glob(".*"))


def test_a_file_that_the_system_does_not_give_is_not_called_damaged(tmp_path, monkeypatch):
    open_study(tmp_path, SMOKE)
    path = tmp_path / "failures.json"
    path.write_text("[]")

    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    with pytest.raises(RunError, match="cannot be read: Permission denied"):
        disk.quarantine_corrupt_files(tmp_path)
    assert path.exists()


def test_two_sweeps_that_open_a_study_at_once_both_add_to_it(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        with locked(tmp_path / "lock"):
            waiting = pool.submit(open_study, tmp_path, make_request("smoke", ["sort"]))
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.3)
            assert not (tmp_path / "study.json").exists()
        waiting.result(timeout=60)
    open_study(tmp_path, SMOKE)
    assert read_study(tmp_path).tasks == ("sort", "copy")


def test_longer_training_is_missing_only_where_it_was_asked_for(tmp_path):
    longer = make_request("smoke", approaches=["compr"], iterations=120)
    for request in (make_request("smoke", approaches=["compr"], trials=2), longer):
        plan = open_study(tmp_path, request)
        for config in plan.configs:
            mark_done(plan, config)
    assert read_study(tmp_path).missing() == []
    open_study(tmp_path, make_request("smoke", approaches=["compr"], trials=2, iterations=180))
    assert [told for told in read_study(tmp_path).missing() if "measured after" in told] == [
        "copy, compr, trial 0: measured after 120 of 180 iterations.",
        "copy, compr, trial 1: measured after 60 of 180 iterations.",
    ]


def test_another_preset_is_refused_and_nothing_is_touched(tmp_path):
    open_study(tmp_path, SMOKE)
    before = (tmp_path / "study.json").read_bytes()
    with pytest.raises(
        SettingError, match="preset is 'quick'; accepted: 'smoke', as in the study "
    ):
        open_study(tmp_path, make_request("quick"))
    assert (tmp_path / "study.json").read_bytes() == before


def test_a_preset_that_changed_since_is_refused(tmp_path, monkeypatch):
    open_study(tmp_path, SMOKE)
    default = SMOKE.configs()
    changed = [replace(c, evaluation=replace(c.evaluation, batches=9)) for c in default]
    monkeypatch.setattr(plan_module.Request, "configs", lambda self: changed)
    with pytest.raises(SettingError, match=r"^evaluation.batches is 9; accepted: 2, as in"):
        open_study(tmp_path, SMOKE)


@pytest.mark.parametrize("place", ["results", "analysis", "attempts", "failures.json"])
def test_damaged_files_are_set_aside_and_made_again(tmp_path, caplog, place):
    plan = open_study(tmp_path, SMOKE)
    first, second = plan.configs
    mark_done(plan, first)
    plan.add_attempt(second, "no reason")
    (path,) = (tmp_path / place).glob("*") if "." not in place else [tmp_path / place]
    path.write_bytes(path.read_bytes()[:20] + b"{")
    again = open_study(tmp_path, SMOKE)
    assert again.to_do() == ([first, second] if place in ("results", "analysis") else [second])
    assert again.attempts(second) == ([] if place == "attempts" else ["no reason"])
    assert not path.exists()
    assert path.with_name(f"{path.name}.damaged").exists()
    assert f"{path} cannot be read" in caplog.text
    assert read_study(tmp_path).failures == ()


def results_file(plan, config):
    name = results_name(config.run_id, config.training.iterations)
    return plan.folder / "results" / f"{name}.parquet"


def test_results_and_analyses_of_another_run_are_set_aside_and_made_again(tmp_path, caplog):
    plan = open_study(tmp_path, SMOKE)
    first, second = plan.configs
    mark_done(plan, first)
    write_analysis(tmp_path, first.run_id, {"curvature": np.array(1.0)})
    copies = {
        results_file(plan, first): results_file(plan, second),
        analysis_file(tmp_path, first.run_id): analysis_file(tmp_path, second.run_id),
    }
    for path, copy in copies.items():
        shutil.copy(path, copy)
    assert plan.to_do() == [second]
    study = read_study(tmp_path)
    assert study.analysis(second.run_id, "curvature") == {}
    assert any(f"is of another run: {first.run_id}" in sentence for sentence in study.missing())
    assert list(study.analysis(first.run_id, "curvature", "run_id")) == ["curvature"]
    again = open_study(tmp_path, SMOKE)
    for copy in copies.values():
        assert f"{copy} is of another run: {first.run_id}; it is now called" in caplog.text
        assert not copy.exists()
    assert again.to_do() == [second]


def test_results_of_a_shorter_training_are_set_aside(tmp_path, caplog):
    plan = open_study(tmp_path, SMOKE)
    (first, _) = plan.configs
    mark_done(plan, first)
    results_file(plan, first).rename(tmp_path / "results" / f"{first.run_id}-61.parquet")
    assert first in open_study(tmp_path, SMOKE).to_do()
    assert "61.parquet is of a shorter training: 60 iterations" in caplog.text


@pytest.mark.parametrize("run_id", ["**", "/etc/x", "0123456789abcdef"])
def test_attempts_at_another_run_are_set_aside(tmp_path, caplog, run_id):
    plan = open_study(tmp_path, SMOKE)
    plan.add_attempt(plan.configs[0], "no reason")
    (path,) = (tmp_path / "attempts").iterdir()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"run_id": run_id}))
    with pytest.raises(RunError, match=r"json cannot be read: run_id is "):
        plan.write_failures()
    assert open_study(tmp_path, SMOKE).write_failures() == []
    assert f"{path} cannot be read: run_id is {run_id!r}; it is now called" in caplog.text


def test_a_request_that_does_not_say_how_long_is_resumed(tmp_path):
    open_study(tmp_path, SMOKE)
    path = tmp_path / "study.json"
    stored = json.loads(path.read_text())
    del stored["requests"][0]["iterations"]
    path.write_text(json.dumps(stored))
    open_study(tmp_path, SMOKE)
    assert read_study(tmp_path).request["iterations"] == 60
    assert set(read_study(tmp_path).asked.values()) == {(1, 60)}


def test_failures_of_another_kind_are_set_aside(tmp_path):
    open_study(tmp_path, SMOKE)
    (tmp_path / "failures.json").write_text("[1]")
    open_study(tmp_path, SMOKE)
    assert (tmp_path / "failures.json.damaged").read_text() == "[1]"
    assert read_study(tmp_path).failures == ()


@pytest.mark.parametrize("place", ["", "results", "analysis", "analysis/embeddings", "attempts"])
def test_half_written_files_are_removed(tmp_path, place):
    open_study(tmp_path, SMOKE)
    (tmp_path / place).mkdir(exist_ok=True, parents=True)
    half_written = tmp_path / place / ".x.npy.12345678.unfinished"
    half_written.write_bytes(b"")
    open_study(tmp_path, SMOKE)
    assert not half_written.exists()


@pytest.mark.parametrize(
    ("name", "value"), [("reasons", "x"), ("seed", None), ("iterations", "9"), ("task", [])]
)
def test_strange_attempts_get_one_sentence(tmp_path, name, value):
    plan = open_study(tmp_path, SMOKE)
    plan.add_attempt(plan.configs[0], "no reason")
    (path,) = (tmp_path / "attempts").iterdir()
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    for ask in (plan.to_do, plan.write_failures):
        with pytest.raises(RunError, match=f"json cannot be read: {name} is "):
            ask()


def test_a_folder_of_something_else_and_a_file_are_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(SettingError, match="a new or empty folder"):
        open_study(tmp_path, SMOKE)
    with pytest.raises(SettingError, match="a folder that can be created"):
        open_study(tmp_path / "thesis.tex", SMOKE)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_350_runs_are_planned_and_collected_in_seconds(tmp_path):
    plan = open_study(tmp_path, make_request("paper"))
    for config in plan.configs:
        mark_done(plan, config)
    plan.add_attempt(plan.configs[0], "once")
    start = time.process_time()
    plan = open_study(Path(tmp_path), make_request("paper"))
    assert plan.to_do() == []
    assert plan.write_failures() == []
    count = query(tmp_path, "SELECT count(DISTINCT run_id) AS runs FROM results").to_pydict()
    assert count == {"runs": [350]}
    assert time.process_time() - start < 10  # of processor time: about 1 s
