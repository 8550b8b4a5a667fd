"""The snippets and `$ ` commands of the documents run, in order, in an empty folder.

```python           is executed, all blocks of a page in one namespace
```python file=NAME is written to that file first, then executed
```yaml file=NAME   is written to that file
```python needs=X   is executed where the package X is installed
```console          lines that start with `$ ` are run; `make` targets and `pip` extras must exist
```bash             is not run: studies of minutes to days, a cluster, a page that is served until
                    it is stopped, what an empty folder lacks, such as a clone or a STUDY
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from constrained_dnc.cli import main

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
BLOCK = re.compile(
    r"^```(?P<kind>python|console|yaml)(?: needs=(?P<needs>\S+))?(?: file=(?P<file>\S+))?\n"
    r"(?P<body>.*?)^```",
    re.M | re.S,
)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
MINUTES = {
    "README.md",
    "docs/cluster.md",
    "docs/reproduce.md",
    "docs/machine.md",
    "docs/tutorial.md",
}


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
        if block["needs"] and importlib.util.find_spec(block["needs"]) is None:
            continue
        if block["file"]:
            Path(block["file"]).write_text(block["body"])
        if block["kind"] == "python":
            exec(compile(block["body"], f"{page.name}", "exec", dont_inherit=True), namespace)


def run_command(command: str) -> None:
    """Run a command here, or in a shell where it needs one or starts processes of its own."""
    if command.startswith("make "):
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
        assert command.split()[1] in targets
    elif command.startswith("source .venv/"):
        assert "VENV := .venv\n" in (ROOT / "Makefile").read_text()
    elif command.startswith("pip install "):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        extras = re.fullmatch(r"pip install '?\.(?:\[([\w,]+)\])?'?", command.strip())
        assert extras, command
        assert set(filter(None, [extras[1]])) <= project["optional-dependencies"].keys()
    else:
        command = re.sub(r"\b(tests/data|benchmarks)/", rf"{shlex.quote(str(ROOT))}/\1/", command)
        if command.startswith("cdnc ") and not re.search(r"[|>]|cdnc (?:study|gather)\b", command):
            assert run_here(shlex.split(command)[1:]) == 0, command
        else:
            run_in_shell(command)


def run_here(arguments: list[str]) -> object:
    """Run `cdnc` in this process, which saves the import of JAX, and return its exit code."""
    try:
        return main(arguments) or 0
    except SystemExit as end:
        return end.code or 0


def run_in_shell(command: str) -> None:
    python = shlex.quote(sys.executable)
    command = re.sub(r"(^|\| )cdnc\b", rf"\1{python} -m constrained_dnc", command)
    command = re.sub(r"^python\b", python, command)
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize(
    ("page", "name"), [("pytorch", "pytorch_forward.py"), ("extending", "vq.py")]
)
def test_a_page_shows_the_example(page, name):
    example = (ROOT / "examples" / name).read_text("utf-8")
    blocks = BLOCK.finditer((ROOT / "docs" / f"{page}.md").read_text("utf-8"))
    assert example in [block["body"] for block in blocks if block["file"] == name]


def test_every_decision_is_listed():
    folder = ROOT / "docs" / "decisions"
    listed = LINK.findall((folder / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(path.name for path in folder.glob("0*.md"))


def test_what_is_said_to_be_decided_somewhere_is_there():
    """Names in the table of CONTRIBUTING.md are defined in the files beside them."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = text.partition("## Where it is decided")[2].partition("\n## ")[0]
    places = re.findall(r"((?:`\w+`(?: and )?)+) in `([\w/]+\.py)`", rows)
    assert places
    for names, file in places:
        source = (ROOT / "src" / "constrained_dnc" / file).read_text(encoding="utf-8")
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"(def|class) {name}\b|^{name}\b.*=", source, re.M), (file, name)
