"""The files of a run: every name is documented, and what is written is found again."""

from pathlib import Path

from constrained_dnc.choices import RULES
from constrained_dnc.training import disk

DOCUMENT = Path(__file__).parents[2] / "docs" / "runs.md"


def test_every_file_is_documented():
    names = [disk.CONFIG, disk.STATUS, disk.METRICS, disk.LOCK, disk.FREE_CAPACITY, disk.FRONTIER]
    names += [disk.FRONTIER_PICTURE, *disk.CHECKPOINTS, *disk.SELECTED.values()]
    names += ["nonfinite/iteration-ITERATION.safetensors", "evaluation-RULE-SIZE.parquet"]
    first_cells = [line.split("|")[1] for line in DOCUMENT.read_text().splitlines() if "|" in line]
    table = " ".join(first_cells)
    assert [name for name in names if f"`{name}`" not in table] == []
    assert disk.SELECTED.keys() == {*RULES}


def test_kept_and_evaluated_files_are_found_by_their_names(tmp_path):
    assert disk.kept_iterations(tmp_path) == []
    for iteration in (12, 7, 12_345_678):
        path = disk.kept_file(tmp_path, iteration)
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert path.name == "iteration-12345678.safetensors"
    (path.parent / "iteration-x.safetensors").touch()  # not ours
    assert disk.kept_iterations(tmp_path) == [7, 12, 12_345_678]
    for rule, size in (("unseen", 50), ("unseen", "growing"), ("seen", 50)):
        disk.evaluation_file(tmp_path, rule, size).touch()
    found = [path.name for path in disk.evaluation_files(tmp_path, "unseen")]
    assert found == ["evaluation-unseen-50.parquet", "evaluation-unseen-growing.parquet"]
