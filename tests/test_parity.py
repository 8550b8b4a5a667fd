"""The parity check accepts what agrees and refuses what does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import parity
import pytest

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
    assert [c.name for c in parity.compare(vectors, "fused") if not c.passed] == []


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


@pytest.fixture(scope="module")
def computed():
    vectors = parity.load_vectors(VECTORS)
    return parity._pure(parity.build_model(vectors), vectors)


@pytest.mark.parametrize(
    ("name", "value"), [("loss", np.nan), ("outputs", np.inf), ("grad_read_key_weight", np.nan)]
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


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("param_write_gate_bias", None, "lacks param_write_gate_bias"),
        ("grad_free_gate_bias", lambda a: a[:1], "the shape of grad_free_gate_bias is"),
        ("loss", lambda a: np.array("abc"), "could not convert string to float"),
    ],
)
def test_arrays_that_do_not_fit_are_named(tmp_path, capsys, name, change, sentence):
    vectors = dict(np.load(VECTORS))
    array = vectors.pop(name)
    if change is not None:
        vectors[name] = change(array)
    np.savez(tmp_path / "odd.npz", **vectors)
    with pytest.raises(SystemExit) as stop:
        parity.main([str(tmp_path / "odd.npz")])
    assert stop.value.code == 2
    assert sentence in capsys.readouterr().err
