"""Build the documentation site: the pages there are, and a reference made from the docstrings.

    python scripts/build_docs.py [FOLDER]   # by default build/docs

The pages are taken unchanged, as they read on GitHub; README.md is the first one.
A page without a place in `SECTIONS`, a link that leads nowhere and any other warning is an error.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from constrained_dnc import HOMES

ROOT = Path(__file__).parents[1]
PACKAGE = "constrained_dnc"
SOURCE = ROOT / "src" / PACKAGE
COPIED = (
    "*.md",
    "LICENSE",
    "CITATION.cff",
    "docs/**/*",
    "benchmarks/*",
    "examples/*",
    "results/*.json",
)
SECTIONS = {
    "What is it, and does it work?": ("docs/idea", "docs/results", "docs/gallery", "docs/faq"),
    "How do I begin?": ("docs/install", "docs/tutorial", "docs/training", "docs/runs"),
    "What happens inside?": (
        "docs/explorer",
        "docs/machine",
        "docs/memory-size",
        "docs/selection",
    ),
    "How do I compare?": ("docs/reproduce", "docs/report", "docs/cluster", "docs/gpu"),
    "How do I change it?": ("docs/extending", "docs/loops", "docs/pytorch"),
    "Is it right?": (
        "docs/equations",
        "docs/fidelity",
        "docs/parity",
        "docs/results-tables",
        "reference/index",
        "CHANGELOG",
    ),
    "How is it built?": (
        "CONTRIBUTING",
        "docs/kernel",
        "docs/decisions/README",
        "benchmarks/README",
        "SECURITY",
    ),
}
UNDOCUMENTED = ("__main__", "cli")
"""The command line has its own help."""


def build(folder: Path) -> Path:
    """Make the site and return its first page."""
    pages, site = folder / "pages", folder / "site"
    for old in (pages, site):  # of pages that there are no more
        shutil.rmtree(old, ignore_errors=True)
    for path in _copied():
        target = pages / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    trees = "\n".join(_tree(names, title) for title, names in SECTIONS.items())
    _write(pages / "index.md", f"{(ROOT / 'README.md').read_text()}\n{trees}")
    (pages / "README.md").unlink()
    decisions = pages / "docs" / "decisions" / "README.md"
    numbered = sorted(path.stem for path in decisions.parent.glob("0*.md"))
    _write(decisions, f"{decisions.read_text()}\n{_tree(numbered)}")
    _write_reference(pages / "reference")
    sphinx = [sys.executable, "-m", "sphinx", "-q", "--fail-on-warning", "--keep-going"]
    options = ["-b", "html", "-c", str(ROOT / "docs"), "-d", str(folder / "cache")]
    subprocess.run([*sphinx, *options, str(pages), str(site)], check=True)
    return site / "index.html"


def _copied() -> Iterator[Path]:
    for pattern in COPIED:
        yield from (
            path for path in ROOT.glob(pattern) if path.is_file() and path.name != "conf.py"
        )


def _tree(names: Iterable[str], title: str = "") -> str:
    """A list of pages for the margin."""
    options = f":caption: {title}\n" if title else ""
    return f"```{{toctree}}\n:hidden:\n{options}\n" + "\n".join(names) + "\n```\n"


def _write_reference(folder: Path) -> None:
    """A page of the names of `import constrained_dnc`, and one per part of the package."""
    modules: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        names = [part for part in parts if part != "__init__"]
        if names and names[0] not in UNDOCUMENTED:
            modules.setdefault(names[0], []).append(".".join([PACKAGE, *names]))
    for part, names in modules.items():
        title = f"{PACKAGE}.{part}"
        sections = "\n".join(_section(name, name != title) for name in names)
        _write(folder / f"{part}.rst", sections)
    offered = [f"{home}.{name}" for home, names in HOMES.items() for name in names.split()]
    lines = [
        _heading("Reference", "="),
        f"What ``import {PACKAGE}`` offers; below, every module of the package.\n",
        ".. autosummary::\n",
        *(f"   ~{PACKAGE}.{name}" for name in offered),
        "\n.. toctree::\n",
        *(f"   {part}" for part in modules),
    ]
    _write(folder / "index.rst", "\n".join(lines) + "\n")


def _section(module: str, is_inner: bool) -> str:
    return f"{_heading(module, '-' if is_inner else '=')}\n.. automodule:: {module}\n"


def _heading(title: str, line: str) -> str:
    return f"{title}\n{line * len(title)}\n"


def _write(path: Path, text: str) -> None:
    """Write a page that changed; Sphinx reads only those again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


if __name__ == "__main__":
    print(build(Path(sys.argv[1] if len(sys.argv) > 1 else "build/docs")))
