"""What people see of a sweep."""

import errno
import io

import pytest
from rich.console import Console

from constrained_dnc.cli import speed, watching
from constrained_dnc.cli.watching import SweepWatcher
from constrained_dnc.files import write_json
from constrained_dnc.sweep.plan import make_request, open_study
from tiny_runs import STATUS


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [1000.0]
    monkeypatch.setattr(speed.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def plan(tmp_path):
    return open_study(tmp_path, make_request("smoke", trials=2))


def set_iteration(plan, config, iteration: int) -> None:
    folder = plan.folder / "runs" / config.run_id
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "status.json", STATUS | {"iteration": iteration})


def watch(plan, terminal: bool = False) -> tuple[SweepWatcher, io.StringIO]:
    page = io.StringIO()
    console = Console(file=page, force_terminal=terminal, width=80)
    return SweepWatcher(plan, plan.to_do(), 2, console), page


def test_plain_lines_come_now_and_then(plan, clock):
    watcher, page = watch(plan)
    first = plan.configs[0]
    with watcher:
        set_iteration(plan, first, 0)
        watcher.look(list(plan.configs))
        clock[0] += 21
        watcher.look(list(plan.configs))
        set_iteration(plan, first, 20)
        clock[0] += 9
        watcher.look(list(plan.configs))
        clock[0] += 12
        watcher.look(list(plan.configs))
    assert page.getvalue().splitlines() == [
        "time left unknown yet; under way: copy stateful-baseline trial 0 0/60",
        # 1.5 s an iteration; four runs of 60 and evaluation on two workers, less 20, less 12 s
        "about 0:02:59 left; under way: copy stateful-baseline trial 0 20/60",
    ]


@pytest.mark.parametrize("terminal", [False, True])
def test_a_status_is_read_once_until_it_changes(plan, clock, terminal, monkeypatch):
    watcher, _ = watch(plan, terminal)
    first, reads = plan.configs[0], []
    read = watching.read_status
    monkeypatch.setattr(
        watching, "read_status", lambda folder: (reads.append(folder.name), read(folder))[1]
    )
    for iteration in (0, 20):
        set_iteration(plan, first, iteration)
        for _ in range(3):
            clock[0] += 30
            watcher.look(list(plan.configs))
        assert watcher.progress(first) == f"{iteration}/60"
    assert reads == [first.run_id] * 2


def test_the_time_left_is_that_of_this_sweep_alone(plan, clock):
    first, second, *_ = plan.configs
    for config in (first, second):
        set_iteration(plan, config, 40)
    watcher, _ = watch(plan)
    watcher.look(list(plan.configs))
    clock[0] += 10
    assert watcher.left() == "time left unknown yet"  # it has done nothing so far
    for config in (first, second):
        set_iteration(plan, config, 60)
    # half a second an iteration, 60 are 30 s, and a run 33; two such for each worker, 60 done
    assert watcher.left() == "about 0:00:37 left"
    watcher.ended(first, "finished")
    watcher.ended(second, "finished")
    assert watcher.left() == "about 0:00:33 left"


def test_the_speed_is_that_of_the_last_minute(plan, clock):
    watcher, _ = watch(plan)
    config = plan.configs[0]
    for iteration, seconds in ((0, 0), (10, 100), (20, 30), (30, 30), (40, 30)):
        clock[0] += seconds
        set_iteration(plan, config, iteration)
        watcher.look([config])
    # 3 s an iteration, 20 and 6.67 are left
    assert watcher.left() == "about 0:01:20 left"


def test_a_process_that_was_stopped_and_continued_counts_what_it_ran(plan, clock):
    watcher, _ = watch(plan)
    config = plan.configs[0]
    for iteration in (0, 10, 20):
        set_iteration(plan, config, iteration)
        watcher.look([config])
        clock[0] += 10
    assert watcher.left() == "about 0:00:37 left"
    clock[0] += 3600  # stopped for an hour
    watcher.clock._continue(18, None)
    assert watcher.left() == "about 0:00:37 left"


def test_the_time_left_runs_down_until_a_run_moves_on(plan, clock):
    watcher, _ = watch(plan)
    config = plan.configs[0]
    set_iteration(plan, config, 0)
    watcher.look([config])
    clock[0] += 30
    set_iteration(plan, config, 30)
    watcher.look([config])
    assert watcher.left() == "about 0:00:37 left"
    clock[0] += 30
    assert watcher.left() == "about 0:00:07 left"
    clock[0] += 10
    assert watcher.left() == "overdue"


def test_ends_and_failures_are_told(plan, clock):
    watcher, page = watch(plan)
    first, second = plan.configs[:2]
    watcher.ended(first, "diverged")
    watcher.failed(second, "no memory")
    lines = page.getvalue().splitlines()
    assert lines == [
        "1/4 copy stateful-baseline trial 0: diverged, time left unknown yet",
        "copy compr+reg trial 0 failed: no memory",
    ]


def test_a_full_standard_error_is_not_the_end_of_a_sweep(plan, clock):
    class Full(io.StringIO):
        def flush(self):
            raise OSError(errno.ENOSPC, "No space left on device")

    watcher = SweepWatcher(plan, plan.to_do(), 2, Console(file=Full()))
    watcher.ended(plan.configs[0], "finished")
    assert watcher.ended_runs == 1


def test_a_task_of_ones_own_is_called_by_its_name(tmp_path, clock):
    file = tmp_path / "mine.py"
    file.write_text(
        "from constrained_dnc.tasks.copy import Copy\nclass Mine(Copy):\n    name = 'echo'\n"
    )
    plan = open_study(tmp_path / "study", make_request("smoke", [f"{file}:Mine"]))
    first, second = plan.configs
    set_iteration(plan, second, 20)
    pages = []
    for terminal in (False, True):
        watcher, page = watch(plan, terminal)
        with watcher:
            watcher.ended(first, "finished")
            file.unlink(missing_ok=True)  # everybody has read it
            clock[0] += 21
            watcher.look([second])
        pages.append(page.getvalue())
    assert "1/2 echo stateful-baseline trial 0: finished" in pages[0]
    assert "under way: echo compr+reg trial 0 20/60" in pages[0]
    assert "echo" in pages[1].partition("finished")[2]  # in the table
    assert str(tmp_path) not in "".join(pages)


def test_a_terminal_has_a_live_table(plan, clock):
    watcher, page = watch(plan, terminal=True)
    set_iteration(plan, plan.configs[0], 60)
    set_iteration(plan, plan.configs[1], 20)
    with watcher:
        clock[0] += 1
        watcher.look(list(plan.configs))
        watcher.live.refresh()
    text = page.getvalue()
    assert "0/4 runs" in text
    assert "evaluating" in text
    assert "20/60" in text


def test_a_damaged_status_is_not_the_end_of_a_sweep(plan, clock):
    set_iteration(plan, plan.configs[0], 30)
    (plan.folder / "runs" / plan.configs[0].run_id / "status.json").write_text("[[")
    watcher, page = watch(plan)
    with watcher:
        clock[0] += 21
        watcher.look(list(plan.configs))
    assert page.getvalue().splitlines()[-1].endswith("under way: nothing yet")
