"""What a larger memory costs a forward pass, for both look-ups.

python benchmarks/memory_sizes.py

Sort with L = 20 (42 steps), batch of 64, the paper's model, fused on one core, in turns.
With the look-up over used slots only touched slots are visited.

Last numbers (two cores, AVX-512, other work on them; milliseconds):

| | N = 50 | 100 | 500 | 1000 |
|---|---|---|---|---|
| every slot | 14.6 | 25.9 | 240.4 | 1117.9 |
| used slots | 14.7 | 22.3 | 25.4 | 22.8 |
"""

from __future__ import annotations

from time import process_time

import jax
import numpy as np

from constrained_dnc import build_dnc, get_approach, get_task
from constrained_dnc.model.fused import FusedUnroll

SIZES, TURNS = (50, 100, 500, 1000), 5


def measure(approach: str) -> dict[int, float]:
    """Milliseconds of the fastest forward pass by number of slots."""
    task = get_task("sort")
    model = build_dnc(get_approach(approach), task, key=jax.random.key(0))
    inputs = np.asarray(task.sample(0, 64, 20).inputs)
    kernel, fastest = FusedUnroll(), dict.fromkeys(SIZES, float("inf"))
    for _ in range(TURNS):
        for size in SIZES:
            start = process_time()
            kernel.forward(model.with_memory_size(size), inputs)
            fastest[size] = min(fastest[size], 1000 * (process_time() - start))
    return fastest


if __name__ == "__main__":
    for approach in ("compr+reg", "compr+reg+used"):
        fastest = measure(approach)
        times = "  ".join(f"N = {size}: {fastest[size]:.1f}" for size in SIZES)
        print(f"{approach:15}{times} ms  (1000 / 100: {fastest[1000] / fastest[100]:.2f})")
