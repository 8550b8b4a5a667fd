"""The files of a run: all are documented."""

from pathlib import Path

from constrained_dnc.choices import RULES
from constrained_dnc.training import disk

DOCUMENT = Path(__file__).parents[2] / "docs" / "runs.md"


def test_every_file_is_documented():
    names = [disk.CONFIG, disk.STATUS, disk.METRICS, disk.LOCK, disk.FREE_CAPACITY, disk.FRONTIER]
    names += [*disk.CHECKPOINTS, *disk.SELECTED.values()]
    names += ["nonfinite/iteration-ITERATION.safetensors", "evaluation.parquet"]
    first_cells = [line.split("|")[1] for line in DOCUMENT.read_text().splitlines() if "|" in line]
    table = " ".join(first_cells)
    assert [name for name in names if f"`{name}`" not in table] == []
    assert disk.SELECTED.keys() == {*RULES}
