"""Score over input length and memory size for one trained model."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib as mpl
import pandas as pd

from constrained_dnc.config import EXTENSION, MASTERED, THRESHOLD, parse_lengths
from constrained_dnc.files import write_atomically
from constrained_dnc.model.config import GROWING, MemorySize, memory_order
from constrained_dnc.training.run import Run

mpl.use("Agg")
from matplotlib.figure import Figure


def default_lengths(run: Run) -> list[int]:
    """Up to twenty of the lengths in the config of a run, evenly spread."""
    lengths = parse_lengths(run.config.evaluation.lengths)
    return list(lengths[:: -(-len(lengths) // 20)])


def default_memories(run: Run) -> list[MemorySize]:
    """From half to ten times the slots of training, and a growing memory where it can grow."""
    trained = run.config.model.memory_size
    sizes = sorted({max(1, halves * trained // 2) for halves in (1, 2, 3, 4, 8, 2 * EXTENSION)})
    return [*sizes, GROWING] if run.config.approach.can_grow else [*sizes]


def score_grid(table: pd.DataFrame) -> pd.DataFrame:
    """The scores as a table: memories are rows, a growing one the last, and lengths columns."""
    grid = table.pivot(index="memory", columns="length", values="score")
    return grid.reindex(sorted(grid.index, key=memory_order))


def draw_frontier(run: Run, table: pd.DataFrame, path: Path) -> None:
    """Draw a heat map of evaluated scores into a PNG file; dots mark those of at least 95 %."""
    config, grid = run.config, score_grid(table)
    size = (max(6.0, 0.32 * grid.shape[1] + 2.5), max(3.0, 0.4 * len(grid) + 1.8))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(
        100 * grid.to_numpy(), origin="lower", aspect="auto", vmin=0, vmax=100, cmap="cividis"
    )
    axes.set_xticks(range(grid.shape[1]), [str(length) for length in grid.columns], rotation=90)
    axes.set_yticks(range(len(grid)), list(grid.index))
    for label in axes.get_yticklabels():
        if label.get_text() == str(config.model.memory_size):
            label.set_fontweight("bold")
    axes.set_xlabel("input length")
    axes.set_ylabel("memory size")
    slots = f"trained with {config.model.memory_size} slots"
    lengths = f"lengths {config.training.min_length} to {config.training.max_length}"
    axes.set_title(f"{run.task.name}, {config.approach.name}: {slots}, {lengths}", fontsize=10)
    for row, scores in enumerate(grid.to_numpy()):
        for column in (scores >= MASTERED).nonzero()[0]:
            axes.plot(column, row, marker="o", markersize=3, color="black")
    figure.colorbar(image, label=f"{run.task.score_kind}, % (dots: at least {100 * THRESHOLD:.0f})")
    picture = io.BytesIO()
    figure.savefig(picture, dpi=120)
    write_atomically(path, picture.getvalue())
