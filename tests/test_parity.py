"""The parity check accepts what agrees and refuses what does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from constrained_dnc import parity
from constrained_dnc.model import fused

VECTORS = Path(__file__).parent / "data" / "dnc_lstm_forward_backward.npz"


def test_reference_vectors_agree(capsys):
    assert parity.main([str(VECTORS)]) == 0
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
    assert parity.main([str(tmp_path / "off.npz")]) == 1
    failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]
    # the gradient is so small that only float64 can tell
    assert [line.split()[1:3] for line in failed] == [
        *(["float32", name] for name in changed[:3]),
        *(["float64", name] for name in changed),
    ]


@pytest.mark.parametrize("content", [b"", b"not a zip", None])
def test_a_bad_file_is_refused_in_one_sentence(tmp_path, capsys, content):
    path = tmp_path / "bad.npz"
    if content is not None:
        path.write_bytes(content)
    assert parity.main([str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_missing_arrays_are_named(tmp_path, capsys):
    vectors = dict(np.load(VECTORS))
    del vectors["param_write_gate_bias"]
    np.savez(tmp_path / "short.npz", **vectors)
    assert parity.main([str(tmp_path / "short.npz")]) == 2
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
        ("memory_size", lambda a: np.array("abc"), "memory_size is '<U3'"),
    ],
)
def test_arrays_that_do_not_fit_are_named(tmp_path, capsys, name, change, sentence):
    vectors = dict(np.load(VECTORS))
    vectors[name] = change(vectors[name])
    np.savez(tmp_path / "odd.npz", **vectors)
    assert parity.main([str(tmp_path / "odd.npz")]) == 2
    assert sentence in capsys.readouterr().err


def test_a_file_in_float32_is_read_too(tmp_path):
    vectors = {name: np.float32(array) for name, array in np.load(VECTORS).items()}
    np.savez(tmp_path / "single.npz", **vectors)
    single = parity.load_vectors(tmp_path / "single.npz")
    assert {array.dtype for array in single.values()} == {np.dtype("float64")}
