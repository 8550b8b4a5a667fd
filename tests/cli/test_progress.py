"""Progress in plain lines and on a terminal."""

import io

import pytest
from rich.console import Console

from constrained_dnc.cli import terminal
from constrained_dnc.cli.progress import ProgressBar
from constrained_dnc.training.loggers import Snapshot

PLAIN = Console(file=io.StringIO())


def snapshot(iteration, unseen=None):
    return Snapshot(iteration, 1000, 0.25, unseen, 10 if unseen else None, 2)


@pytest.fixture
def now():
    """The time on a clock that the test sets."""
    return [100.0]


def test_plain_lines_come_now_and_then_and_at_the_end(now, capsys):
    with ProgressBar("iteration", screen=PLAIN, clock=lambda: now[0]) as bar:
        for iteration in range(1, 1001):
            bar.progress(snapshot(iteration, 0.5))
            now[0] += 0.125
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 14
    assert lines[5] == (
        "iteration 401/1000, 8/s, time left 0:01:15, loss 0.25, unseen 0.5, best at 10, skipped 2"
    )


def test_a_resumed_run_is_not_faster_for_what_was_done_before(now, capsys):
    with ProgressBar("iteration", screen=PLAIN, clock=lambda: now[0]) as bar:
        for iteration in (800, 810, 820):
            bar.progress(snapshot(iteration))
            now[0] += 10
    assert "iteration 820/1000, 1/s, time left 0:03:00" in capsys.readouterr().err


def test_messages_on_a_terminal_are_no_markup():
    page = io.StringIO()
    screen = Console(file=page, force_terminal=True, width=150, _environ={"TERM": "xterm"})
    with ProgressBar("iteration", screen=screen) as bar:
        bar.say("backend fused: [a reason]")
    assert "backend fused: [a reason]" in page.getvalue()


def test_piped_tables_are_never_cut_and_have_no_markup(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    terminal.print_table(["a", "b"], [["word " * 50, "[bold]x[/bold] :smile: \x1b[2J"]])
    _, row = capsys.readouterr().out.splitlines()
    assert row.split("  ")[-1].strip() == "[bold]x[/bold] :smile: ?[2J"
    assert row.count("word") == 50
