"""User-defined approaches and tasks in a study."""

from dataclasses import replace

import pytest

from constrained_dnc.config import SMOKE, as_dict
from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.files import read_json, write_json
from constrained_dnc.parts import APPROACHES, Approach, parse_part
from constrained_dnc.study import read_study
from constrained_dnc.study.approaches import find_approaches
from constrained_dnc.study.plan import reopen_study, requested_configs
from smoke_studies import open_smoke

APPROACHES_FILE = """
from constrained_dnc.parts import Approach, Part

gentle = Approach("gentle", "peephole", (Part("regularisation", (("task_weight", 0.99),)),))
more = [Approach("k1", "lstm", (Part("regularisation", (("num_pairs", 1),)),)), gentle]
"""
GRU = """
from constrained_dnc import AbstractController


class Gru(AbstractController):
    hidden_size: int = 1

    def initial_state(self): ...
    def __call__(self, inputs, state): ...
    def cell_state(self, state): ...
"""
GENTLE = Approach("gentle", "peephole", (parse_part("regularisation,task_weight=0.99"),))
K1 = Approach("k1", "lstm", (parse_part("regularisation,num_pairs=1"),))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(APPROACHES_FILE)
    (tmp_path / "gru.py").write_text(GRU)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_words_stand_for_approaches(folder):
    gru = Approach("Gru", controller=f"{folder}/gru.py:Gru")
    for words, approaches in {
        ("reg",): (APPROACHES["reg"],),
        ("all",): tuple(APPROACHES.values()),
        ("mine.py",): (GENTLE, K1),
        ("mine.py:gentle", "reg", "mine.py"): (GENTLE, APPROACHES["reg"], K1),
        ("gru.py:Gru",): (gru,),
        (f"{folder}/gru.py:Gru", "./gru.py:Gru"): (gru,),
    }.items():
        assert find_approaches(words) == approaches


@pytest.mark.parametrize(
    "word", ["magic", "gru.py", "gru.py:Lstm", "mine.py:Approach", "nowhere.py", "x.y:z", "", ":"]
)
def test_words_that_stand_for_none_are_refused(word):
    with pytest.raises(
        SettingError, match=r"^approach(es)? must be |defines no approach|cannot be loaded"
    ):
        find_approaches([word])


def test_a_name_that_a_file_lacks_is_answered_with_those_it_has():
    with pytest.raises(SettingError, match=r"gentel \(did you mean gentle\?\); available"):
        find_approaches(["mine.py:gentel"])


def test_two_approaches_of_one_name_are_refused(folder):
    (folder / "other.py").write_text(APPROACHES_FILE.replace("0.99", "0.5"))
    with pytest.raises(SettingError, match="two different approaches are called gentle"):
        find_approaches(["mine.py", "other.py"])
    (folder / "taken.py").write_text(APPROACHES_FILE.replace("gentle", "reg"))
    with pytest.raises(SettingError, match="reg is the name of a built-in approach"):
        requested_configs("smoke", approaches=["taken.py:reg"])


def test_a_study_keeps_what_its_user_approaches_and_settings_are(folder):
    model, training, evaluation = SMOKE.parts
    parts = replace(model, hidden_size=9), replace(training, learning_rate=0.5), evaluation
    words = ["mine.py:gentle", "gru.py:Gru", "reg"]
    plan = open_smoke(folder / "study", approaches=words, parts=parts)
    assert [run.config.approach.name for run in plan.runs] == ["gentle", "Gru", "reg"]
    assert plan.runs[0].config.approach == GENTLE
    assert {run.config.model.hidden_size for run in plan.runs} == {9}
    assert {run.config.training.learning_rate for run in plan.runs} == {0.5}
    assert read_study(folder / "study").approaches == ("Gru", "gentle", "reg")


def test_what_a_study_began_with_may_be_added_to_but_not_changed(folder):
    study = folder / "study"
    open_smoke(study, approaches=["mine.py:gentle"])
    open_smoke(study, approaches=["gru.py:Gru"])
    (folder / "gru.py").write_text(GRU + "# edited")
    with pytest.raises(SettingError, match=r"gru\.py changed since runs of"):
        open_smoke(study, approaches=["gru.py:Gru"])
    (folder / "mine.py").write_text(APPROACHES_FILE.replace("0.99", "0.5"))
    with pytest.raises(SettingError, match=r"has another approach called gentle; use another"):
        open_smoke(study, approaches=["mine.py:gentle"])
    model, training, evaluation = SMOKE.parts
    parts = replace(model, hidden_size=9), training, evaluation
    with pytest.raises(SettingError, match=r"model\.hidden_size is 16, not 9"):
        open_smoke(study, parts=parts)


def test_one_task_of_a_name_in_a_study(folder):
    for name in ("one", "two"):
        text = "from constrained_dnc.tasks.numeral import Copy\nclass T(Copy):\n    name = 'echo'\n"
        (folder / f"{name}.py").write_text(text + f"    number = {name!r}\n")
    for _ in range(2):
        open_smoke(folder / "study", ["copy", "one.py:T"])
    assert read_study(folder / "study").tasks == ("copy", "echo")
    with pytest.raises(SettingError, match=r"has another task called echo; use another"):
        open_smoke(folder / "study", ["two.py:T"])
    with pytest.raises(SettingError, match="two tasks have the same name"):
        requested_configs("smoke", ["one.py:T", "two.py:T"])


def test_a_study_with_user_code_is_resumed_by_its_folder_if_it_is_trusted(folder, monkeypatch):
    text = "from constrained_dnc.tasks.numeral import Copy\nclass T(Copy):\n    name = 'echo'\n"
    (folder / "one.py").write_text(text)
    words = ["mine.py:gentle", "gru.py:Gru", "reg"]
    plan = open_smoke(folder / "study", ["one.py:T"], words)
    reopen_study(folder / "study")  # it was planned here
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "another account"))
    with pytest.raises(RunError, match=r"user-defined code .*one\.py:T"):
        reopen_study(folder / "study")
    trusted = reopen_study(folder / "study", trust_code=True)
    assert {run.config for run in trusted.runs} == {run.config for run in plan.runs}


@pytest.mark.parametrize("part", ["task", "controller"])
def test_code_that_only_a_config_names_is_not_imported(folder, part):
    (folder / "evil.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n")
    run = open_smoke(folder / "study", ["copy"], ["compr"]).runs[0]
    evil = f"{folder}/evil.py:T"
    approach = replace(run.config.approach, name="evil", controller=evil)
    change = {"task": evil} if part == "task" else {"approach": approach}
    config = replace(run.config, **change)
    stored = read_json(run.folder / "config.json")
    write_json(
        run.folder / "config.json", stored | {"config": as_dict(config), "run_id": config.run_id}
    )
    read_study(folder / "study").missing()
    with pytest.raises(RunError, match="names user-defined code"):
        reopen_study(folder / "study")
    assert not (folder / "ran").exists()
