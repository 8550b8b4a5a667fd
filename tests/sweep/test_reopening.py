"""A study resumed by its folder alone: all that was asked of it, and no code of its own."""

import json
from dataclasses import replace

import pytest

from constrained_dnc.config import make_config
from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.sweep.plan import make_request, open_study, reopen_study

SMOKE = make_request("smoke")


def test_a_study_is_resumed_by_its_folder_alone(tmp_path):
    wide = make_config("sort", "compr", preset="smoke")
    parts = replace(wide.model, hidden_size=24), wide.training, wide.evaluation
    first = make_request("smoke", ["sort"], ["compr"], trials=2, parts=parts)
    second = make_request("smoke", ["sort", "copy"], ["compr", "reg"], 1, 120, parts)
    for request in (first, second):
        open_study(tmp_path, request)
    before = (tmp_path / "study.json").read_bytes()
    found = {config.run_id: config for config in reopen_study(tmp_path).configs}
    longest = {config.run_id: config for config in (*first.configs(), *second.configs())}
    assert found == longest
    assert [config.seed for config in found.values()] == [0, 0, 0, 0, 1]
    assert (tmp_path / "study.json").read_bytes() == before


def test_code_of_your_own_is_not_imported_by_a_folders_name(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from constrained_dnc.tasks.copy import Copy\n\n\nclass Mine(Copy):\n    name = 'mine'\n"
    )
    open_study(tmp_path / "study", make_request("smoke", [f"{tmp_path}/mine.py:Mine"]))
    with pytest.raises(SettingError, match="accepted: one without code of your own"):
        reopen_study(tmp_path / "study")


@pytest.mark.parametrize("part", ["tasks", "approaches"])
def test_code_that_only_a_request_names_is_not_imported_either(tmp_path, part):
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    open_study(tmp_path / "study", SMOKE)
    path = tmp_path / "study" / "study.json"
    stored = json.loads(path.read_text())
    stored["requests"][0][part] = [f"{tmp_path}/evil.py" + ":T" * (part == "tasks")]
    path.write_text(json.dumps(stored))
    with pytest.raises(SettingError, match="accepted: one without code of your own"):
        reopen_study(tmp_path / "study")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"preset": ["paper"]}, r"preset is \['paper'\]"),
        ({"preset": "papr"}, "preset is 'papr'; accepted: "),
        ({"settings": {"training.window": None}}, "config is "),
    ],
)
def test_what_study_json_says_is_not_put_down_to_the_user(tmp_path, change, said):
    open_study(tmp_path, SMOKE)
    path = tmp_path / "study.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(RunError, match=f"study.json cannot be read: {said}"):
        reopen_study(tmp_path)


def test_a_study_that_does_not_say_what_was_asked_for_is_not_resumed(tmp_path):
    open_study(tmp_path, SMOKE)
    path = tmp_path / "study.json"
    stored = json.loads(path.read_text())
    del stored["settings"]
    path.write_text(json.dumps(stored))
    with pytest.raises(SettingError, match="says what was asked for"):
        reopen_study(tmp_path)
