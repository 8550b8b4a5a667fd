"""The benchmark runs, and its object has what others read off it."""

from __future__ import annotations

import json

import pytest

from constrained_dnc import bench as measurements
from constrained_dnc.cli import main
from constrained_dnc.model import fused


@pytest.fixture
def small(monkeypatch):
    """The same measurements on a small load."""
    load = measurements.Load(batch_size=4, length=2, memory_size=5, word_size=3, hidden_size=8)
    monkeypatch.setattr(measurements, "Load", lambda: load)
    monkeypatch.setattr(
        measurements, "GROWTH", {"memory_size": (5, 9), "length": (2, 3), "batch_size": (2, 4)}
    )


def test_bench_prints_one_object(small, capsys, tmp_path):
    assert main(["bench", "--json", "--repeats", "2", "--plot", str(tmp_path / "b.png")]) == 0
    result = json.loads(capsys.readouterr().out)
    for cores in ("one_core", "all_cores"):
        assert result[cores]["pure_ms"] > 0
        assert result[cores]["floor_ms"] > 0
        if fused.missing_reason() is None:
            assert result[cores]["fused_ms"] >= result[cores]["fused_fastest_ms"] > 0
            assert set(result["growth_ms"]["length"]) == {"2", "3"}
    assert result["forward_steps_per_second_500"] > 0
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")


def test_bench_without_the_kernel_says_why(small, capsys, monkeypatch):
    monkeypatch.setattr(fused, "missing_reason", lambda: "the fused kernel is not built")
    assert main(["bench", "--repeats", "1", "--no-grow"]) == 0
    text = capsys.readouterr().out
    assert "backend pure (the fused kernel is not built)" in text
    assert "| fused, ms | - | - |" in text
