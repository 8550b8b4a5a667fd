"""Tasks by name: built-in ones, those of installed packages, and user-defined files."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Any

from constrained_dnc.errors import SettingError, one_of, require_name
from constrained_dnc.plugins import ACCEPTED_PATHS, check_class, is_import_path, load_class
from constrained_dnc.tasks import chomsky, nam
from constrained_dnc.tasks.add import Add
from constrained_dnc.tasks.logic import Logic
from constrained_dnc.tasks.numeral import Copy, Differentiation, Shift, Sort
from constrained_dnc.tasks.search import Search
from constrained_dnc.tasks.task import AbstractTask, check_loss

PAPER: tuple[type[AbstractTask], ...] = (Sort, Copy, Differentiation, Shift, Add, Search, Logic)
BUILT_IN: dict[str, type[AbstractTask]] = {
    task.name: task for task in (*PAPER, *chomsky.TASKS, *nam.TASKS)
}
ENTRY_POINTS = "constrained_dnc.tasks"


@cache
def installed_tasks() -> EntryPoints:
    """The tasks that installed packages offer; every distribution is scanned for them, once."""
    return entry_points(group=ENTRY_POINTS)


def task_names() -> tuple[str, ...]:
    """The names of the built-in tasks, then of those that installed packages offer."""
    return (*BUILT_IN, *sorted(installed_tasks().names - BUILT_IN.keys()))


def get_task(name: str) -> AbstractTask:
    """A task by its name.

    Args:
        name: One of `task_names()`, "package.module:Class" or "path/to/file.py:Class".

    >>> get_task("sort").solve((2, 0, 1))
    (0, 1, 2)
    """
    require_task_name(name)
    if name in BUILT_IN:
        return _instance(BUILT_IN[name])
    if name in installed_tasks().names:
        return _make(name, installed_tasks()[name].load())
    return _make(name, load_class("task", name, AbstractTask))


def require_task_name(name: str) -> None:
    """Refuse what cannot name a task; the file of a user-defined one is not opened."""
    is_known = isinstance(name, str) and (name in task_names() or is_import_path(name))
    if not is_known:
        raise SettingError("task", name, f"{one_of(task_names(), name)}, or {ACCEPTED_PATHS}")


def _make(path: str, loaded: object) -> AbstractTask:
    task: Any = check_class("task", path, loaded, AbstractTask)
    missing = [attribute for attribute in ("name", "summary") if not hasattr(task, attribute)]
    if missing:
        raise SettingError(f"task {path} must also define {', '.join(missing)}")
    require_name(f"name of the task {path}", task.name)
    owner: object = BUILT_IN.get(task.name)
    if owner is None and task.name in installed_tasks().names:
        owner = installed_tasks()[task.name].load()
    if owner not in (None, task):
        raise SettingError(f"the task {path} needs another name: {task.name} is taken")
    check_loss(task)
    return _instance(task)


@cache
def _instance(task: Callable[[], AbstractTask]) -> AbstractTask:
    """One instance of a task, so that what is compiled or computed for it is found again."""
    return task()
