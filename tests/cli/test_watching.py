"""What people see of a study that runs."""

import errno
import io

import pytest
from rich.console import Console

from constrained_dnc.cli import watching
from constrained_dnc.cli.watching import StudyWatcher
from constrained_dnc.errors import RunError
from constrained_dnc.files import write_json
from smoke_studies import open_smoke
from tiny_runs import STATUS


@pytest.fixture
def now():
    """The time on a clock that the test sets."""
    return [1000.0]


@pytest.fixture
def plan(tmp_path):
    return open_smoke(tmp_path, trials=2)


def set_iteration(run, iteration: int) -> None:
    write_json(run.folder / "status.json", STATUS | {"iteration": iteration})


def watch(plan, now, file=None, terminal: bool = False) -> StudyWatcher:
    screen = Console(file=file, force_terminal=terminal, width=80, _environ={"TERM": "xterm"})
    return StudyWatcher(plan.to_do(), screen=screen, clock=lambda: now[0])


def test_plain_lines_come_now_and_then(plan, now, capsys):
    first, *_ = runs = list(plan.runs)
    with watch(plan, now) as watcher:
        for iteration in (20, 30, 40):
            set_iteration(first, iteration)
            now[0] += 21
            watcher.look(runs)
            watcher.look(runs)
    # four runs of 60 iterations and their evaluation are 266.7; ours had 20 before
    assert capsys.readouterr().err.splitlines() == [
        "time left -; under way: copy-stateful-baseline-0 20/60",
        "time left 0:16:34; under way: copy-stateful-baseline-0 30/60",  # 10 in 42 s
        "time left 0:11:54; under way: copy-stateful-baseline-0 40/60",  # 20 in 63 s
    ]


def test_the_time_left_does_not_jump(plan, now, monkeypatch):
    """Two workers with checkpoints close together, then evaluations that report nothing."""
    monkeypatch.setattr(watching, "TRAINING_SHARE", 0.75)
    runs = list(plan.runs)[:2]
    watcher, left = StudyWatcher(runs, 2, clock=lambda: now[0]), {}
    for seconds in range(40):  # 30 of training, a checkpoint after every 1.5; 10 of evaluation
        for run, late in zip(runs, (0, 0.3), strict=True):
            set_iteration(run, min(60, 3 * int((seconds - late) / 1.5)))
        watcher.look(runs)
        left[seconds] = watcher.time_left()
        now[0] += 1
    known = {at: int(text[-2:]) for at, text in left.items() if text != "-"}
    assert known.keys() >= {*range(3, 40)}
    assert max(abs(seconds - (40 - at)) for at, seconds in known.items() if at > 10) <= 5


def test_a_line_for_every_run_that_ends_or_fails(plan, now, capsys):
    watcher = watch(plan, now)
    first, second = plan.runs[:2]
    now[0] += 30
    watcher.ended(first, "diverged")
    watcher.failed(second, "no memory")
    assert capsys.readouterr().err.splitlines() == [
        "1/4 copy-stateful-baseline-0: diverged, time left 0:01:30",
        "copy-compr+reg-0 failed: no memory",
    ]


def test_a_terminal_has_a_bar_for_each_run(plan, now):
    page = io.StringIO()
    set_iteration(plan.runs[0], 60)
    set_iteration(plan.runs[1], 20)
    with watch(plan, now, page, terminal=True) as watcher:
        watcher.look(list(plan.runs))
        watcher.bars.refresh()
        watcher.ended(plan.runs[0], "finished")
    text = page.getvalue()
    assert "0/4 runs" in text
    assert "copy-stateful-baseline-0 evaluating" in text
    assert "copy-compr+reg-0 20/60" in text
    assert "1/4 copy-stateful-baseline-0: finished" in text


def test_a_full_standard_error_and_a_damaged_status_are_not_the_end(plan, now):
    class Full(io.StringIO):
        def flush(self):
            raise OSError(errno.ENOSPC, "No space left on device")

    set_iteration(plan.runs[0], 30)
    (plan.runs[0].folder / "status.json").write_text("[[")
    watcher = watch(plan, now, Full(), terminal=True)
    now[0] += 21
    watcher.look(list(plan.runs))
    watcher.ended(plan.runs[0], "finished")
    assert watcher.ended_runs == 1


def test_few_files_are_opened_a_second(plan, now, monkeypatch):
    looks = []

    def absent(folder):
        looks.append(folder)
        raise RunError("no status.json")

    monkeypatch.setattr(watching, "read_status", absent)
    runs = list(plan.runs) * 100
    watcher = StudyWatcher(runs, clock=lambda: now[0])
    for _ in range(20):
        now[0] += 0.5
        watcher.look(runs)
    assert 0 < len(looks) <= 10 * watching.LOOKS_PER_SECOND + len(runs)
