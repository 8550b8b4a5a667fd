"""Tasks by name: ours, those of installed packages, and those in a user's own file."""

from __future__ import annotations

from importlib.metadata import entry_points

from constrained_dnc.errors import SettingError, one_of, require_name
from constrained_dnc.plugins import ACCEPTED_PATHS, check_class, is_import_path, load_class
from constrained_dnc.tasks.add import Add
from constrained_dnc.tasks.copy import Copy
from constrained_dnc.tasks.differentiation import Differentiation
from constrained_dnc.tasks.logic import Logic
from constrained_dnc.tasks.search import Search
from constrained_dnc.tasks.shift import Shift
from constrained_dnc.tasks.sort import Sort
from constrained_dnc.tasks.task import AbstractTask

BUILT_IN: dict[str, type[AbstractTask]] = {
    task.name: task for task in (Sort, Copy, Differentiation, Shift, Add, Search, Logic)
}
ENTRY_POINTS = "constrained_dnc.tasks"
NEEDED = ("name", "summary", "input_channels", "output_channels")


def task_names() -> tuple[str, ...]:
    """The names of our tasks, then of those that installed packages offer."""
    installed = {entry.name for entry in entry_points(group=ENTRY_POINTS)}
    return (*BUILT_IN, *sorted(installed - BUILT_IN.keys()))


def get_task(name: str) -> AbstractTask:
    """The task of a name, of "package.module:Class" or of "path/to/file.py:Class".

    >>> get_task("sort").solve((2, 0, 1))
    (0, 1, 2)
    """
    require_task_name(name)
    if name in BUILT_IN:
        return BUILT_IN[name]()
    installed = entry_points(group=ENTRY_POINTS)
    if name in installed.names:
        return _make(name, installed[name].load())
    return _make(name, load_class("task", name, AbstractTask))


def require_task_name(name: str) -> None:
    """Refuse what cannot name a task; a user's own file is not opened for that."""
    is_known = isinstance(name, str) and (name in task_names() or is_import_path(name))
    if not is_known:
        raise SettingError("task", name, f"{one_of(task_names(), name)}, or {ACCEPTED_PATHS}")


def _make(name: str, found: object) -> AbstractTask:
    task = check_class("task", name, found, AbstractTask)
    missing = [attribute for attribute in NEEDED if not hasattr(task, attribute)]
    if missing:
        raise SettingError("task", name, f"a class that also defines {', '.join(missing)}")
    require_name(f"name of the task {name}", task.name)
    if _stands_for_another(task):
        accepted = f"a name of its own, as {task.name} stands for another task"
        raise SettingError(f"name of the task {name}", task.name, accepted)
    return task()


def _stands_for_another(task: type[AbstractTask]) -> bool:
    """Whether the name of a task is that of one of ours or of an installed package's."""
    if task.name in BUILT_IN:
        return task is not BUILT_IN[task.name]
    installed = entry_points(group=ENTRY_POINTS)
    return task.name in installed.names and task is not installed[task.name].load()
