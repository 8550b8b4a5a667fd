"""The oldest versions that `pyproject.toml` admits train, run a study and draw a page."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMMANDS = (
    "train copy --preset smoke --run-dir run",
    "evaluate run --lengths 2..4",
    "predict run 31",
    "study --preset smoke --study study --workers 1",
    "report study --figures all",
    "explore run 31 --html page.html",
)


@pytest.mark.slow
def test_the_lowest_versions_work(tmp_path):
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("needs uv, which installs lowest versions")
    venv = tmp_path / "venv"

    def run(*command: object) -> None:
        environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
        done = subprocess.run(
            list(map(str, command)),
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout

    run(uv, "venv", "--quiet", "--python", sys.executable, venv)
    install = ["pip", "install", "--quiet", "--python", venv / "bin" / "python"]
    run(uv, *install, "--resolution", "lowest-direct", ROOT)
    for command in COMMANDS:
        run(venv / "bin" / "cdnc", *command.split())
    assert (tmp_path / "study" / "report" / "index.html").exists()
    assert (tmp_path / "page.html").exists()
