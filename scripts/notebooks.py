"""Run the notebooks in examples/ and store their outputs, figures as PNG.

pip install nbclient ipykernel kaleido
python scripts/notebooks.py

Kaleido draws with Chrome or Chromium.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"
DRAW_AS_PNG = "import plotly.io\nplotly.io.renderers.default = 'png'"


def main() -> None:
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        notebook.cells.insert(0, nbformat.v4.new_code_cell(DRAW_AS_PNG))
        with TemporaryDirectory() as folder:
            resources = {"metadata": {"path": folder}}
            NotebookClient(
                notebook, timeout=1200, resources=resources, record_timing=False
            ).execute()
        del notebook.cells[0]
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        for count, cell in enumerate(code, start=1):
            cell.execution_count = count
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = count
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
