"""Repeat copy: a sequence of bit vectors, then a number; the answer is that many copies of it.

    cdnc show examples/repeat_copy.py:RepeatCopy
    cdnc train examples/repeat_copy.py:RepeatCopy --preset smoke

The length is that of the sequence, of 4 bits a step; it is repeated 1 to 3 times, and an end marker
follows. The number of repetitions differs between samples, so the loss ends at different steps.
"""

import numpy as np

from constrained_dnc import AbstractTask


class RepeatCopy(AbstractTask):
    name = "repeat-copy"
    summary = "a sequence of bit vectors, repeated 1 to 3 times"

    def sample(self, key, batch_size, length):
        rng = np.random.default_rng(key)
        bits = rng.integers(2, size=(length, batch_size, 4))
        repeats = rng.integers(1, 4, size=batch_size)
        step = np.arange(4 * length + 2)[:, None] - (length + 1)  # 0 where the answer begins
        inputs, targets = np.zeros((2, 4 * length + 2, batch_size, 5))
        inputs[:length, :, :4], inputs[length, :, 4] = bits, repeats / 3
        targets[length + 1 : -1, :, :4] = np.tile(bits, (3, 1, 1))
        targets *= (step < repeats * length)[:, :, None]
        targets[:, :, 4] = step == repeats * length  # the end marker
        return inputs, targets, (step >= 0) & (step <= repeats * length)
