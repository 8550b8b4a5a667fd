"""Reading and writing files: whole or not at all, with errors in one sentence."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import filelock
import numpy as np
import safetensors
import safetensors.numpy
from jaxtyping import Shaped

from constrained_dnc.errors import RunError, SettingError, first_line

if TYPE_CHECKING:
    import pandas as pd

Tensors: TypeAlias = Mapping[str, Shaped[np.ndarray, "..."]]

METADATA = "constrained_dnc"
SECONDS_TO_LOCK = 0.2
"""How long to wait for a lock: `is_locked` in another process may hold it for a moment."""


@contextmanager
def failure_named(path: Path, what: str) -> Iterator[None]:
    """Turn an OSError into a RunError: the path cannot be read, written, ..."""
    try:
        yield
    except OSError as error:
        raise RunError(f"{path} cannot be {what}: {reason_of(error)}") from error


def make_folder(folder: Path, setting: str | None = None) -> None:
    """Make a folder and its parents; `setting` is the setting that names it, for the error."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        if setting is None:
            raise RunError(f"{folder} cannot be created: {reason_of(error)}") from error
        accepted = f"a folder that can be created ({reason_of(error)})"
        raise SettingError(setting, str(folder), accepted) from error


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file in one step: the old one stays until the new one is on disk."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}.unfinished")
    with failure_named(path, "written"):
        try:
            with open(unfinished, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        if os.name != "nt":  # Windows opens no folders
            descriptor = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)  # the new name, too, is then on disk
            finally:
                os.close(descriptor)


def require_writable(folder: Path) -> None:
    """Refuse a folder in which no file can be made, such as one on a read-only disk."""
    with failure_named(folder, "written"), tempfile.TemporaryFile(dir=folder):
        pass


def refuse_link(path: Path) -> None:
    """Refuse to write through a link: what a folder does not hold itself is not changed."""
    if path.is_symlink():
        raise RunError(f"{path} is a link, and nothing is written through links; replace it")


def remove_unfinished(folder: Path, names: Iterable[str]) -> None:
    """Remove the unfinished files with these names that a killed process left.

    The caller holds the lock under which they are written: no other process is writing them.
    """
    for name in names:
        for path in folder.glob(f".{name}.*.unfinished"):
            path.unlink(missing_ok=True)


def read_file(path: Path) -> bytes:
    """The bytes of a file."""
    with failure_named(path, "read"):
        return path.read_bytes()


def reason_of(error: Exception) -> str:
    """Why an operation failed, without error number and file name."""
    return (isinstance(error, OSError) and error.strerror) or first_line(error)


def write_json(path: Path, values: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Write values as indented JSON."""
    write_atomically(path, (json.dumps(values, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    with corruption_named(path):
        values = json.loads(read_file(path))
        if not isinstance(values, dict):
            raise RunError(f"{path} cannot be read: it is not a JSON object")
        return values


@contextmanager
def corruption_named(path: Path) -> Iterator[None]:
    """Turn any error in parsing a file into a RunError that names the file."""
    try:
        yield
    except RunError:
        raise
    except KeyError as error:
        raise RunError(f"{path} cannot be read: {error} is missing") from error
    except Exception as error:  # a corrupt file can raise anything
        raise RunError(f"{path} cannot be read: {reason_of(error)}") from error


def write_tensors(path: Path, tensors: Tensors, metadata: Mapping[str, Any]) -> None:
    """Write arrays and JSON metadata as safetensors, with a checksum over both."""
    values = {"metadata": metadata, "checksum": checksum(tensors, metadata)}
    # one entry: the library writes several in an order that differs from file to file
    entry = {METADATA: json.dumps(values, sort_keys=True, allow_nan=False)}
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    write_atomically(path, safetensors.numpy.save(arrays, entry))


def read_tensors(path: Path) -> tuple[dict[str, Shaped[np.ndarray, "..."]], dict[str, Any]]:
    """The arrays and the metadata that `write_tensors` wrote; nothing in a file is executed."""
    content = read_file(path)
    with corruption_named(path):
        tensors = safetensors.numpy.load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        values = json.loads(header["__metadata__"][METADATA])
        metadata: dict[str, Any] = dict(values["metadata"])
        is_intact = values["checksum"] == checksum(tensors, metadata)
    if not is_intact:
        raise RunError(f"{path} is corrupt: its checksum does not match")
    return tensors, metadata


def checksum(tensors: Tensors, metadata: Any) -> str:
    """A digest of arrays and JSON metadata."""
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def write_table(path: Path, frame: pd.DataFrame) -> None:
    """Store a table as Parquet."""
    content = io.BytesIO()
    frame.to_parquet(content, index=False, write_page_checksum=True)
    write_atomically(path, content.getvalue())


def read_table(path: Path) -> pd.DataFrame:
    """The table in a Parquet file."""
    import pandas as pd  # noqa: PLC0415 - slow to import

    content = io.BytesIO(read_file(path))
    with corruption_named(path):
        return pd.read_parquet(content, page_checksum_verification=True)


def write_arrays(path: Path, arrays: Tensors) -> None:
    """Store arrays by name as .npz."""
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    write_atomically(path, content.getvalue())


def read_arrays(path: Path) -> dict[str, Shaped[np.ndarray, "..."]]:
    """The arrays of an .npz file by name."""
    content = io.BytesIO(read_file(path))
    with corruption_named(path), np.load(content, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[Callable[[], bool]]:
    """Hold a lock inside the `with` block; the system releases it if the process dies.

    Yields a function that tells whether `path` is still the locked file: its folder may have been
    moved, and another one made in its place.
    """
    refuse_link(path)
    lock = filelock.FileLock(path, timeout=-1 if wait else SECONDS_TO_LOCK)
    with failure_named(path, "locked"):
        try:
            lock.acquire()
        except filelock.Timeout as error:
            owner = path.read_text(errors="replace").strip() or "another process"
            raise RunError(f"{path.parent} is in use by {owner}") from error
        held = path.stat()

    def is_in_place() -> bool:
        return path.exists() and os.path.samestat(held, path.stat())

    try:
        with suppress(OSError):  # the text only informs people; the disk may be full
            path.write_text(f"process {os.getpid()} on {socket.gethostname()}\n")
        yield is_in_place
    finally:
        lock.release()


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock."""
    if not path.exists() or path.is_symlink():  # locks are never links
        return False
    try:
        with filelock.FileLock(path, timeout=0):
            return False
    except filelock.Timeout:
        return True
    except OSError as error:  # nobody trains on a read-only disk; others cannot be tried
        return error.errno != errno.EROFS
