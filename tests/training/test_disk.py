"""The files of a run: all are documented."""

from pathlib import Path

from constrained_dnc.choices import RULES
from constrained_dnc.training import disk

DOCUMENT = Path(__file__).parents[2] / "docs" / "runs.md"


def test_every_file_is_documented():
    names = [disk.CONFIG, disk.STATUS, disk.METRICS, disk.LOCK, disk.FREE_CAPACITY, disk.FRONTIER]
    names += [disk.FRONTIER_PICTURE, *disk.CHECKPOINTS, *disk.SELECTED.values()]
    names += ["nonfinite/iteration-ITERATION.safetensors", "evaluation.parquet"]
    first_cells = [line.split("|")[1] for line in DOCUMENT.read_text().splitlines() if "|" in line]
    table = " ".join(first_cells)
    assert [name for name in names if f"`{name}`" not in table] == []
    assert disk.SELECTED.keys() == {*RULES}


def test_kept_parameters_are_listed_by_iteration(tmp_path):
    assert disk.kept_iterations(tmp_path) == []
    for iteration in (12, 7, 12_345_678):
        path = disk.kept_file(tmp_path, iteration)
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert path.name == "iteration-12345678.safetensors"
    (path.parent / "iteration-x.safetensors").touch()  # not ours
    assert disk.kept_iterations(tmp_path) == [7, 12, 12_345_678]
