"""Classes that a user brings along, found by `package.module:Class` or `path/to/file.py:Class`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from constrained_dnc.errors import BadSetting

ACCEPTED_PATHS = "package.module:Class, or path/to/file.py:Class"


def load_class(setting: str, path: str, base: type) -> type[Any]:
    """The class behind an import path; it must extend `base` and lack nothing."""
    place, _, class_name = path.rpartition(":")
    is_file = place.endswith(".py")
    module = _load_file(setting, path, place) if is_file else _load_module(setting, path, place)
    return check_class(setting, path, getattr(module, class_name, None), base)


def is_import_path(name: str) -> bool:
    """Whether `load_class` could read this at all."""
    place = name.rpartition(":")[0]
    return place.endswith(".py") or all(part.isidentifier() for part in place.split("."))


def check_class(setting: str, value: str, found: object, base: type) -> type[Any]:
    """Refuse what is not a finished subclass of `base`."""
    if not (inspect.isclass(found) and issubclass(found, base)):
        raise BadSetting(setting, value, f"the name of a class that extends {base.__name__}")
    missing = sorted(getattr(found, "__abstractmethods__", ()))
    if missing:
        raise BadSetting(setting, value, f"a class that also defines {', '.join(missing)}")
    return found


def _load_file(setting: str, value: str, place: str) -> ModuleType:
    """Import a file, once per process."""
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        raise BadSetting(setting, value, f"a file that exists, unlike {place}")
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    name = f"user_file_{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while it is executed
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _load_module(setting: str, value: str, place: str) -> ModuleType:
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise  # something the user's module needs is missing: its own message says what
        raise BadSetting(setting, value, f"an installed module, unlike {place}") from None
