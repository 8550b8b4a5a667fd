"""Arrow tables on disk, and checks of the fields of JSON files."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Shaped

from constrained_dnc.errors import LARGEST_SIZE, RunError
from constrained_dnc.files import (
    corruption_named,
    read_file,
    write_atomically,
)

Fields: TypeAlias = Mapping[str, Callable[[Any], bool]]  # which values a field can have


def write_table(path: Path, table: pa.Table) -> None:
    """Store a table as Parquet."""
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, write_page_checksum=True)
    write_atomically(path, buffer.getvalue().to_pybytes())


def read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """The columns of a schema from a Parquet file; one that the file does not have is empty."""
    content = read_file(path)
    with corruption_named(path):
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        table = file.read()
        table = table.select([name for name in schema.names if name in table.column_names])
        table = pa.concat_tables([schema.empty_table(), table], promote_options="permissive")
        return table.cast(schema)


def write_array(path: Path, array: Shaped[np.ndarray, "..."]) -> None:
    """Store an array as .npy."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    write_atomically(path, buffer.getvalue())


def read_array(path: Path) -> Shaped[np.ndarray, "..."]:
    """The array of an .npy file."""
    content = io.BytesIO(read_file(path))
    with corruption_named(path):
        array: Shaped[np.ndarray, "..."] = np.load(content, allow_pickle=False)
    return array


def require_fields(path: Path, values: Mapping[str, Any], fields: Fields) -> None:
    """Refuse values of a file that lack a field, or have one that does not fit."""
    for name, fits in fields.items():
        if name not in values or not fits(values[name]):
            value = f"{values[name]!r:.60}" if name in values else "missing"
            raise RunError(f"{path} cannot be read: {name} is {value}")


def is_count(value: Any) -> bool:
    """Whether a value of a file counts things."""
    return type(value) is int and 0 <= value <= LARGEST_SIZE
