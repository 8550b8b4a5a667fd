"""Things a user brings along: a class in a module or in a file, found by its import path."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from constrained_dnc.errors import BadSetting


def load_class(setting: str, path: str, base: type) -> type[Any]:
    """The class behind `package.module:Class` or `folder/file.py:Class`, a subclass of `base`."""
    accepted = f"package.module:Class or file.py:Class, a subclass of {base.__name__}"
    place, _, name = path.rpartition(":")
    if not place or not name:
        raise BadSetting(setting, path, accepted)
    try:
        module = (
            _load_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        )
    except (ImportError, OSError) as error:
        raise BadSetting(setting, path, f"{accepted} ({error})") from error
    found = getattr(module, name, None)
    if not isinstance(found, type) or not issubclass(found, base):
        raise BadSetting(setting, path, accepted)
    return found


def _load_file(path: Path) -> Any:
    """Import one file as a module, once per process."""
    path = path.resolve()
    name = f"constrained_dnc_plugin_{path.stem}_{abs(hash(path)):x}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]
