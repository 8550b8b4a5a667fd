"""Tasks by name, from inside and outside the package."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from constrained_dnc.errors import SettingError
from constrained_dnc.tasks import AbstractNumeralTask, get_task, registry, task_names

OUR_TASKS = ("sort", "copy", "differentiation", "shift", "add", "search", "logic")
USER_TASK = """
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from constrained_dnc.tasks import AbstractNumeralTask


@dataclass
class Setting:
    step: int = 1


class Next(AbstractNumeralTask):
    name = "next"
    summary = "the next numeral each, 0 after 4"

    def rule(self, numerals):
        return (numerals + Setting().step) % 5


class Unfinished(AbstractNumeralTask):
    name = "unfinished"


class Silent(AbstractNumeralTask):
    name = "silent"

    def rule(self, numerals):
        return numerals


class NoTask:
    pass
"""


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    path = tmp_path / "my_tasks.py"
    path.write_text(USER_TASK)
    return path


def test_names() -> None:
    assert task_names()[:7] == OUR_TASKS
    for name in OUR_TASKS:
        assert get_task(name).name == name


def test_task_in_a_file(user_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(user_file.parent)
    assert get_task("my_tasks.py:Next").name == "next"
    task = get_task(f"{user_file}:Next")
    assert isinstance(task, AbstractNumeralTask)
    assert task.solve((0, 3, 4)) == (1, 4, 0)


def test_task_in_a_module(user_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(user_file.parent))
    assert get_task("my_tasks:Next").solve((4,)) == (0,)
    monkeypatch.delitem(sys.modules, "my_tasks")


def test_task_of_an_installed_package(user_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(user_file.parent))
    offered = EntryPoints(
        [
            EntryPoint("next", "my_tasks:Next", registry.ENTRY_POINTS),
            EntryPoint("sort", "my_tasks:Next", registry.ENTRY_POINTS),
        ]
    )
    monkeypatch.setattr(registry, "installed_tasks", lambda: offered)
    assert task_names() == (*registry.BUILT_IN, "next")
    assert get_task("next").solve((4, 1)) == (0, 2)
    assert get_task("sort").solve((4, 1)) == (1, 4)
    monkeypatch.delitem(sys.modules, "my_tasks")


@pytest.mark.parametrize("name", ["srot", "", "./my_tasks:Next"])
def test_unknown_names(name: str) -> None:
    with pytest.raises(SettingError) as caught:
        get_task(name)
    hint = " (did you mean sort?)" if name == "srot" else ""
    assert str(caught.value) == (
        f"task must be one of {', '.join(sorted(task_names()))}{hint}, "
        f"or package.module:Class, or path/to/file.py:Class, not {name!r}"
    )


@pytest.mark.parametrize(
    ("class_name", "sentence"),
    [
        ("NoTsk", r"has no class NoTsk \(did you mean NoTask\?\); available: .*NoTask"),
        ("NoTask", "must be the name of a class that extends AbstractTask"),
        ("Unfinished", "must also define rule"),
        ("Silent", "must also define summary"),
    ],
)
def test_classes_that_are_no_tasks(user_file: Path, class_name: str, sentence: str) -> None:
    with pytest.raises(SettingError, match=f"^task:? .*{sentence}"):
        get_task(f"{user_file}:{class_name}")


@pytest.mark.parametrize("name", ["", "a b", "../up", "ä" * 41])
def test_a_name_must_fit_into_files_and_pages(tmp_path: Path, name: object) -> None:
    text = USER_TASK.replace('name = "next"', f"name = {name!r}")
    (tmp_path / "odd.py").write_text(text)
    with pytest.raises(SettingError, match=r"name of the task .*must be a word of letters"):
        get_task(f"{tmp_path}/odd.py:Next")


def test_a_name_stands_for_one_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables and pictures know a task by its name alone."""
    for name in ("sort", "next"):
        (tmp_path / f"my_{name}.py").write_text(USER_TASK.replace('"next"', repr(name)))
    monkeypatch.syspath_prepend(str(tmp_path))
    offered = EntryPoints([EntryPoint("next", "my_next:Next", registry.ENTRY_POINTS)])
    own = f"{tmp_path}/my_next.py:Next"
    assert get_task(own).name == "next"
    monkeypatch.setattr(registry, "installed_tasks", lambda: offered)
    for name in ("next", "my_next:Next", "constrained_dnc.tasks.numeral:Sort"):
        assert get_task(name).name in ("next", "sort")  # another way to the same class
    for path in (f"{tmp_path}/my_sort.py:Next", "my_sort:Next", own):
        with pytest.raises(SettingError, match=r"needs another name: (sort|next) is taken"):
            get_task(path)
    for name in ("my_sort", "my_next"):
        monkeypatch.delitem(sys.modules, name)


def test_files_and_modules_that_are_missing() -> None:
    with pytest.raises(SettingError, match=r"cannot be loaded: there is no file .*nowhere\.py"):
        get_task("nowhere.py:Next")
    for place in ("nowhere", "nowhere.at_all", "constrained_dnc.nowhere"):
        with pytest.raises(SettingError, match=f"there is no module {place}"):
            get_task(f"{place}:Next")


FAILING = {
    "import not_installed_anywhere\n": "line 1: ModuleNotFoundError: No module named",
    "\n\nclass T(:\n": "line 3: SyntaxError: invalid syntax",
    "import sys\nsys.exit()\n": "line 2: SystemExit",
    "def f():\n    return nowhere\n\n\nf()\n": "line 2: NameError: name 'nowhere'",
}


@pytest.mark.parametrize(("text", "sentence"), FAILING.items(), ids=range(len(FAILING)))
def test_code_that_fails_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, sentence: str
) -> None:
    (tmp_path / "failing.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("failing:Next", f"{tmp_path}/failing.py:Next"):
        with pytest.raises(SettingError, match=f"cannot be imported .*{sentence}"):
            get_task(name)
    assert not any("failing" in module for module in sys.modules)
