"""The package's public names, its version, and what it does not import before it is needed."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import constrained_dnc

HEAVY = {"dask", "distributed", "equinox", "jax", "matplotlib", "numpy", "optax", "pandas"}
HEAVY |= {"plotly", "pyarrow", "scipy", "sklearn"}


def test_every_public_name_is_listed_and_can_be_imported():
    tree = ast.parse(Path(constrained_dnc.__file__).read_text())
    for_type_checkers = {
        node.module.removeprefix("constrained_dnc."): {alias.name for alias in node.names}
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("constrained_dnc.")
    }
    homes = {module: set(names.split()) for module, names in constrained_dnc.HOMES.items()}
    assert homes == for_type_checkers
    assert {*constrained_dnc.__all__} == {"__version__"}.union(*homes.values())
    for name in constrained_dnc.__all__:
        assert getattr(constrained_dnc, name) is not None
    assert set(constrained_dnc.__all__) <= set(dir(constrained_dnc))
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        constrained_dnc.trian  # noqa: B018


def public_functions() -> Iterator[tuple[str, object]]:
    """Functions, and the methods that a class is the first to define."""
    for name in constrained_dnc.__all__:
        thing = getattr(constrained_dnc, name)
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing):
            for method in vars(thing):
                is_first = not any(method in vars(base) for base in thing.__mro__[1:])
                is_public = method == "__call__" or not method.startswith("_")
                function = getattr(thing, method)
                is_own = getattr(function, "__qualname__", "").startswith(f"{name}.")
                if is_first and is_public and is_own and inspect.isfunction(function):
                    yield f"{name}.{method}", function


def test_every_argument_of_a_public_function_is_documented():
    differences = {}
    for name, function in public_functions():
        names = set(inspect.signature(function).parameters) - {"self", "cls"}
        section = (inspect.getdoc(function) or "").partition("Args:\n")[2].partition("\n\n")[0]
        differences[name] = names ^ set(re.findall(r"^    (\w+): .", section, re.M))
    assert "train" in differences
    assert {name: names for name, names in differences.items() if names} == {}


def test_the_version_is_that_of_the_project():
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    assert constrained_dnc.__version__ == project["project"]["version"]


def test_the_version_of_a_source_tree_is_unknown(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert constrained_dnc.__version__ == "unknown"


@pytest.mark.parametrize(
    ("commands", "allowed"),
    [
        ((["--help"], ["--version"]), set()),
        ((["show"], ["train", "--help"], ["predict", "--help"]), {"numpy"}),
        ((["zoo"],), {"numpy", "pandas", "pyarrow"}),  # its scores are Parquet
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(commands, allowed):
    script = (
        "import sys\n"
        "from contextlib import suppress\n"
        "from constrained_dnc.cli import main\n"
        f"for command in {commands}:\n"
        "    with suppress(SystemExit):\n"
        "        main(command)\n"
        "print({name.partition('.')[0] for name in sys.modules}, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert ast.literal_eval(done.stderr) & HEAVY <= allowed
