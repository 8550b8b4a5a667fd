"""Files that survive kills, full disks and untrusted data: atomic, checksummed, never executed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import safetensors
import safetensors.numpy
from jaxtyping import Shaped

from constrained_dnc.errors import LARGEST_SIZE, RunError, SettingError

try:
    import fcntl
except ImportError:  # not on Windows
    NO_LOCKS: str | None = (
        "training and studies need file locks, which this system does not have: "
        "they run on Linux, macOS and WSL"
    )
else:
    NO_LOCKS = None

Fields: TypeAlias = Mapping[str, Callable[[Any], bool]]  # which values a field can have
Tensors: TypeAlias = Mapping[str, Shaped[np.ndarray, "..."]]

METADATA = "constrained_dnc"
LOCK_ATTEMPTS = 4
"""A reader that looks at the lock holds it for a moment: try again before giving up."""
READING_ERRORS = (OSError, ValueError, TypeError, RecursionError, safetensors.SafetensorError)


def make_folder(folder: Path, setting: str | None = None) -> None:
    """Make a folder and those above it, or refuse the setting that asks for it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        if setting is None:
            raise RunError(f"{folder} cannot be created: {reason_of(error)}") from error
        accepted = f"a folder that can be created ({reason_of(error)})"
        raise SettingError(setting, str(folder), accepted) from error


def write_atomically(path: Path, content: bytes) -> None:
    """Write all of a file or nothing: the old file stays until the new one is on the disk.

    Until then it has a name that no other process uses, and no link is followed. A device or a
    pipe is not replaced.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise OSError(errno.EINVAL, "it is not a regular file")
        with _new_file(path) as file:
            unfinished = Path(file.name)
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                if NO_LOCKS:
                    file.close()  # Windows renames no open file
                os.replace(unfinished, path)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
        sync_folder(path.parent)
    except (OSError, ValueError) as error:  # no system has a file with a NUL in its name
        raise RunError(f"{path} cannot be written: {reason_of(error)}") from error


def _new_file(path: Path) -> BufferedWriter:
    """A locked file that will become `path`; the lock says that its writer lives."""
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, "Is a directory")
    while True:
        unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}.unfinished")
        file = open(unfinished, "xb")  # noqa: SIM115 - closed by the caller
        if NO_LOCKS:
            return file
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # taken for abandoned before it was locked


def remove_unfinished(folder: Path) -> None:
    """Remove what processes that died while writing left behind."""
    if NO_LOCKS:
        return  # nothing says whether they died
    for path in folder.glob(".*.unfinished"):
        with suppress(OSError), open(path, "rb", opener=_open_regular) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk."""
    if os.name == "nt":
        return  # it opens no folders
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_file(path: Path) -> bytes:
    """All of a file; a device or a pipe, which might never end, is refused."""
    try:
        with open(path, "rb", opener=_open_to_read) as file:
            return file.read()
    except OSError as error:
        raise RunError(f"{path} cannot be read: {reason_of(error)}") from error


def _open_to_read(path: str, flags: int) -> int:
    return _require_regular(os.open(path, flags | _WITHOUT_WAITING))


def _open_regular(path: str, flags: int) -> int:
    """For files that are changed in place: not through a symbolic link."""
    flags |= _WITHOUT_WAITING | _NOT_THROUGH_LINKS
    return _require_regular(os.open(path, flags, 0o666))


def _flag(name: str) -> int:
    """A flag of `os.open`, nothing where the system does not know it."""
    return int(getattr(os, name, 0))


_WITHOUT_WAITING = _flag("O_NONBLOCK") | _flag("O_CLOEXEC") | _flag("O_BINARY")
_NOT_THROUGH_LINKS = _flag("O_NOFOLLOW")


def _require_regular(descriptor: int) -> int:
    """A pipe or a device would keep its reader waiting, or never end."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file")


def reason_of(error: Exception) -> str:
    """What the system says, without numbers and names."""
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "it is a symbolic link"
    return (isinstance(error, OSError) and error.strerror) or str(error)


def write_json(path: Path, values: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Write values as JSON for people and programs."""
    write_atomically(path, (json.dumps(values, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The values that `write_json` wrote."""
    values = _read_json(path)
    if not isinstance(values, dict):
        raise RunError(f"{path} cannot be read: it is not a JSON object")
    return values


def read_json_list(path: Path) -> list[Any]:
    """A list in a JSON file."""
    values = _read_json(path)
    if not isinstance(values, list):
        raise RunError(f"{path} cannot be read: it is not a JSON list")
    return values


def require_fields(path: Path, values: Mapping[str, Any], fields: Fields) -> None:
    """Refuse values of a file that lack a field, or have one that does not fit."""
    for name, fits in fields.items():
        if name not in values or not fits(values[name]):
            found = f"{values[name]!r:.60}" if name in values else "missing"
            raise RunError(f"{path} cannot be read: {name} is {found}")


def is_count(value: Any) -> bool:
    """Whether a value of a file counts things."""
    return type(value) is int and 0 <= value <= LARGEST_SIZE


def _read_json(path: Path) -> object:
    try:
        values: object = json.loads(read_file(path), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} cannot be read: {error}") from error
    return values


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a value of JSON")


def checksum_of(values: Mapping[str, Any]) -> str:
    """Of all that a JSON file says, except for the checksum itself."""
    others = {name: value for name, value in values.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()


def write_tensors(path: Path, tensors: Tensors, about: Mapping[str, Any]) -> None:
    """Write arrays and JSON values about them as safetensors, with a checksum over both."""
    values = {"about": about, "checksum": _checksum(tensors, about)}
    # one entry: the library writes several in an order that differs from file to file
    metadata = {METADATA: json.dumps(values, sort_keys=True, allow_nan=False)}
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    write_atomically(path, safetensors.numpy.save(arrays, metadata))


def read_tensors(path: Path) -> tuple[dict[str, Shaped[np.ndarray, "..."]], dict[str, Any]]:
    """What `write_tensors` wrote; anything else is refused, and nothing in it is executed."""
    try:
        with open(path, "rb", opener=_open_to_read):
            pass  # says why it cannot be opened; the library does not
        with safetensors.safe_open(path, "numpy") as file:
            values = json.loads((file.metadata() or {})[METADATA])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            about, checksum = values["about"], values["checksum"]
    except KeyError as error:
        raise RunError(f"{path} cannot be read: {error} is missing") from error
    except READING_ERRORS as error:
        raise RunError(f"{path} cannot be read: {reason_of(error)}") from error
    if not isinstance(about, dict):
        raise RunError(f"{path} cannot be read: what it says about itself is not a JSON object")
    if checksum != _checksum(tensors, about):
        raise RunError(f"{path} is damaged: its checksum does not match")
    return tensors, about


def _checksum(tensors: Tensors, about: Any) -> str:
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a lock while inside; the system releases it when the process dies."""
    if NO_LOCKS:
        raise RunError(NO_LOCKS)
    try:
        file = open_in_place(path)
    except OSError as error:
        raise RunError(f"{path} cannot be locked: {reason_of(error)}") from error
    with file:
        if wait:
            fcntl.flock(file, fcntl.LOCK_EX)
        else:
            _take_lock(file, path)
        with suppress(OSError):  # the text is for people; the disk may be full
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield


def _take_lock(file: FileIO, path: Path) -> None:
    for attempt in range(LOCK_ATTEMPTS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if attempt + 1 == LOCK_ATTEMPTS:
                owner = os.pread(file.fileno(), 300, 0).decode(errors="replace").strip()
                raise RunError(
                    f"{path.parent} is in use by {owner or 'another process'}"
                ) from error
        time.sleep(0.05)


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock."""
    if NO_LOCKS:
        return False
    try:
        with open(path, "rb", opener=_open_regular) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except OSError as error:
        raise RunError(f"{path} cannot be read: {reason_of(error)}") from error
    return False


def open_in_place(path: Path) -> FileIO:
    """A file to append to, made if it is not there; a link or a pipe is refused."""
    return open(path, "ab+", buffering=0, opener=_open_regular)
