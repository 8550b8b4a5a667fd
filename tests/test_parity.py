"""The parity check accepts what agrees and refuses what does not."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from constrained_dnc import parity
from constrained_dnc.cli import main
from constrained_dnc.model import fused

VECTORS = Path(__file__).parent / "data" / "dnc_lstm_forward_backward.npz"


def test_reference_vectors_agree(capsys):
    assert main(["parity", str(VECTORS)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("float32 grad_" in line for line in lines) == 26
    assert sum("float64 grad_" in line for line in lines) == 26
    assert lines[-1] == "all quantities agree"


@pytest.mark.skipif(fused.missing_reason() is not None, reason=str(fused.missing_reason()))
def test_reference_vectors_agree_with_the_fused_kernel():
    vectors = parity.load_vectors(VECTORS)
    failed = [c for c in parity.compare(vectors, "fused") if not c.passed]
    assert not failed


def test_small_differences_are_found(tmp_path, capsys):
    vectors = dict(np.load(VECTORS))
    changed = ["outputs", "cell_states", "loss", "grad_free_gate_bias"]
    for name in changed:
        vectors[name] = vectors[name] + 2e-3 * np.max(np.abs(vectors[name]))
    np.savez(tmp_path / "off.npz", **vectors)
    assert main(["parity", str(tmp_path / "off.npz")]) == 1
    failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]
    # the gradient is so small that only float64 can tell
    assert [line.split()[1:3] for line in failed] == [
        *(["float32", name] for name in changed[:3]),
        *(["float64", name] for name in changed),
    ]


@pytest.fixture(scope="module")
def computed():
    vectors = parity.load_vectors(VECTORS)
    return parity._pure(parity.build_model(vectors), vectors)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize(
    "name", ["loss", "outputs", "grad_read_key_weight", "grad_write_gate_bias"]
)
def test_what_is_not_finite_agrees_with_nothing(name, value, computed, monkeypatch):
    """One such entry must not excuse the others either: all quantities are wrong here."""
    vectors = parity.load_vectors(VECTORS)
    wrong = {
        key: array if key.startswith("param_") or key in (*parity.SIZES, "inputs") else array + 1.0
        for key, array in vectors.items()
    }
    wrong[name] = wrong[name].copy()
    wrong[name].flat[0] = value
    monkeypatch.setattr(parity, "_pure", lambda model, vectors: computed)
    assert [c.name for c in parity.compare(wrong) if c.passed] == []


@pytest.mark.parametrize("theirs", [0.5, np.inf])
def test_what_we_compute_must_be_finite_too(theirs, computed, monkeypatch):
    vectors = parity.load_vectors(VECTORS) | {"loss": np.array(theirs)}
    loss, *others = computed
    monkeypatch.setattr(parity, "_pure", lambda model, vectors: (loss * np.inf, *others))
    assert [c.name for c in parity.compare(vectors) if not c.passed] == ["loss"]


def test_numbers_beyond_single_precision_are_differences(tmp_path, capsys):
    vectors = dict(np.load(VECTORS))
    vectors["param_output_weight"] = vectors["param_output_weight"] * 1e60
    vectors["outputs"] = vectors["outputs"] * 1e300
    np.savez(tmp_path / "huge.npz", **vectors)
    assert main(["parity", str(tmp_path / "huge.npz")]) == 1
    assert "FAIL float32 outputs" in capsys.readouterr().out


def npy(shape: object, data: bytes = b"") -> bytes:
    """A .npy file that declares some shape."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data


def write_members(path: Path, members: dict[str, bytes], encrypted: bool = False) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    if encrypted:  # the flag in the local and in the central header
        content = bytearray(path.read_bytes())
        for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            content[content.index(signature) + place] |= 1
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"loss.npy": npy("(10000000000000,)", bytes(64))}, "readable .npz file"),
        ({"loss.npy": npy(f"({10**40},)")}, "readable .npz file"),
        ({"loss.npy": npy("(4294967296, 4294967296)")}, "readable .npz file"),
        ({"loss.npy": npy("(-1,)", bytes(8))}, "readable .npz file"),
        ({"loss.npy": npy("(" * 90 + ")" * 90)}, "readable .npz file"),
        ({"loss.npy": b"\x93NUMPY\x09\x00"}, "readable .npz file"),
        ({"loss.npy": b"cos\nsystem\n(S'exit'\ntR."}, "readable .npz file"),
        ({"loss.npy": npy("(33554433,)", bytes(8 << 25))}, "its arrays take 268435584 bytes"),
    ],
    ids=["10^13", "10^40", "2^64", "negative", "nested", "version", "pickle", "bomb"],
)
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_hostile_file_costs_one_sentence(tmp_path, capsys, members, reason, encrypted):
    write_members(tmp_path / "bad.npz", members, encrypted)
    assert main(["parity", str(tmp_path / "bad.npz")]) == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    assert sentence.startswith("cdnc: FILE is '")
    assert reason in sentence


def test_arrays_that_nobody_asked_for_are_left_alone(tmp_path):
    """Neither their size nor what they hold matters."""
    vectors = dict(np.load(VECTORS))
    np.savez(tmp_path / "more.npz", note=np.array(["by hand"]), **vectors)
    with zipfile.ZipFile(tmp_path / "more.npz", "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr("bomb.npy", npy("(10000000000000,)"))
    assert parity.load_vectors(tmp_path / "more.npz").keys() == vectors.keys()


@pytest.mark.parametrize("content", [b"", b"not a zip", None])
def test_a_bad_file_is_refused_in_one_sentence(tmp_path, capsys, content):
    path = tmp_path / "bad.npz"
    if content is not None:
        path.write_bytes(content)
    assert main(["parity", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_huge_file_is_refused_before_it_is_read(tmp_path, capsys):
    with open(tmp_path / "huge.npz", "wb") as file:
        file.truncate(1 << 40)
    assert main(["parity", str(tmp_path / "huge.npz")]) == 2
    assert "larger than" in capsys.readouterr().err


def test_missing_arrays_are_named(tmp_path, capsys):
    vectors = dict(np.load(VECTORS))
    del vectors["param_write_gate_bias"]
    np.savez(tmp_path / "short.npz", **vectors)
    assert main(["parity", str(tmp_path / "short.npz")]) == 2
    assert "param_write_gate_bias" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("param_write_key_weight", lambda a: a[:-1], "shape of param_write_key_weight is"),
        ("grad_free_gate_bias", lambda a: a[:1], "shape of grad_free_gate_bias is"),
        ("outputs", lambda a: a[:, :1], "shape of outputs is"),
        ("inputs", lambda a: a[0], "shape of inputs is"),
        ("memory_size", lambda a: np.array(9.7), "memory_size is 9.7"),
        ("word_size", lambda a: np.array(7), "shape of"),
        ("memory_size", lambda a: np.array(np.nan), "memory_size is nan"),
        ("num_reads", lambda a: np.array(np.inf), "num_reads is inf"),
        ("memory_size", lambda a: np.array(10**18), "memory_size is 1000000000000000000"),
        ("memory_size", lambda a: np.array(1e300), "memory_size is 1"),
        ("memory_size", lambda a: np.array(30_000), "fits in memory"),
        ("word_size", lambda a: np.array(-4), "word_size is -4"),
        ("memory_size", lambda a: np.array("abc"), "memory_size is '<U3'"),
    ],
)
def test_arrays_that_do_not_fit_are_named(tmp_path, capsys, name, change, sentence):
    vectors = dict(np.load(VECTORS))
    vectors[name] = change(vectors[name])
    np.savez(tmp_path / "odd.npz", **vectors)
    assert main(["parity", str(tmp_path / "odd.npz")]) == 2
    assert sentence in capsys.readouterr().err


def test_a_file_in_float32_is_read_too(tmp_path):
    vectors = {name: np.float32(array) for name, array in np.load(VECTORS).items()}
    np.savez(tmp_path / "single.npz", **vectors)
    single = parity.load_vectors(tmp_path / "single.npz")
    assert {array.dtype for array in single.values()} == {np.dtype("float64")}
