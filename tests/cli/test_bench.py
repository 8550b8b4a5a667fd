"""The benchmark runs, and its object has what others read off it."""

from __future__ import annotations

import json
import sys

import pytest

from constrained_dnc import bench as measurements
from constrained_dnc import peers
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


def test_a_picture_of_another_kind_is_refused_before_anything_is_measured(capsys):
    assert main(["bench", "--plot", "b.txt"]) == 2
    assert capsys.readouterr().err == (
        "cdnc: plot is 'b.txt'; accepted: a file whose name ends in .png\n"
    )


@pytest.fixture
def turns(monkeypatch):
    """A stand-in as peer and one for ours; who ran when."""
    log = []

    class Ours:
        def __init__(self, backend, load):
            assert load == measurements.Load()

        def __call__(self):
            log.append("ours")

    def theirs(load):
        assert load == measurements.Load()
        return lambda: log.append("theirs")

    monkeypatch.setattr(peers, "Iteration", Ours)
    monkeypatch.setitem(peers.PEERS, "stand-in", peers.Peer(("numpy",), theirs))
    return log


def test_a_peer_takes_turns_with_ours(turns, capsys):
    assert main(["bench", "--against", "stand-in", "--repeats", "10", "--json"]) == 0
    turn = measurements.TURN + 1  # the first of a turn is not counted
    assert turns == (["ours"] * turn + ["theirs"] * turn) * 2
    result = json.loads(capsys.readouterr().out)
    assert result["runs"] == 2 * measurements.TURN
    assert result["versions"].keys() == {"numpy"}
    assert result["load"]["batch_size"] == 64


def test_the_ratio_is_theirs_over_ours(turns, capsys, monkeypatch):
    times = {"ours": [20.0, 30.0, 70.0], "theirs": [300.0, 200.0, 180.0]}
    monkeypatch.setattr(peers, "times_ms", lambda contestants, repeats, clock: times)
    assert main(["bench", "--against", "stand-in"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "batch 64, N = 50, W = 16, R = 4, H = 128, sort with L = 10; 3 runs each" in lines[0]
    assert "| stand-in, ms | 180.0 | 200.0 |" in lines
    assert "| stand-in / ours | 9.0 | 6.7 |" in lines


def test_a_peer_that_is_not_installed_or_unknown_is_refused(capsys, monkeypatch, tmp_path):
    for module in ("dnc", "torch"):
        monkeypatch.setitem(sys.modules, module, None)
    assert main(["bench", "--against", "dnc"]) == 2
    said = capsys.readouterr().err
    assert "against is 'dnc'; accepted: a package that is there: pip install dnc torch" in said
    assert said.count("\n") == 1
    assert main(["bench", "--against", "ntm"]) == 2
    assert capsys.readouterr().err.endswith("against is 'ntm'; accepted: one of dnc\n")
    assert main(["bench", "--against", "dnc", "--plot", str(tmp_path / "b.png")]) == 2
    assert "plot is " in capsys.readouterr().err
