"""The snippets and `$ ` commands of the documents run, in order, in an empty folder.

```python           is executed, all blocks of a page in one namespace
```python file=NAME is written to that file first, then executed
```console          lines that start with `$ ` are run; `make` targets and `pip` extras must exist
```bash             is not run: studies of minutes to days, a cluster, a page that is served until
                    it is stopped, what an empty folder lacks, such as a clone or a STUDY
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
BLOCK = re.compile(
    r"^```(?P<kind>python|console)(?: file=(?P<file>\S+))?\n(?P<body>.*?)^```", re.M | re.S
)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
MINUTES = {"docs/cluster.md", "docs/reproduce.md"}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(p, marks=[pytest.mark.slow] if str(p.relative_to(ROOT)) in MINUTES else [])
        for p in PAGES
    ],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_snippets_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in BLOCK.finditer(page.read_text()):
        if block["kind"] == "console":
            for line in block["body"].splitlines():
                if line.startswith("$ "):
                    run_command(line[2:].split("  #")[0])
            continue
        if block["file"]:
            Path(block["file"]).write_text(block["body"])
        exec(compile(block["body"], f"{page.name}", "exec", dont_inherit=True), namespace)


def run_command(command: str) -> None:
    if command.startswith("make "):
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
        assert command.split()[1] in targets
        return
    if command.startswith("source .venv/"):
        assert "VENV := .venv\n" in (ROOT / "Makefile").read_text()
        return
    if command.startswith("pip install "):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        extras = re.fullmatch(r"pip install '?\.(?:\[([\w,]+)\])?'?", command.strip())
        assert extras, command
        assert set(filter(None, [extras[1]])) <= project["optional-dependencies"].keys()
        return
    python, root = shlex.quote(sys.executable), shlex.quote(str(ROOT))
    command = re.sub(
        r"(^|\| )cdnc\b", lambda found: f"{found[1]}{python} -m constrained_dnc", command
    )
    command = re.sub(r"^python\b", lambda _: python, command)
    command = command.replace("tests/data/", f"{root}/tests/data/").replace(
        "benchmarks/", f"{root}/benchmarks/"
    )
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_decision_is_listed():
    folder = ROOT / "docs" / "decisions"
    listed = LINK.findall((folder / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(path.name for path in folder.glob("0*.md"))
