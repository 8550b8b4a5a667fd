"""User-defined classes, named by `package.module:Class` or `path/to/file.py:Class`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from constrained_dnc.errors import RunError, SettingError, did_you_mean, first_line

ACCEPTED_PATHS = "package.module:Class, or path/to/file.py:Class"
COPIES = "code"
"""The folder inside a run that holds the text of its user-defined files."""
_LOADING = threading.RLock()
_OVERRIDDEN: dict[Path, bytes] = {}
_MOVED: dict[Path, Path] = {}


def load_class(setting: str, path: str, base: type) -> type[Any]:
    """The class that an import path names; it must extend `base` and define all it requires."""
    return check_class(setting, path, _load_name(setting, path, "class", inspect.isclass), base)


def load_function(setting: str, path: str) -> Callable[..., Any]:
    """The function that an import path names."""
    function = _load_name(setting, path, "function", inspect.isfunction)
    if not callable(function):
        raise SettingError(setting, path, "the name of a function")
    return function


def _load_name(setting: str, path: str, kind: str, is_kind: Callable[[object], bool]) -> Any:
    """What an import path names; if it is missing, the error lists what its file defines."""
    origin, _, name = path.rpartition(":")
    names = load_names(setting, path, origin)
    if name not in names:
        own = [other for other, value in names.items() if is_kind(value)]
        own = [other for other in own if names[other].__module__ == names["__name__"]]
        hint = f"{did_you_mean(name, own)}; available: {', '.join(own) or 'none'}"
        raise SettingError(f"{setting}: {origin} has no {kind} {name}{hint}")
    return names[name]


def load_names(setting: str, value: str, origin: str) -> dict[str, Any]:
    """The names that a file or a module defines, with their values."""
    with _LOADING:  # one thread at a time, so that none sees a half-executed module
        return vars(_load(setting, value, origin))


def is_import_path(name: str) -> bool:
    """Whether this has the form of an import path, `package.module:Class` or `file.py:Class`."""
    origin = name.rpartition(":")[0]
    return origin.endswith(".py") or all(part.isidentifier() for part in origin.split("."))


def check_class(setting: str, value: str, candidate: object, base: type) -> type[Any]:
    """Refuse what is not a complete subclass of `base`."""
    if not (inspect.isclass(candidate) and issubclass(candidate, base)):
        raise SettingError(setting, value, f"the name of a class that extends {base.__name__}")
    missing = sorted(getattr(candidate, "__abstractmethods__", ()))
    if missing:
        raise SettingError(f"{setting} {value} must also define {', '.join(missing)}")
    return candidate


@contextmanager
def naming_failures(what: str) -> Iterator[None]:
    """Turn an exception of user-defined code into one sentence with its file and line."""
    try:
        yield
    except SettingError:
        raise
    except (Exception, SystemExit) as error:
        raise SettingError(f"{what} failed ({_located(error)})") from error


def _located(error: BaseException) -> str:
    """The file and line in the user's code that raised an error, and its message."""
    if isinstance(error, SyntaxError):
        file, line, message = error.filename, error.lineno, error.msg
    else:
        ours = (str(Path(__file__).parent), "site-packages")
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [frame for frame in frames if not any(part in frame.filename for part in ours)]
        last = (theirs or frames)[-1]
        file, line, message = last.filename, last.lineno, first_line(error)
    return f"{file}, line {line}: {type(error).__name__}: {message}"


def absolute(name: str) -> str:
    """An import path that is valid in any folder: the path of a file is made absolute."""
    origin, _, class_name = name.rpartition(":")
    return f"{_resolved(origin)}:{class_name}" if origin.endswith(".py") else name


def sources(setting: str, names: Iterable[str]) -> dict[str, bytes]:
    """The text of every file among these import paths, by its absolute path."""
    files = {name: _file_of(name) for name in names if name.rpartition(":")[0].endswith(".py")}
    return {str(file): _text(setting, name, file) for name, file in files.items() if file}


def fingerprints(setting: str, names: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of every file and module among these import paths; nothing is executed."""
    digests = {}
    for name in names:
        if file := _file_of(name):
            origin = absolute(name).rpartition(":")[0]
            digests[origin] = hashlib.sha256(_text(setting, name, file)).hexdigest()
    return digests


def copy_name(file: str | Path, digest: str) -> str:
    """The path, within a run, of the copy of a user-defined file with this SHA-256."""
    return f"{COPIES}/{digest[:8]}-{Path(file).name}"


def require_trust(
    stored: Path, names: Iterable[str], then: Mapping[str, str], *, trust_code: bool
) -> list[str]:
    """Refuse user-defined code that a stored run or study names and that is absent or untrusted.

    For a file that is no longer at its path, the copy in the run is used or, without one, a file of
    its name beside the run or study, in it, or in the current folder.

    Args:
        stored: The file that names the code; the folder it is in is the run or study.
        names: The import paths.
        then: The fingerprints that it records.
        trust_code: Whether the user trusts the code, whatever it is.

    Returns:
        The files whose fingerprints differ from those recorded.
    """
    names = list(names)
    for file in [Path(name.rpartition(":")[0]) for name in names]:
        folder = stored.parent.resolve()
        candidates = [where / file.name for where in (folder.parent, folder, Path.cwd())]
        if digest := then.get(str(file)):
            candidates.insert(0, folder / copy_name(file, digest))
        if file.suffix == ".py" and (found := [path for path in candidates if path.is_file()]):
            _MOVED[_resolved(str(file))] = found[0]
    what = f"{stored} names user-defined code that"
    try:
        now = fingerprints("code", names)
    except SettingError as error:
        raise RunError(f"{what} was not found, not even beside it ({error})") from error
    changed = [path for path, digest in now.items() if then.get(path, digest) != digest]
    unknown = [name for name in names if not is_remembered([name])]
    if unknown and not trust_code:
        edited = [name for name in unknown if absolute(name).rpartition(":")[0] in changed]
        why = "has changed since training" if edited else "you have not trained with here"
        raise RunError(
            f"{what} {why}, {' and '.join(edited or unknown)}; if you trust it, use --trust-code "
            "or load_run(..., trust_code=True)"
        )
    return changed


def remember(names: Iterable[str]) -> None:
    """Trust these import paths from now on, unless their code changes: the user is running it."""
    with suppress(OSError, SettingError):  # if it cannot be stored, the user is asked again
        folder = _trusted_folder()
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            if key := _trust_key(name):
                (folder / key).write_text(f"{name}\n")


def is_remembered(names: Iterable[str]) -> bool:
    """Whether all of these import paths lead to code that `remember` has seen, unchanged."""
    with suppress(OSError, SettingError):
        keys = [_trust_key(name) for name in names]
        return all(key is not None and (_trusted_folder() / key).exists() for key in keys)
    return False


def _trusted_folder() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state, "constrained-dnc", "trusted")


def _trust_key(name: str) -> str | None:
    """A hash of the path and the text of a file or a module; None for code without a file."""
    file = _file_of(name)
    if file is None:
        return None
    text = _text("code", name, file)
    return hashlib.sha256(bytes(file.resolve()) + b"\0" + text).hexdigest()


def _file_of(name: str) -> Path | None:
    """The source file of an import path; neither a module nor its parents are imported."""
    origin = name.rpartition(":")[0]
    if origin.endswith(".py"):
        return _resolved(origin)
    spec, names = None, origin.split(".")
    try:
        spec = importlib.util.find_spec(names[0])
        for end in range(2, len(names) + 1):
            within = spec and spec.submodule_search_locations
            spec = PathFinder.find_spec(".".join(names[:end]), within) if within else None
    except (ImportError, ValueError):  # ValueError: a module without a spec, such as __main__
        return None
    return Path(spec.origin) if spec and spec.has_location and spec.origin else None


@contextmanager
def override_sources(texts: Mapping[str, bytes]) -> Iterator[None]:
    """Load these files from the given texts, whether or not they exist here."""
    before = dict(_OVERRIDDEN)
    _OVERRIDDEN.update({Path(path): text for path, text in texts.items()})
    try:
        yield
    finally:
        _OVERRIDDEN.clear()
        _OVERRIDDEN.update(before)


def _present(path: Path) -> Path:
    """Where a file is now, see `require_trust`."""
    return path if path.exists() else _MOVED.get(path, path)


def _text(setting: str, value: str, path: Path) -> bytes:
    try:
        return _OVERRIDDEN[path] if path in _OVERRIDDEN else _present(path).read_bytes()
    except OSError as error:
        why = f"there is no file {path}" if not path.exists() else f"{path}: {error.strerror}"
        raise SettingError(f"{setting} {value} cannot be loaded: {why}") from error


def _resolved(origin: str) -> Path:
    return Path(origin).expanduser().resolve()


def _load(setting: str, value: str, origin: str) -> ModuleType:
    """Import a file or a module; if that fails, one sentence says why and at which line."""
    is_file = origin.endswith(".py")
    try:
        if not is_file:
            return importlib.import_module(origin)
        path = _resolved(origin)
        return _execute(_present(path), _text(setting, value, path))
    except (KeyboardInterrupt, SettingError):
        raise
    except BaseException as error:
        missing = isinstance(error, ModuleNotFoundError) and not is_file and error.name
        if missing and f"{origin}.".startswith(f"{missing}."):
            why = f"there is no module {origin}"
            raise SettingError(f"{setting} {value} cannot be loaded: {why}") from None
        raise SettingError(f"{setting} {value} cannot be imported ({_located(error)})") from error


def _execute(path: Path, text: bytes) -> ModuleType:
    """The module of a file; each version of the file is executed once per process."""
    digest = hashlib.sha256(bytes(path) + b"\0" + text).hexdigest()[:12]
    name = f"user_file_{path.stem}_{digest}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up while it is executed
        try:
            exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]
