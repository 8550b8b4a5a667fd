"""The notebooks run from the first cell to the last, in an empty folder."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "examples").glob("*.ipynb"))


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem == "machine" else [])
        for path in NOTEBOOKS
    ],
)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    notebook = json.loads(path.read_text("utf-8"))
    for cell in notebook["cells"]:
        assert not cell.get("outputs")  # kept without results: those of this version are made here
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path.name}:{cell['id']}", "exec"), namespace)
