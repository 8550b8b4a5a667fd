"""Evaluation: samples x steps per second and peak memory, for both memory sizes and backends.

python benchmarks/evaluation.py           a short length for each memory size
python benchmarks/evaluation.py 500 1000  one memory size and length, with both backends

Batch of 64, the paper's model, copy. Every measurement runs in a new process, so that the peak
memory is its own; up to a length of 100 the backend `pure` is timed after its compilation.

Last numbers (two cores, AVX2, other work on them; thousands of samples x steps per second, MB):

| | N = 50, L = 50 | N = 500, L = 20 | N = 500, L = 1000 |
|---|---|---|---|
| fused | 51, 337 MB | 5.7, 339 MB | 11.6, 470 MB |
| pure | 51, 387 MB | 1.6, 479 MB | 0.6, 546 MB |
"""

from __future__ import annotations

import resource
import subprocess
import sys
from time import perf_counter

import jax

from constrained_dnc import ModelConfig, build_dnc, choose_backend, get_approach, get_task

BATCH_SIZE = 64
SHORT = ((50, 50), (500, 20))


def measure(backend: str, memory_size: int, length: int) -> str:
    """One line: the speed of the forward pass and the memory of the process."""
    task, approach = get_task("copy"), get_approach("compr+reg")
    model = build_dnc(approach, task, ModelConfig(memory_size), key=jax.random.key(0))
    computing = choose_backend(backend, model, task.loss)
    batch = task.sample(0, BATCH_SIZE, length)
    if length <= 100:
        jax.block_until_ready(computing.forward(model, batch.inputs).outputs)
    start = perf_counter()
    jax.block_until_ready(computing.forward(model, batch.inputs).outputs)
    seconds = perf_counter() - start
    speed = BATCH_SIZE * task.num_steps(length) / seconds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    return (
        f"{backend:5}  N = {memory_size:3}  L = {length:4}  {speed:8.0f} samples x steps / s  "
        f"{seconds:6.1f} s per batch  peak {peak:5.0f} MB"
    )


if __name__ == "__main__":
    args = sys.argv[1:]
    if len(args) == 3:
        print(measure(args[0], int(args[1]), int(args[2])))
        sys.exit()
    cases = [(int(args[0]), int(args[1]))] if args else SHORT
    for memory_size, length in cases:
        for backend in ("fused", "pure"):
            arguments = [backend, str(memory_size), str(length)]
            subprocess.run([sys.executable, __file__, *arguments], check=True)
