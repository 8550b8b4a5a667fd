"""Tables and arrays on disk: whatever is wrong with a file is reported when it is read."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Shaped

from constrained_dnc.errors import RunError, first_line
from constrained_dnc.files import read_file, write_atomically

CHECKSUM = b"constrained_dnc_checksum"
MARK = b"\nsha256 "
"""Between arrays and their checksum; other readers of .npy and .npz files look at neither."""


def write_table(path: Path, table: pa.Table) -> None:
    """Store a table as Parquet, with a checksum over its values."""
    metadata = {CHECKSUM: _checksum(table).encode()}
    buffer = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(metadata), buffer, write_page_checksum=True)
    write_atomically(path, buffer.getvalue().to_pybytes())


def read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """The columns of a schema from a Parquet file; one that the file does not have is empty."""
    content = read_file(path)
    try:
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        table = file.read()
        stored = (table.schema.metadata or {}).get(CHECKSUM)  # absent in files of other writers
        is_whole = stored is None or stored == _checksum(table).encode()
        table = table.select([name for name in schema.names if name in table.column_names])
        table = pa.concat_tables([schema.empty_table(), table], promote_options="permissive")
        table = table.cast(schema)
    except Exception as error:  # of many kinds, as a damaged byte leads anywhere
        raise RunError(f"{path} cannot be read: {first_line(error)}") from error
    if not is_whole:
        raise RunError(f"{path} is damaged: its checksum does not match")
    return table


def _checksum(table: pa.Table) -> str:
    """Of names, types and values, however they are stored."""
    digest = hashlib.sha256()
    for name, column in zip(table.column_names, table.columns, strict=True):
        digest.update(json.dumps([name, str(column.type), column.to_pylist()]).encode())
    return digest.hexdigest()


def write_arrays(path: Path, arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> None:
    """Store arrays by name as .npz, with a checksum after them."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    write_atomically(path, _sealed(buffer.getvalue()))


def read_arrays(path: Path) -> dict[str, Shaped[np.ndarray, "..."]]:
    """All arrays of an .npz file; without a checksum after them, they are taken as they are."""
    content = _unsealed(path)
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except Exception as error:  # of many kinds, as a damaged byte leads anywhere
        raise RunError(f"{path} cannot be read: {first_line(error)}") from error


def write_array(path: Path, array: Shaped[np.ndarray, "..."]) -> None:
    """Store an array as .npy, with a checksum after it."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    write_atomically(path, _sealed(buffer.getvalue()))


def read_array(path: Path) -> Shaped[np.ndarray, "..."]:
    """The array of an .npy file; without a checksum after it, it is taken as it is."""
    content = _unsealed(path)
    try:
        array: Shaped[np.ndarray, "..."] = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception as error:  # of many kinds, as a damaged byte leads anywhere
        raise RunError(f"{path} cannot be read: {first_line(error)}") from error
    return array


def _sealed(content: bytes) -> bytes:
    """With its checksum after it."""
    return content + MARK + hashlib.sha256(content).hexdigest().encode()


def _unsealed(path: Path) -> bytes:
    """The content of a file without its checksum, which must match if there is one."""
    content = read_file(path)
    length = len(content) - len(MARK) - 2 * hashlib.sha256().digest_size
    if length <= 0 or not content[length:].startswith(MARK):
        return content
    if content != _sealed(content[:length]):
        raise RunError(f"{path} is damaged: its checksum does not match")
    return content[:length]
