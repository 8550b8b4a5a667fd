"""Score over length and memory size."""

import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from constrained_dnc.evaluation.frontier import (
    default_lengths,
    default_memory_sizes,
    draw_frontier,
    map_frontier,
    score_grid,
)
from constrained_dnc.evaluation.lengths import evaluate
from constrained_dnc.training.loop import train
from tiny_runs import tiny_config


def test_every_score_finds_its_place():
    rows = [
        {"length": length, "memory": memory, "memory_size": size, "score": score}
        for memory, size, length, score in [
            ("given", 50, 2, 50.2),
            ("trained", 4, 10, 5.0),
            ("growing", 4, 2, 0.5),
            ("trained", 4, 2, 4.2),
        ]
    ]
    lengths, memory_sizes, scores = score_grid(pa.Table.from_pylist(rows))
    assert (lengths, memory_sizes) == ([2, 10], [4, 50, "growing"])
    np.testing.assert_array_equal(scores, [[4.2, 5.0], [50.2, np.nan], [0.5, np.nan]])


def test_the_map_is_the_evaluation_of_every_pair(tmp_path):
    run = train(tiny_config(iterations=10), tmp_path / "run", threads=1)
    assert default_lengths(run) == [1, 2, 3, 4]
    assert default_memory_sizes(run) == [2, 4, 6, 8, 16, 40, "growing"]
    told = []
    table = map_frontier(run, [1, 3], [4, 9, "growing"], 2, lambda *step: told.append(step))
    assert told[-1][0] == told[-1][1] > 0
    lengths, memory_sizes, scores = score_grid(table)
    for place, memory_size in enumerate(memory_sizes):
        alone = evaluate(
            run, lengths=lengths, memory_sizes=[memory_size], batches=2, store=False
        ).column("score")
        np.testing.assert_allclose(scores[place], alone.to_pylist())
    assert pq.read_table(run.folder / "frontier.parquet").equals(table)
    assert not list(run.folder.glob("evaluation-*"))

    picture = draw_frontier(run, table).read_bytes()
    assert picture.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", picture[16:24])
    assert width > height > 200
