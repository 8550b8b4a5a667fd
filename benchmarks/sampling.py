"""Processor time to sample a batch of 64: the mean over L = 5..15, and L = 1000.

python benchmarks/sampling.py
"""

from __future__ import annotations

from time import process_time

from constrained_dnc.tasks import AbstractTask, get_task, task_names

BATCH_SIZE = 64


def mean_milliseconds(task: AbstractTask, lengths: range, repeats: int) -> float:
    """The mean processor time to sample one batch."""
    task.sample(0, BATCH_SIZE, lengths[0])
    start = process_time()
    for repeat in range(repeats):
        for length in lengths:
            task.sample((repeat, length), BATCH_SIZE, length)
    return 1000 * (process_time() - start) / (repeats * len(lengths))


if __name__ == "__main__":
    for name in task_names():
        short = mean_milliseconds(get_task(name), range(5, 16), repeats=30)
        long = mean_milliseconds(get_task(name), range(1000, 1001), repeats=3)
        print(f"{name:16} L = 5..15: {short:6.3f} ms   L = 1000: {long:6.1f} ms")
