"""What people see of a sweep."""

import io
import itertools

import pytest
from rich.console import Console

from constrained_dnc.cli import watching
from constrained_dnc.cli.watching import SweepWatcher
from constrained_dnc.sweep.plan import make_request, open_study
from constrained_dnc.training.files import write_json


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(watching, "time", clock)
    return clock


@pytest.fixture
def plan(tmp_path):
    return open_study(tmp_path, make_request("smoke", trials=2))


def set_iteration(plan, config, iteration: int) -> None:
    folder = plan.folder / "runs" / config.run_id
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "status.json", {"iteration": iteration})


def watch(plan, terminal: bool = False) -> tuple[SweepWatcher, io.StringIO]:
    page = io.StringIO()
    return SweepWatcher(plan, 2, Console(file=page, force_terminal=terminal, width=80)), page


def test_plain_lines_come_now_and_then(plan, clock):
    watcher, page = watch(plan)
    with watcher:
        watcher.look(list(plan.configs))
        clock.now += 21
        watcher.look(list(plan.configs))
        set_iteration(plan, plan.configs[0], 20)
        watcher.look(list(plan.configs))
        clock.now += 21
        watcher.look(list(plan.configs))
    assert page.getvalue().splitlines() == [
        "time left unknown yet; under way: nothing yet",
        # 0.3 of a run took 21 s of two workers, and 3.7 are left for them since 21 s
        "about 0:03:58 left; under way: copy stateful-baseline trial 0 20/60",
    ]


def test_the_time_left_is_that_of_this_sweep_alone(plan, clock):
    first, second, *waiting = plan.configs
    for config in (first, second):
        set_iteration(plan, config, 40)
    watcher, _ = watch(plan)
    clock.now += 10
    watcher.look(list(plan.configs))
    assert watcher.left() == "time left unknown yet"  # it has done nothing so far
    for config in (first, second):
        set_iteration(plan, config, 60)
    # 2 x 0.3 runs in 10 s; 2 x 0.1 + 2 are left
    assert watcher.left() == "about 0:00:37 left"
    watcher.ended(first, "finished")
    watcher.ended(second, "finished")
    # 0.8 runs in 10 s of two workers; each of the two left has one of its own
    assert watcher.left() == "about 0:00:25 left"
    assert len(waiting) == 2


def test_the_time_left_runs_down_until_a_run_moves_on(plan, clock):
    watcher, _ = watch(plan)
    clock.now += 10
    set_iteration(plan, plan.configs[0], 60)
    # 0.9 of a run took 10 s of two workers, and 3.1 are left for them
    assert watcher.left() == "about 0:00:34 left"
    clock.now += 30
    assert watcher.left() == "about 0:00:04 left"
    clock.now += 5
    assert watcher.left() == "overdue"


def test_runs_that_change_places_are_no_progress(plan, clock):
    for config, iteration in zip(plan.configs, (20, 50, 10, 30), strict=True):
        set_iteration(plan, config, iteration)
    watcher, _ = watch(plan)
    for order in itertools.permutations(plan.configs):
        clock.now += 1
        watcher.look(list(order))
        assert watcher.left() == "time left unknown yet"


def test_ends_and_failures_are_told(plan, clock):
    watcher, page = watch(plan)
    clock.now += 5
    first, second = plan.configs[:2]
    watcher.ended(first, "diverged")
    watcher.failed(second, ["no memory"])
    watcher.failed(second, ["no memory"] * 3)
    lines = page.getvalue().splitlines()
    assert lines[0].startswith("1/4 copy stateful-baseline trial 0: diverged, about 0:00:")
    assert lines[1:] == [
        "copy compr+reg trial 0 failed and is tried again: no memory",
        "copy compr+reg trial 0 is given up after 3 attempts: no memory",
    ]


def test_a_terminal_has_a_live_table(plan, clock):
    watcher, page = watch(plan, terminal=True)
    set_iteration(plan, plan.configs[0], 60)
    set_iteration(plan, plan.configs[1], 20)
    with watcher:
        clock.now += 1
        watcher.look(list(plan.configs))
        watcher.live.refresh()
    text = page.getvalue()
    assert "0/4 runs" in text
    assert "evaluating" in text
    assert "20/60" in text
