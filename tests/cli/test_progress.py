"""Progress in plain lines and on a terminal."""

import io
import sys

import pytest

from constrained_dnc.cli import progress, speed
from constrained_dnc.cli.progress import Ticker
from constrained_dnc.training.observer import Snapshot


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [100.0]
    monkeypatch.setattr(speed.time, "monotonic", lambda: now[0])
    return now


def snapshot(iteration, unseen=None):
    return Snapshot(iteration, 1000, 0.25, unseen, 10 if unseen else None, 2)


def test_plain_lines_come_now_and_then_and_at_the_end(clock, capsys):
    with Ticker("iteration") as ticker:
        for iteration in range(1, 1001):
            ticker.progress(snapshot(iteration, 0.5))
            clock[0] += 0.125
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 14
    assert lines[0].startswith("iteration 1/1000, -/s, time left -, loss 0.25, unseen 0.5, best at")
    assert lines[5] == (
        "iteration 401/1000, 8/s, time left 0:01:15, loss 0.25, unseen 0.5, best at 10, skipped 2"
    )
    assert lines[-1].startswith("iteration 1000/1000, 8/s, time left 0:00:00")


def test_the_time_left_leaves_compiling_out(clock, capsys):
    """Eleven lengths compile for three seconds each, among iterations of a tenth of a second."""
    with Ticker("iteration") as ticker:
        for iteration in range(1, 101):
            clock[0] += 3.0 if iteration % 4 == 1 and iteration < 44 else 0.1
            ticker.progress(snapshot(iteration))
    lines = capsys.readouterr().err.splitlines()
    assert lines[1].startswith("iteration 15/1000, 10/s, time left 0:01:38")
    assert "10/s" in lines[2]


@pytest.mark.parametrize("variable", ["dumb", "unknown"])
def test_a_terminal_without_a_cursor_has_lines(variable, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    page = Terminal()
    monkeypatch.setattr(sys, "stderr", page)
    monkeypatch.setenv("TERM", variable)
    with Ticker("iteration") as ticker:
        ticker.progress(snapshot(1))
    assert page.getvalue().startswith("iteration 1/1000, ")
    assert "\x1b" not in page.getvalue()


def test_piped_output_is_never_cut(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    progress.screen().print("word " * 100)
    assert capsys.readouterr().out == "word " * 100 + "\n"


def test_terminal_has_a_bar(clock, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    with Ticker("iteration") as ticker:
        ticker.say("backend fused: [a reason]")
        ticker.progress(snapshot(1))
        clock[0] += 10
        ticker.progress(snapshot(101))
    text = screen.getvalue()
    assert "backend fused: [a reason]" in text
    assert "101/1000" in text
    assert "10/s, time left 0:01:30, loss 0.25" in text
