"""Score over length and memory size."""

import struct

import numpy as np
import pandas as pd

from constrained_dnc.evaluation.frontier import (
    default_lengths,
    default_memories,
    draw_frontier,
    score_grid,
)
from constrained_dnc.evaluation.scoring import evaluate
from constrained_dnc.training.loop import train
from tiny_runs import tiny_config


def test_every_score_finds_its_place():
    rows = [("50", 2, 50.2), ("4", 10, 5.0), ("growing", 2, 0.5), ("4", 2, 4.2)]
    grid = score_grid(pd.DataFrame(rows, columns=["memory", "length", "score"]))
    assert (list(grid.columns), list(grid.index)) == ([2, 10], ["4", "50", "growing"])
    np.testing.assert_array_equal(grid, [[4.2, 5.0], [50.2, np.nan], [0.5, np.nan]])


def test_the_map_has_every_pair(tmp_path):
    run = train(tiny_config(iterations=10), tmp_path / "run", threads=1)
    assert default_lengths(run) == [1, 2, 3, 4]
    assert default_memories(run) == [2, 4, 6, 8, 16, 40, "growing"]
    table = evaluate(run, lengths=[1, 3], memories=[4, 9, "growing"], batches=2)
    assert score_grid(table).shape == (3, 2)
    draw_frontier(run, table, tmp_path / "map.png")
    picture = (tmp_path / "map.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", picture[16:24])
    assert width > height > 200
