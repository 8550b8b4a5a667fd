"""Tables and arrays on disk: back as they were, or one sentence."""

from contextlib import suppress
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from constrained_dnc.study.disk import SCHEMA

from constrained_dnc.errors import RunError
from constrained_dnc.storage import (
    read_array,
    read_arrays,
    read_table,
    write_array,
    write_arrays,
    write_table,
)
from synthetic import row

ROWS = [row("sort", "reg", 0, length, 1 / length) for length in range(2, 30)]
TABLE = pa.Table.from_pylist(ROWS, SCHEMA)


def damages(content, number, seed):
    """Flipped bits, lost ends, lost and repeated middles."""
    chance = np.random.default_rng(seed)
    for _ in range(number):
        place, kind = int(chance.integers(len(content))), chance.integers(6)
        if kind < 3:
            flipped = content[place] ^ (1 << int(chance.integers(8)))
            yield content[:place] + bytes([flipped]) + content[place + 1 :]
        else:
            yield [
                content[:place],
                content[:place] + content[place + 9 :],
                content[:place] * 2 + content[place:],
            ][kind - 3]


def test_every_damage_to_a_table_is_noticed_or_changes_nothing(tmp_path):
    path = tmp_path / "t.parquet"
    write_table(path, TABLE)
    assert read_table(path, SCHEMA) == TABLE
    assert pq.read_table(path).to_pylist() == TABLE.to_pylist()
    noticed = 0
    for damaged in damages(path.read_bytes(), 600, seed=1):
        path.write_bytes(damaged)
        try:
            assert read_table(path, SCHEMA) == TABLE
        except RunError as error:
            noticed += 1
            if str(path) not in str(error) or len(str(error).splitlines()) != 1:
                pytest.fail(str(error))
    assert noticed > 300


def test_a_changed_value_with_good_pages_is_noticed(tmp_path):
    """As if a table had been put together from two."""
    path = tmp_path / "t.parquet"
    write_table(path, TABLE)
    metadata = pq.read_table(path).schema.metadata
    other = TABLE.set_column(SCHEMA.names.index("score"), "score", pa.array([1.0] * len(ROWS)))
    pq.write_table(other.replace_schema_metadata(metadata), path)
    with pytest.raises(RunError, match=r"t\.parquet is damaged: its checksum does not match"):
        read_table(path, SCHEMA)


def test_a_table_without_a_checksum_or_a_column_is_read(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(TABLE.drop_columns(["recall", "memory"]), path)
    found = read_table(path, SCHEMA)
    assert found.schema == SCHEMA
    assert found["score"] == TABLE["score"]
    assert found["memory"].null_count == len(ROWS)


def read_one(path):
    return {"a": read_array(path)}


def test_every_damage_to_arrays_is_noticed_or_changes_nothing(tmp_path):
    states = np.arange(600, dtype=np.float32).reshape(30, 20)
    for path, write, read in (
        (tmp_path / "a.npz", write_arrays, read_arrays),
        (tmp_path / "a.npy", lambda path, arrays: write_array(path, arrays["a"]), read_one),
    ):
        write(path, {"a": states, "b": states[0]})
        names = set(read(path))
        noticed = 0
        for damaged in damages(path.read_bytes(), 400, seed=2):
            path.write_bytes(damaged)
            try:
                found = read(path)
                assert set(found) == names
                np.testing.assert_array_equal(found["a"], states)
            except RunError as error:
                noticed += 1
                if str(path) not in str(error) or len(str(error).splitlines()) != 1:
                    pytest.fail(str(error))
        assert noticed > 300


def test_an_array_without_a_checksum_is_read_and_one_with_it_by_others(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    np.testing.assert_array_equal(read_array(tmp_path / "a.npy"), [0, 1, 2])
    write_array(tmp_path / "b.npy", np.arange(4))
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), [0, 1, 2, 3])
    np.savez(tmp_path / "a.npz", c=np.arange(3))
    np.testing.assert_array_equal(read_arrays(tmp_path / "a.npz")["c"], [0, 1, 2])
    write_arrays(tmp_path / "b.npz", {"c": np.arange(4)})
    np.testing.assert_array_equal(np.load(tmp_path / "b.npz")["c"], [0, 1, 2, 3])


def test_no_array_is_lost_without_a_word(tmp_path):
    """A flipped bit in the directory of a zip file can hide an array from its reader."""
    path = tmp_path / "a.npz"
    write_arrays(path, {"a": np.arange(3), "b": np.arange(4)})
    content = bytearray(path.read_bytes())
    for place in range(content.index(b"PK\x01\x02"), len(content)):
        for bit in range(8):
            content[place] ^= 1 << bit
            path.write_bytes(content)
            with suppress(RunError):
                assert set(read_arrays(path)) == {"a", "b"}
            content[place] ^= 1 << bit


def test_a_table_of_another_writer_may_have_columns_of_any_kind(tmp_path):
    when = pa.array([datetime(2026, 1, 1)] * len(ROWS))
    pq.write_table(TABLE.append_column("when", when), tmp_path / "table.parquet")
    assert read_table(tmp_path / "table.parquet", SCHEMA) == TABLE
