"""Trees of arrays, apart from where they are used."""

from __future__ import annotations

import weakref

import equinox as eqx
import numpy as np

from constrained_dnc.model.leaves import with_fields


class Pair(eqx.Module):
    first: np.ndarray
    second: np.ndarray


def test_a_copy_frees_its_arrays():
    first = np.zeros(3)
    is_alive = weakref.ref(first)
    copied = with_fields(Pair(first, np.ones(3)), second=np.zeros(2))
    assert copied.first is first
    assert copied.second.shape == (2,)
    del first, copied
    assert is_alive() is None
