"""Classes that a user brings along, found by `package.module:Class` or `path/to/file.py:Class`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from constrained_dnc.errors import SettingError, first_line

ACCEPTED_PATHS = "package.module:Class, or path/to/file.py:Class"
_LOADING = threading.RLock()


def load_class(setting: str, path: str, base: type) -> type[Any]:
    """The class that an import path names; it must extend `base` and lack nothing."""
    place, _, class_name = path.rpartition(":")
    return check_class(setting, path, load_names(setting, path, place).get(class_name), base)


def load_names(setting: str, value: str, place: str) -> dict[str, Any]:
    """All that a file or a module defines."""
    is_file = place.endswith(".py")
    return vars((_load_file if is_file else _load_module)(setting, value, place))


def is_import_path(name: str) -> bool:
    """Whether `load_class` could read this at all."""
    place = name.rpartition(":")[0]
    return place.endswith(".py") or all(part.isidentifier() for part in place.split("."))


def check_class(setting: str, value: str, found: object, base: type) -> type[Any]:
    """Refuse what is not a finished subclass of `base`."""
    if not (inspect.isclass(found) and issubclass(found, base)):
        raise SettingError(setting, value, f"the name of a class that extends {base.__name__}")
    missing = sorted(getattr(found, "__abstractmethods__", ()))
    if missing:
        raise SettingError(setting, value, f"a class that also defines {', '.join(missing)}")
    return found


def absolute(name: str) -> str:
    """An import path that means the same everywhere: a file's is made absolute."""
    place, _, class_name = name.rpartition(":")
    return f"{_resolved(place)}:{class_name}" if place.endswith(".py") else name


def sources(setting: str, names: Iterable[str]) -> dict[str, bytes]:
    """The text of every file among these import paths, by its absolute path."""
    places = {name: name.rpartition(":")[0] for name in names}
    files = {name: place for name, place in places.items() if place.endswith(".py")}
    return {str(_resolved(place)): _source(setting, name, place) for name, place in files.items()}


def fingerprints(setting: str, names: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of every file and module among these import paths; modules are imported."""
    names = list(names)
    texts = sources(setting, names)
    for name in names:
        place = name.rpartition(":")[0]
        if place and not place.endswith(".py"):
            file = inspect.getsourcefile(_load_module(setting, name, place))
            texts |= {place: Path(file).read_bytes()} if file else {}
    return {path: hashlib.sha256(text).hexdigest() for path, text in texts.items()}


def carry(texts: Mapping[str, bytes]) -> None:
    """Use these texts of files from now on, whether this machine has the files or not."""
    _CARRIED.update({Path(path): text for path, text in texts.items()})


@contextmanager
def carried(texts: Mapping[str, bytes]) -> Iterator[None]:
    """The same while inside."""
    before = dict(_CARRIED)
    carry(texts)
    try:
        yield
    finally:
        _CARRIED.clear()
        _CARRIED.update(before)


_CARRIED: dict[Path, bytes] = {}


def _source(setting: str, value: str, place: str) -> bytes:
    path = _resolved(place)
    if path in _CARRIED:
        return _CARRIED[path]
    if not path.is_file():
        raise SettingError(setting, value, f"a file that exists, unlike {place}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingError(setting, value, f"a readable file ({error.strerror})") from error


def _resolved(place: str) -> Path:
    try:
        return Path(place).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:  # no such user, links in a circle, NUL
        raise SettingError("file", place, f"the path of a file ({first_line(error)})") from error


def _load_file(setting: str, value: str, place: str) -> ModuleType:
    """Import a file; every text of it once per process, in one thread at a time."""
    with _LOADING:
        return _load_text(setting, value, place)


def _load_text(setting: str, value: str, place: str) -> ModuleType:
    path, text = _resolved(place), _source(setting, value, place)
    digest = hashlib.sha256(bytes(path) + b"\0" + text).hexdigest()[:12]
    name = f"user_file_{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while it is executed
    try:
        exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise _failing(setting, value, place, error) from error
    return module


def _load_module(setting: str, value: str, place: str) -> ModuleType:
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise _failing(setting, value, place, error) from error
        raise SettingError(setting, value, f"an installed module, unlike {place}") from None
    except (Exception, SystemExit) as error:
        raise _failing(setting, value, place, error) from error


def _failing(setting: str, value: str, place: str, error: BaseException) -> SettingError:
    """The sentence for code of a user's that fails while it is imported, with the line."""
    if isinstance(error, SyntaxError):
        file, line, says = error.filename, error.lineno, error.msg
    else:
        last = traceback.extract_tb(error.__traceback__)[-1]
        file, line, says = last.filename, last.lineno, first_line(error)
    why = f"{file or place}, line {line or 1}: {type(error).__name__}: {says}"
    return SettingError(setting, value, f"code that can be imported ({why})")
