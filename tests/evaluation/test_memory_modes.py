"""Histograms of the write and read modes."""

import numpy as np

from constrained_dnc.evaluation.analyses import analyse_modes


def test_phases_heads_and_the_content_component() -> None:
    gate = np.array([[0.01, 0.02], [0.51, 1.0], [0.99, 0.0]])
    modes = np.zeros((3, 2, 4, 3))
    modes[..., 0] = 1  # backward in the encoding phase
    modes[2] = [0, 0, 1]  # by content in the decoding phase
    counts = analyse_modes(gate, modes, encoding_steps=2)

    def filled(name: str) -> dict[int, int]:
        return {int(at): int(counts[name][at]) for at in np.flatnonzero(counts[name])}

    assert filled("write_mode_encoding") == {0: 2, 10: 1, 19: 1}
    assert filled("write_mode_decoding") == {0: 1, 19: 1}
    assert filled("read_mode_encoding") == {0: 16}
    assert filled("read_mode_decoding") == {19: 8}
    assert all(len(histogram) == 20 for histogram in counts.values())


def test_steps_that_give_no_answer_are_not_counted() -> None:
    gate = np.array([[0.1, 0.1], [0.3, 0.3], [0.5, 0.5], [0.72, 0.72]])
    answering = np.array([[False, False], [False, False], [True, True], [True, False]])
    counts = analyse_modes(gate, np.ones((4, 2, 1, 3)), 1, answering)
    assert counts["write_mode_encoding"].sum() == 2
    decoding = counts["write_mode_decoding"]
    assert (decoding[10], decoding[14], decoding.sum()) == (2, 1, 3)
