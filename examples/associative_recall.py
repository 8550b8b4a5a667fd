"""Associative recall: after pairs of key and value, one key is shown; its value is the answer.

    cdnc show examples/associative_recall.py:AssociativeRecall
    cdnc train examples/associative_recall.py:AssociativeRecall --preset smoke

The length is the number of pairs. Keys are different numbers in 8 bits (up to 256
pairs), values are 4 random bits; the last input channel marks the query.
"""

import numpy as np

from constrained_dnc import AbstractTask


class AssociativeRecall(AbstractTask):
    name = "associative-recall"
    summary = "the value that was stored with the queried key"

    def sample(self, key, batch_size, length):
        rng = np.random.default_rng(key)
        order = rng.permuted(np.tile(np.arange(256), (batch_size, 1)), axis=1).T
        keys = order[np.arange(length) % 256, :, None] >> np.arange(8) & 1
        values = rng.integers(2, size=(length, batch_size, 4))
        query = rng.integers(length, size=batch_size), np.arange(batch_size)
        inputs = np.zeros((length + 2, batch_size, 13))
        targets = np.zeros((length + 2, batch_size, 4))
        inputs[:length, :, :8], inputs[:length, :, 8:12] = keys, values
        inputs[length, :, :8], inputs[length, :, 12] = keys[query], 1
        targets[-1] = values[query]
        return inputs, targets, np.arange(length + 2)[:, None] > np.full(batch_size, length)
