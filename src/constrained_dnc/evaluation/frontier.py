"""Score over input length and memory size for one trained model."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import pandas as pd

from constrained_dnc.choices import EXTENSION, Inference, SelectionRule
from constrained_dnc.config import parse_lengths
from constrained_dnc.evaluation.scoring import Progress, make_plan, measure
from constrained_dnc.evaluation.subject import subject_of
from constrained_dnc.files import make_folder, write_atomically, write_table
from constrained_dnc.model.config import GROWING, MemorySize, memory_order
from constrained_dnc.published import MASTERED, THRESHOLD
from constrained_dnc.training.disk import FRONTIER, FRONTIER_PICTURE
from constrained_dnc.training.run import Run

mpl.use("Agg")
from matplotlib.figure import Figure


def default_lengths(run: Run) -> list[int]:
    """Up to twenty of the lengths in the config of a run, evenly spread."""
    lengths = parse_lengths(run.config.evaluation.lengths)
    return list(lengths[:: -(-len(lengths) // 20)])


def default_memories(run: Run) -> list[MemorySize]:
    """From half to ten times the slots of training, and a growing memory."""
    trained = run.config.model.memory_size
    sizes = sorted({max(1, halves * trained // 2) for halves in (1, 2, 3, 4, 8, 2 * EXTENSION)})
    return [*sizes, GROWING]


def map_frontier(
    run: Run,
    lengths: Sequence[int],
    memories: Sequence[MemorySize],
    batches: int,
    folder: Path,
    progress: Progress | None = None,
    selection: SelectionRule | None = None,
    inference: Inference = "network",
) -> pd.DataFrame:
    """Evaluate every pair of length and memory, and store the table in FOLDER/frontier.parquet."""
    subject = subject_of(run, selection=selection, inference=inference)
    plan = make_plan(subject.settings, subject.training_slots, lengths, memories, batches)
    table = measure(subject, plan, subject.backend(), progress)
    make_folder(folder)
    write_table(folder / FRONTIER, table)
    return table


def score_grid(table: pd.DataFrame) -> pd.DataFrame:
    """The scores as a table: memories are rows, a growing one the last, and lengths columns."""
    grid = table.pivot(index="memory", columns="length", values="score")
    return grid.reindex(sorted(grid.index, key=memory_order))


def draw_frontier(run: Run, table: pd.DataFrame, folder: Path) -> Path:
    """Draw a heat map into FOLDER/frontier.png; dots mark scores of at least 95 %."""
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
    write_atomically(folder / FRONTIER_PICTURE, picture.getvalue())
    return folder / FRONTIER_PICTURE
