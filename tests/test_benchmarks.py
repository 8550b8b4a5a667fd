"""The benchmark scripts run, and their objects have what others read off them."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import bench
import peers
import pytest

from constrained_dnc.model import fused


@pytest.fixture
def small(monkeypatch):
    """Measurements on a small load."""
    load = bench.Load(batch_size=4, length=2, memory_size=5, word_size=3, hidden_size=8)
    monkeypatch.setattr(bench, "Load", lambda: load)
    monkeypatch.setattr(
        bench, "GROWTH", {"memory_size": (5, 9), "length": (2, 3), "batch_size": (2, 4)}
    )


def test_every_script_can_be_imported():
    scripts = sorted(Path(bench.__file__).parent.glob("*.py"))
    assert len(scripts) >= 9
    for script in scripts:
        importlib.import_module(script.stem)


def test_bench_prints_one_object_and_draws_it(small, capsys, tmp_path):
    bench.main(["--json", "--repeats", "2", "--plot", str(tmp_path / "b.png")])
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
    bench.main(["--repeats", "1", "--no-growth"])
    text = capsys.readouterr().out
    assert "backend pure (the fused kernel is not built)" in text
    assert "| fused, ms | - | - |" in text


def test_a_peer_takes_turns_with_ours(monkeypatch):
    log = []
    monkeypatch.setattr(peers, "Iteration", lambda backend, load: lambda: log.append("ours"))
    result = peers.measure_against(lambda load: lambda: log.append("theirs"), ["numpy"], 10)
    turn = bench.TURN + 1  # the first of a turn is not counted
    assert log == (["ours"] * turn + ["theirs"] * turn) * 2
    assert (result["runs"], result["load"]["batch_size"]) == (2 * bench.TURN, 64)


def test_the_ratio_is_theirs_over_ours(monkeypatch):
    times = {"ours": [20.0, 30.0, 70.0], "theirs": [300.0, 200.0, 180.0]}
    monkeypatch.setattr(peers, "times_ms", lambda contestants, repeats, clock: times)
    lines = peers.table(peers.measure_against(lambda load: lambda: None, ["numpy"])).splitlines()
    assert "batch 64, N = 50, W = 16, R = 4, H = 128, sort with L = 10; 3 runs each" in lines[0]
    assert "| numpy, ms | 180.0 | 200.0 |" in lines
    assert "| numpy / ours | 9.0 | 6.7 |" in lines
