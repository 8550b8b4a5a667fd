"""Files that survive a kill, a full disk and a stranger: atomic, checksummed, never executed."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import jax
import numpy as np
import safetensors
import safetensors.numpy
from jaxtyping import Shaped

from constrained_dnc.errors import RunProblem

Tensors: TypeAlias = Mapping[str, Shaped[np.ndarray, "..."]]

METADATA = "constrained_dnc"
LOCK_ATTEMPTS = 4
"""A reader that looks at the lock holds it for a moment: try again before giving up."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write all of a file or nothing: the old file stays until the new one is on the disk."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with open(unfinished, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        sync_folder(path.parent)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise RunProblem(f"{path} cannot be written: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write values as JSON for people and programs."""
    write_atomically(path, (json.dumps(values, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The values that `write_json` wrote."""
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise RunProblem(f"{path} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise RunProblem(f"{path} cannot be read: it is not a JSON object")
    return values


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
        with safetensors.safe_open(path, "numpy") as file:
            values = json.loads((file.metadata() or {})[METADATA])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            about, checksum = values["about"], values["checksum"]
    except KeyError as error:
        raise RunProblem(f"{path} cannot be read: {error} is missing") from error
    except (OSError, ValueError, TypeError, safetensors.SafetensorError) as error:
        raise RunProblem(f"{path} cannot be read: {error}") from error
    if checksum != _checksum(tensors, about):
        raise RunProblem(f"{path} is damaged: its checksum does not fit")
    return tensors, about


def _checksum(tensors: Tensors, about: Any) -> str:
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def name_leaves(tree: Any, prefix: str) -> dict[str, Shaped[np.ndarray, "..."]]:
    """The arrays of a tree by the path to each."""
    return {name: np.asarray(leaf) for name, leaf in _named_leaves(tree, prefix)}


def fill_leaves(like: Any, tensors: Tensors, prefix: str) -> Any:
    """A tree of the kind of `like` with the arrays that `name_leaves` named."""
    leaves = []
    for name, leaf in _named_leaves(like, prefix):
        found = tensors.get(name)
        if found is None or (found.shape, found.dtype) != (leaf.shape, leaf.dtype):
            what = "missing" if found is None else f"{found.dtype} of shape {found.shape}"
            raise RunProblem(f"{name} is {what}; needed: {leaf.dtype} of shape {leaf.shape}")
        leaves.append(jax.numpy.asarray(found))
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _named_leaves(tree: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for path, leaf in jax.tree.leaves_with_path(tree):
        yield f"{prefix}/{jax.tree_util.keystr(path, simple=True, separator='.')}", leaf


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock while inside; the system lets go of it when the process dies."""
    with open(path, "a+") as file:
        for attempt in range(LOCK_ATTEMPTS):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if attempt + 1 == LOCK_ATTEMPTS:
                    file.seek(0)
                    owner = file.read().strip() or "another process"
                    raise RunProblem(f"{path.parent} is in use by {owner}") from error
            time.sleep(0.05)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock."""
    try:
        with open(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
