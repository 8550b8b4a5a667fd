"""Files: atomic, checksummed, locked, refused when corrupt."""

import os
import pickle
import struct
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import safetensors.numpy

from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.files import (
    is_locked,
    locked,
    make_folder,
    read_arrays,
    read_json,
    read_table,
    read_tensors,
    remove_unfinished,
    write_arrays,
    write_atomically,
    write_json,
    write_table,
    write_tensors,
)
from constrained_dnc.model.leaves import fill_leaves, name_leaves

TENSORS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.array(3, np.int32),
    "c": np.zeros((0, 2)),
}


def test_tensors_come_back_as_they_were(tmp_path):
    write_tensors(tmp_path / "t", TENSORS, {"iteration": 3, "loss": 0.1})
    tensors, about = read_tensors(tmp_path / "t")
    assert about == {"iteration": 3, "loss": 0.1}
    assert tensors.keys() == TENSORS.keys()
    for name, array in TENSORS.items():
        assert tensors[name].dtype == array.dtype
        assert tensors[name].shape == array.shape
        np.testing.assert_array_equal(tensors[name], array)
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_every_flipped_byte_is_noticed(tmp_path):
    path = tmp_path / "t"
    write_tensors(path, TENSORS, {"iteration": 3})
    content = path.read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 0x01
        path.write_bytes(damaged)
        try:
            tensors, about = read_tensors(path)
        except RunError:
            continue
        # a byte of padding between header and data may change without changing what is stored
        assert about == {"iteration": 3}
        assert all(np.array_equal(tensors[name], TENSORS[name]) for name in TENSORS)


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 20, 0.5, 0.99])
def test_truncation_is_noticed(tmp_path, kept):
    path = tmp_path / "t"
    write_tensors(path, TENSORS, {})
    content = path.read_bytes()
    path.write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    with pytest.raises(RunError, match="t cannot be read: "):
        read_tensors(path)


class _Explodes:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def _with_header(header: bytes, size: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if size is None else size) + header


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(_Explodes()),
        b"",
        _with_header(b"{}", size=2**63),
        _with_header(b"{}", size=10**8),
        _with_header(b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'),
        _with_header(b'{"a":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}}') + bytes(16),
        _with_header(b'{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,16]}}') + bytes(16),
        _with_header(b'{"a":{"dtype":"O","shape":[4],"data_offsets":[0,16]}}') + bytes(16),
        _with_header(
            b'{"__metadata__":{"constrained_dnc":"{\\"about\\":{},\\"checksum\\":\\"0\\"}"}}'
        ),
        _with_header(b"[" * 5000),
        _with_header(b"{}"),
    ],
)
def test_pickles_and_hostile_headers_are_refused(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(RunError):
        read_tensors(tmp_path / "t")
    assert not (tmp_path / "executed").exists()


def test_json_round_trip_and_refusals(tmp_path):
    write_json(tmp_path / "j", {"a": [1, None], "b": "c"})
    assert read_json(tmp_path / "j") == {"a": [1, None], "b": "c"}
    for text in ("{", "[]", "\xff", "[" * 100_000):
        (tmp_path / "j").write_bytes(text.encode("latin-1"))
        with pytest.raises(RunError, match="j cannot be read: "):
            read_json(tmp_path / "j")
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "j", {"a": float("nan")})


def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "f"
    write_atomically(path, b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_two_writers_at_once_both_write_all_of_theirs(tmp_path, monkeypatch):
    """The second one writes while the first one flushes its file to disk."""
    path, sync, inside = tmp_path / "f", os.fsync, []

    def slow(descriptor):
        if not inside:
            inside.append(True)
            write_atomically(path, b"second")
            assert path.read_bytes() == b"second"
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    write_atomically(path, b"first")
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["f"]


def test_what_a_dead_writer_left_is_removed(tmp_path):
    for name in (".f.12345678.unfinished", ".g.12345678.unfinished", "f"):
        (tmp_path / name).touch()
    remove_unfinished(tmp_path, ["f"])
    assert sorted(os.listdir(tmp_path)) == [".g.12345678.unfinished", "f"]


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "f", b"new")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(("where", "says"), [("file", "File exists"), ("file/in", "Not a dir")])
def test_a_folder_that_cannot_be_made(tmp_path, where, says):
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=f"{where} cannot be created: {says}"):
        make_folder(tmp_path / where)
    with pytest.raises(SettingError, match=f"run_dir must be .*{says}"):
        make_folder(tmp_path / where, "run_dir")


def test_trees_are_filled_by_name_and_checked():
    tree = {"x": jnp.ones(3), "y": (jnp.zeros((), jnp.int32),)}
    named = name_leaves(tree, "p")
    assert sorted(named) == ["p/x", "p/y.0"]
    filled = fill_leaves(tree, {"p/x": np.float32([1, 2, 3]), "p/y.0": np.int32(4)}, "p")
    np.testing.assert_array_equal(filled["x"], [1, 2, 3])
    assert filled["y"][0] == 4
    with pytest.raises(RunError, match=r"p/y\.0 is missing"):
        fill_leaves(tree, {"p/x": named["p/x"]}, "p")
    with pytest.raises(RunError, match="p/x is float64"):
        fill_leaves(tree, named | {"p/x": np.ones(3)}, "p")
    with pytest.raises(RunError, match=r"shape \(4,\)"):
        fill_leaves(tree, named | {"p/x": np.ones(4, np.float32)}, "p")


def test_lock_excludes_others_and_says_whose_it_is(tmp_path):
    path = tmp_path / "lock"
    assert not is_locked(path)
    with locked(path):
        assert is_locked(path)
        with pytest.raises(RunError, match=f"in use by process {os.getpid()} on "), locked(path):
            pass
    assert not is_locked(path)
    with locked(path):
        pass


def test_lock_of_a_killed_process_is_not_in_the_way(tmp_path):
    path = tmp_path / "lock"
    hold = (
        "import fcntl, sys, time\n"
        "file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        assert is_locked(path)
        with pytest.raises(RunError, match="in use"), locked(path):
            pass
        process.kill()
    with locked(path):
        assert str(os.getpid()) in path.read_text()


def test_equal_contents_are_equal_files(tmp_path):
    for name in "abcdefgh":
        write_tensors(tmp_path / name, TENSORS, {"x": 1, "y": 2})
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


@pytest.mark.parametrize("metadata", [{}, {"constrained_dnc": "{"}, {"constrained_dnc": "[]"}])
def test_strange_metadata_is_refused(tmp_path, metadata):
    (tmp_path / "t").write_bytes(safetensors.numpy.save({}, metadata))
    with pytest.raises(RunError, match="t cannot be read: "):
        read_tensors(tmp_path / "t")


def test_a_lock_whose_folder_was_moved_is_not_in_place(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    with locked(folder / "lock") as is_in_place:
        assert is_in_place()
        folder.rename(tmp_path / "old")
        assert not is_in_place()
        folder.mkdir()
        with locked(folder / "lock") as is_second_in_place:
            assert is_second_in_place()
            assert not is_in_place()


def test_a_lock_that_cannot_be_made_is_one_sentence(tmp_path):
    with pytest.raises(RunError, match="x cannot be locked: "), locked(tmp_path / ("x" * 300)):
        pass


FRAME = pd.DataFrame({"run_id": ["a", "b"], "length": [2, 5], "score": [0.25, float("nan")]})


def test_tables_and_arrays_come_back(tmp_path):
    write_table(tmp_path / "t", FRAME)
    pd.testing.assert_frame_equal(read_table(tmp_path / "t"), FRAME)
    write_arrays(tmp_path / "a", TENSORS)
    arrays = read_arrays(tmp_path / "a")
    assert arrays.keys() == TENSORS.keys()
    assert all(np.array_equal(arrays[name], TENSORS[name]) for name in TENSORS)


def test_a_changed_byte_of_a_value_is_noticed(tmp_path):
    """By Parquet's and zip's checksums."""
    write_table(tmp_path / "t", FRAME)
    write_arrays(tmp_path / "a", TENSORS)
    for name, value, read in (
        ("t", np.float64(0.25).tobytes(), read_table),
        ("a", TENSORS["a"].tobytes(), read_arrays),
    ):
        content = (tmp_path / name).read_bytes()
        place = content.index(value)
        (tmp_path / name).write_bytes(content[:place] + b"\x01" + content[place + 1 :])
        with pytest.raises(RunError, match=f"{name} cannot be read: "):
            read(tmp_path / name)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PK\x03\x04", pickle.dumps(_Explodes())])
def test_what_is_no_table_or_array_is_refused(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").write_bytes(content)
    for read in (read_table, read_arrays):
        with pytest.raises(RunError, match="f cannot be read: "):
            read(tmp_path / "f")
    assert not (tmp_path / "executed").exists()
