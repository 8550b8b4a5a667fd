"""Files: atomic, checksummed, locked, refused when corrupt."""

import os
import pickle
import struct

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
    tensors, metadata = read_tensors(tmp_path / "t")
    assert metadata == {"iteration": 3, "loss": 0.1}
    assert tensors.keys() == TENSORS.keys()
    for name, array in TENSORS.items():
        assert tensors[name].dtype == array.dtype
        assert tensors[name].shape == array.shape
        np.testing.assert_array_equal(tensors[name], array)
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_every_cut_and_every_flipped_byte_is_noticed(tmp_path):
    path = tmp_path / "t"
    write_tensors(path, TENSORS, {"iteration": 3})
    content = path.read_bytes()
    for size in (1, 7, 8, 20, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(RunError, match="t cannot be read: "):
            read_tensors(path)
    for position in range(len(content)):
        corrupt = bytearray(content)
        corrupt[position] ^= 0x01
        path.write_bytes(corrupt)
        try:
            tensors, metadata = read_tensors(path)
        except RunError:
            continue
        # a byte of padding between header and data may change without changing what is stored
        assert metadata == {"iteration": 3}
        assert all(np.array_equal(tensors[name], TENSORS[name]) for name in TENSORS)


class _Explodes:
    def __reduce__(self):
        return os.mkdir, ("executed",)


@pytest.mark.parametrize("read", [read_tensors, read_table, read_arrays])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PAR1",
        b"PK\x03\x04",
        pickle.dumps(_Explodes()),
        struct.pack("<Q", 2**63) + b"{}",
        safetensors.numpy.save({}, {}),
        safetensors.numpy.save({}, {"constrained_dnc": "[]"}),
    ],
)
def test_other_files_are_refused(tmp_path, monkeypatch, read, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(RunError, match="f cannot be read: "):
        read(tmp_path / "f")
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


@pytest.mark.parametrize(
    ("error", "raised"),
    [(OSError(28, "No space left on device"), RunError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch, error, raised):
    path = tmp_path / "f"
    write_atomically(path, b"old")

    def fail(descriptor):
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(raised, match="No space left" if raised is RunError else None):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_two_writers_do_not_disturb_each_other(tmp_path, monkeypatch):
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
