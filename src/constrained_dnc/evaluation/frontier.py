"""Score over input length and memory size for one trained model."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pyarrow as pa
from jaxtyping import Float

from constrained_dnc.choices import EXTENSION, SelectionRule
from constrained_dnc.config import parse_lengths
from constrained_dnc.evaluation.lengths import Planned, evaluate
from constrained_dnc.evaluation.memories import size_in
from constrained_dnc.files import make_folder, write_atomically
from constrained_dnc.model.config import GROWING, MemorySize
from constrained_dnc.published import MASTERED, THRESHOLD
from constrained_dnc.storage import write_table
from constrained_dnc.training.disk import FRONTIER, FRONTIER_PICTURE
from constrained_dnc.training.run import Run

mpl.use("Agg")
from matplotlib.figure import Figure


def default_lengths(run: Run) -> list[int]:
    """Up to twenty lengths, spread over those the run is evaluated at."""
    lengths = parse_lengths(run.config.evaluation.lengths)
    return list(lengths[:: -(-len(lengths) // 20)])


def default_memory_sizes(run: Run) -> list[MemorySize]:
    """From half to ten times the slots of training, and a growing memory."""
    trained = run.config.model.memory_size
    sizes = sorted({max(1, halves * trained // 2) for halves in (1, 2, 3, 4, 8, 2 * EXTENSION)})
    return [*sizes, GROWING]


def map_frontier(
    run: Run,
    lengths: Sequence[int],
    memory_sizes: Sequence[MemorySize],
    batches: int,
    progress: Callable[[float, float, Planned], None] | None = None,
    selection: SelectionRule | None = None,
) -> pa.Table:
    """Evaluate every pair of length and memory size, into RUN/frontier.parquet."""
    table = evaluate(
        run,
        lengths=lengths,
        memory_sizes=memory_sizes,
        batches=batches,
        selection=selection,
        progress=progress,
        store=False,
    )
    make_folder(run.products)
    write_table(run.products / FRONTIER, table)
    return table


def score_grid(
    table: pa.Table,
) -> tuple[list[int], list[MemorySize], Float[np.ndarray, "memory_sizes lengths"]]:
    """Lengths, memory sizes (a growing one last) and the score of every pair."""
    rows = table.select(["length", "memory", "memory_size", "score"]).to_pylist()
    lengths = sorted({row["length"] for row in rows})
    found = set(map(size_in, rows))
    memory_sizes: list[MemorySize] = [*sorted(size for size in found if size != GROWING)]
    memory_sizes += [GROWING] if GROWING in found else []
    scores = np.full((len(memory_sizes), len(lengths)), np.nan)
    for row in rows:
        scores[memory_sizes.index(size_in(row)), lengths.index(row["length"])] = row["score"]
    return lengths, memory_sizes, scores


def draw_frontier(run: Run, table: pa.Table) -> Path:
    """The heat map, into RUN/frontier.png; dots mark what is at least 95 % right."""
    config = run.config
    lengths, memory_sizes, scores = score_grid(table)
    size = (max(6.0, 0.32 * len(lengths) + 2.5), max(3.0, 0.4 * len(memory_sizes) + 1.8))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(
        100 * scores, origin="lower", aspect="auto", vmin=0, vmax=100, cmap="cividis"
    )
    axes.set_xticks(range(len(lengths)), [str(length) for length in lengths], rotation=90)
    axes.set_yticks(range(len(memory_sizes)), [str(size) for size in memory_sizes])
    if config.model.memory_size in memory_sizes:
        trained_with = memory_sizes.index(config.model.memory_size)
        axes.get_yticklabels()[trained_with].set_fontweight("bold")
    axes.set_xlabel("input length")
    axes.set_ylabel("memory size")
    trained = f"trained with {config.model.memory_size} slots"
    lengths_seen = f"lengths {config.training.min_length} to {config.training.max_length}"
    axes.set_title(
        f"{run.task.name}, {config.approach.name}: {trained}, {lengths_seen}", fontsize=10
    )
    for row, column in zip(*np.nonzero(scores >= MASTERED), strict=True):
        axes.plot(column, row, marker="o", markersize=3, color="black")
    figure.colorbar(image, label=f"{run.task.score_kind}, % (dots: at least {100 * THRESHOLD:.0f})")
    path = run.products / FRONTIER_PICTURE
    picture = io.BytesIO()
    figure.savefig(picture, dpi=120)
    write_atomically(path, picture.getvalue())
    return path
