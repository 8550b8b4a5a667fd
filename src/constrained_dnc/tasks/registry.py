"""Tasks by name: ours, those of installed packages, and those in a user's own file."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from constrained_dnc.errors import BadSetting, one_of
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


def task_names() -> tuple[str, ...]:
    """The names of our tasks, then of those that installed packages offer."""
    installed = {entry.name for entry in entry_points(group=ENTRY_POINTS)}
    return (*BUILT_IN, *sorted(installed - BUILT_IN.keys()))


def get_task(name: str) -> AbstractTask:
    """The task of a name, of "package.module:Class" or of "path/to/file.py:Class".

    >>> get_task("sort").solve((2, 0, 1))
    (0, 1, 2)
    """
    if name in BUILT_IN:
        return BUILT_IN[name]()
    installed = entry_points(group=ENTRY_POINTS)
    if name in installed.names:
        return _make(name, installed[name].load())
    place, _, class_name = str(name).rpartition(":")
    is_file = place.endswith(".py")
    if not is_file and not all(part.isidentifier() for part in place.split(".")):
        accepted = f"{one_of(task_names())}, or package.module:Class, or path/to/file.py:Class"
        raise BadSetting("task", name, accepted)
    module = _load_file(name, place) if is_file else _load_module(name, place)
    return _make(name, getattr(module, class_name, None))


def _load_file(name: str, place: str) -> ModuleType:
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        raise BadSetting("task", name, f"a file that exists, unlike {place}")
    spec = importlib.util.spec_from_file_location(f"user_task_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up while it is executed
    spec.loader.exec_module(module)
    return module


def _load_module(name: str, place: str) -> ModuleType:
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise  # something the user's module needs is missing: its own message says what
        raise BadSetting("task", name, f"an installed module, unlike {place}") from None


def _make(name: str, found: object) -> AbstractTask:
    if not (inspect.isclass(found) and issubclass(found, AbstractTask)):
        raise BadSetting("task", name, "the name of a class that extends AbstractTask")
    missing = sorted(found.__abstractmethods__)
    needed = ("name", "summary", "input_channels", "output_channels")
    missing += [attribute for attribute in needed if not hasattr(found, attribute)]
    if missing:
        raise BadSetting("task", name, f"a class that also defines {', '.join(missing)}")
    return found()
