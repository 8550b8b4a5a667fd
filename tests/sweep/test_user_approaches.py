"""User-defined approaches and tasks in a study."""

from dataclasses import replace

import pytest

from constrained_dnc.config import SMOKE
from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.files import read_json, write_json
from constrained_dnc.parts import APPROACHES, Approach, parse_part
from constrained_dnc.study import read_study
from constrained_dnc.sweep.approach_names import find_approaches
from constrained_dnc.sweep.plan import plan_study, reopen_study
from smoke_studies import open_smoke

APPROACHES_FILE = """
from constrained_dnc.approaches import Approach, Part

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
        plan_study(folder, "smoke", approaches=["taken.py:reg"])


def test_a_study_keeps_what_its_user_approaches_and_settings_are(folder):
    model, training, evaluation = SMOKE.parts
    parts = replace(model, hidden_size=9), replace(training, learning_rate=0.5), evaluation
    words = ["mine.py:gentle", "gru.py:Gru", "reg"]
    plan = open_smoke(folder / "study", approaches=words, parts=parts)
    assert [config.approach.name for config in plan.configs] == ["gentle", "Gru", "reg"]
    assert {config.model.hidden_size for config in plan.configs} == {9}
    assert {config.training.learning_rate for config in plan.configs} == {0.5}
    assert {config.training.iterations for config in plan.configs} == {training.iterations}
    assert read_study(folder / "study").approaches == ("gentle", "Gru", "reg")
    stored = read_json(folder / "study" / "study.json")
    assert stored["settings"]["model"]["hidden_size"] == 9
    assert stored["user_approaches"].keys() == {"gentle", "Gru"}
    (part,) = stored["user_approaches"]["gentle"]["constraints"]
    assert part["settings"]["task_weight"] == 0.99
    assert stored["sources"].keys() == {f"{folder}/gru.py"}


def test_what_a_study_began_with_may_be_added_to_but_not_changed(folder):
    study = folder / "study"
    open_smoke(study, approaches=["mine.py:gentle"])
    open_smoke(study, approaches=["gru.py:Gru"])
    assert read_json(study / "study.json")["user_approaches"].keys() == {"gentle", "Gru"}
    (folder / "gru.py").write_text(GRU + "# edited")
    with pytest.raises(SettingError, match=r"gru\.py changed since runs of"):
        open_smoke(study, approaches=["gru.py:Gru"])
    (folder / "mine.py").write_text(APPROACHES_FILE.replace("0.99", "0.5"))
    with pytest.raises(SettingError, match=r"gentle differs from the study"):
        open_smoke(study, approaches=["mine.py:gentle"])
    model, training, evaluation = SMOKE.parts
    parts = replace(model, hidden_size=9), training, evaluation
    with pytest.raises(SettingError, match=r"model\.hidden_size differs .*\(16, not 9\)"):
        open_smoke(study, parts=parts)


def test_one_task_of_a_name_in_a_study(folder):
    for name in ("one", "two"):
        text = "from constrained_dnc.tasks.numeral import Copy\nclass T(Copy):\n    name = 'echo'\n"
        (folder / f"{name}.py").write_text(text)
    for _ in range(2):
        open_smoke(folder / "study", ["copy", "one.py:T"])
    user_tasks = {"echo": f"{folder}/one.py:T"}
    assert read_json(folder / "study" / "study.json")["user_tasks"] == user_tasks
    with pytest.raises(SettingError, match=r"echo differs .*one\.py:T', not '.*two\.py:T'"):
        open_smoke(folder / "study", ["two.py:T"])
    with pytest.raises(SettingError, match="two tasks have the same name"):
        plan_study(folder, "smoke", ["one.py:T", "two.py:T"])


def test_a_study_with_user_code_is_resumed_by_its_folder_if_it_is_trusted(folder):
    text = "from constrained_dnc.tasks.numeral import Copy\nclass T(Copy):\n    name = 'echo'\n"
    (folder / "one.py").write_text(text)
    words = ["mine.py:gentle", "gru.py:Gru", "reg"]
    plan = open_smoke(folder / "study", ["one.py:T"], words)
    with pytest.raises(RunError, match=r"user-defined code .*gru\.py:Gru and .*one\.py:T;"):
        reopen_study(folder / "study")
    assert reopen_study(folder / "study", trust_code=True).configs == plan.configs


@pytest.mark.parametrize("part", ["tasks", "approaches"])
def test_code_that_only_study_json_names_is_not_imported(folder, part):
    (folder / "evil.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n")
    open_smoke(folder / "study")
    path = folder / "study" / "study.json"
    stored = read_json(path)
    stored["requests"][0][part] = [f"{folder}/evil.py" + ":T" * (part == "tasks")]
    write_json(path, stored)
    with pytest.raises(RunError, match=r"names user-defined code|cannot be read"):
        reopen_study(folder / "study")
    assert not (folder / "ran").exists()
