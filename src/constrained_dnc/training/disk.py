"""The folder of a run: what its files are called.

config.json              what the run is made from
status.json              how far it is, and why it ended
metrics.jsonl            a line of JSON per measurement
checkpoint-a.safetensors, checkpoint-b.safetensors  all that a resume needs, by turns
selected.safetensors, selected-RULE.safetensors     the parameters that a rule selected
nonfinite/iteration-ITERATION.safetensors           what the first skipped updates began with
lock                     held by the process that trains
evaluation.parquet       scores, one row per rule, memory and length
free-capacity.json       the least free capacity of selected parameters, for a growing memory
frontier.parquet, frontier.png  scores over length and memory size
"""

from __future__ import annotations

from pathlib import Path

from constrained_dnc.choices import SelectionRule

CONFIG, STATUS, METRICS, LOCK = "config.json", "status.json", "metrics.jsonl", "lock"
CHECKPOINTS = ("checkpoint-a.safetensors", "checkpoint-b.safetensors")
SELECTED: dict[SelectionRule, str] = {
    "unseen": "selected.safetensors",
    "seen": "selected-seen.safetensors",
    "score": "selected-score.safetensors",
}
NONFINITE = "nonfinite"
FREE_CAPACITY = "free-capacity.json"
FRONTIER, FRONTIER_PICTURE = "frontier.parquet", "frontier.png"


def kept_file(run: Path, iteration: int) -> Path:
    """Where the parameters of a skipped update are kept."""
    return run / NONFINITE / f"iteration-{iteration:07d}.safetensors"


def kept_iterations(run: Path) -> list[int]:
    """The skipped updates whose parameters are kept."""
    files = (run / NONFINITE).glob("iteration-*.safetensors")
    numbers = (file.stem.removeprefix("iteration-") for file in files)
    return sorted(int(number) for number in numbers if number.isdecimal())
