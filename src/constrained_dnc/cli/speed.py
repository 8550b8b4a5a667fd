"""How fast something goes: over the last minute that the process was running, not stopped."""

from __future__ import annotations

import signal
import statistics
import threading
import time
from collections import deque
from types import FrameType

WINDOW = 60.0
"""Seconds that a speed is measured over."""
STEPS, OUTLIER = 1000, 5
"""So many steps are looked at; one that takes that many times the median was held up."""


class RunningClock:
    """Seconds that pass while the process runs.

    Between SIGSTOP and SIGCONT nothing happens, and no time passes here either. The time of the
    stop is that of the last look at the clock, so look often.
    """

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._stopped = 0.0
        if threading.current_thread() is threading.main_thread():  # no other can have handlers
            signal.signal(signal.SIGCONT, self._continue)

    def now(self) -> float:
        """The time on this clock."""
        self._last = time.monotonic()
        return self._last - self._stopped

    def _continue(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        self._stopped += now - self._last
        self._last = now


class Speed:
    """Looks at how much is done; the rate between the last and one about a minute before.

    >>> speed = Speed()
    >>> for now, done in ((0, 0), (40, 400), (80, 1200), (120, 2000)):
    ...     speed.look(now, done)
    >>> speed.rate
    20.0
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[float | int, float | int]] = deque()

    def look(self, now: float | int, done: float | int) -> None:
        """Take in how much is done now."""
        if self._looks and done < self._looks[-1][1]:  # it was begun again
            self._looks.clear()
        self._looks.append((now, done))
        while len(self._looks) > 2 and self._looks[1][0] <= now - WINDOW:
            self._looks.popleft()

    @property
    def last(self) -> tuple[float | int, float | int] | None:
        """Time and amount of the last look; None before the first."""
        return self._looks[-1] if self._looks else None

    @property
    def rate(self) -> float | None:
        """Amount per second; None as long as nothing has moved."""
        if not self._looks:
            return None
        (then, before), (now, done) = self._looks[0], self._looks[-1]
        return (done - before) / (now - then) if done > before and now > then else None


class StepTimes:
    """How long steps take that are much alike; those that wait for a compilation do not count.

    >>> times = StepTimes()
    >>> for done, now in enumerate((0.0, 3.0, 3.5, 6.5, 7.0, 7.5)):
    ...     times.look(now, done)
    >>> times.seconds_each
    0.5
    """

    def __init__(self) -> None:
        self._last: tuple[float | int, float | int] | None = None
        self._seconds: deque[float] = deque(maxlen=STEPS)

    def look(self, now: float | int, done: float | int) -> None:
        """Take in how many steps are done now."""
        if self._last is not None and done > self._last[1]:
            self._seconds.append((now - self._last[0]) / (done - self._last[1]))
        self._last = now, done

    @property
    def seconds_each(self) -> float | None:
        """The mean over steps that were not held up; None as long as there is none."""
        if not self._seconds:
            return None
        most = OUTLIER * statistics.median(self._seconds)
        return statistics.fmean(took for took in self._seconds if took <= most) or None
