"""Histograms of the write and read modes of the memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float, Int

BINS = 20
"""Bins of a histogram on [0, 1]."""
CONTENT = 2  # order of the read modes: backward, forward, content


def analyse_modes(
    allocation_gate: Float[np.ndarray, "time batch"],
    read_modes: Float[np.ndarray, "time batch reads 3"],
    encoding_steps: int,
    is_decoding: Bool[np.ndarray, "time batch"] | None = None,
) -> Mapping[str, Int[np.ndarray, "bins"]]:
    """Histograms of both modes in both phases, by the names they are stored under.

    Write mode: the allocation gate, 0 = by content, 1 = a newly allocated slot. Read mode: the
    content component, 0 = sequential, 1 = by content, over all read heads. `is_decoding` marks
    the steps that give the answer (not a query, not padding); by default all after the encoding.
    """
    modes = {"write_mode": allocation_gate, "read_mode": read_modes[..., CONTENT]}
    is_encoding = np.zeros(allocation_gate.shape, np.bool_)
    is_encoding[:encoding_steps] = True
    phases = {
        "encoding": is_encoding,
        "decoding": ~is_encoding if is_decoding is None else is_decoding,
    }
    return {
        f"{mode}_{phase}": np.histogram(values[steps], BINS, (0.0, 1.0))[0]
        for mode, values in modes.items()
        for phase, steps in phases.items()
    }
