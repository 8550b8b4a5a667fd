"""The layers of CONTRIBUTING.md hold in the source, and functions and files stay short."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "constrained_dnc"
LONGEST_FUNCTION, LONGEST_FILE = 60, 450
MODULES = {
    ".".join(part for part in path.relative_to(SOURCE.parent).with_suffix("").parts): path
    for path in sorted(SOURCE.rglob("*.py"))
}
MODULES = {name.removesuffix(".__init__"): path for name, path in MODULES.items()}


def read_layers(text: str) -> dict[str, tuple[list[str], list[str]]]:
    """The parts and the allowed imports of every layer, from the table below the title Layers."""
    section = text.partition("\n## Layers\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    return {
        layer.strip(): (re.findall(r"`([\w./]+)`", parts), re.findall(r"\w+", allowed))
        for layer, _, parts, allowed in rows[1:]
    }


LAYERS = read_layers((ROOT / "CONTRIBUTING.md").read_text())
LAYER_OF_PART = {part: layer for layer, (parts, _) in LAYERS.items() for part in parts}


def part_of(module: str) -> str:
    """The module or package directly below `constrained_dnc`."""
    return [*module.split("."), "__init__"][1]


def imports(source: str, known: set[str]) -> Iterator[str]:
    """The modules of ours that a source imports, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute here"
            for alias in node.names:
                names = (f"{node.module}.{alias.name}", node.module)
                yield from [name for name in names if name in known][:1]


GRAPH = {name: set(imports(path.read_text(), {*MODULES})) for name, path in MODULES.items()}


def test_every_module_has_one_layer():
    assert {part_of(module) for module in MODULES} == LAYER_OF_PART.keys()
    assert sum(len(parts) for parts, _ in LAYERS.values()) == len(LAYER_OF_PART)


def test_layers_import_only_from_layers_above_them_in_the_table():
    above: list[str] = []
    for layer, (_, allowed) in LAYERS.items():
        assert set(allowed) <= {*above, "all"}, layer
        above.append(layer)


def test_every_import_is_allowed_and_every_allowance_needed():
    used: dict[str, set[str]] = {layer: set() for layer in LAYERS}
    against = []
    for module, found in GRAPH.items():
        layer = LAYER_OF_PART[part_of(module)]
        for other in found:
            target = LAYER_OF_PART[part_of(other)]
            used[layer].add(target)
            if target != layer and not {target, "all"} & {*LAYERS[layer][1]}:
                against.append(f"{module} ({layer}) imports {other} ({target})")
    assert against == []
    for layer, (_, allowed) in LAYERS.items():
        assert {*allowed} - {"all"} <= used[layer], f"{layer} may import what no module of it does"


def cycle_in(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_no_module_imports_itself_on_the_way():
    assert cycle_in(GRAPH) == []
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}}) != []


def test_imports_inside_functions_and_of_packages_are_seen():
    source = "import os, p.a\nfrom p import b\ndef f():\n"
    source += "    from p.c import d\n    from p.e import g\n"
    assert [*imports(source, {"p", "p.a", "p.b", "p.c", "p.c.d", "p.e"})] == [
        "p.a",
        "p.b",
        "p.c.d",
        "p.e",
    ]


def python_functions(source: str) -> Iterator[tuple[str, int]]:
    """Names and lengths in lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - first + 1


COMMENT = r"//[^\n]*|/\*.*?\*/"
TEXT = r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`[^`]*`"
DIRECTIVE = r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*"
NOT_CODE = re.compile(f"{COMMENT}|{TEXT}|{DIRECTIVE}", re.DOTALL | re.MULTILINE)
NO_FUNCTION = re.compile(
    r"(?:\}|\s)*(?:else|if|for|while|switch|do|try|catch|namespace|struct|class|enum|union)\b"
)


def braced_functions(source: str) -> Iterator[tuple[str, int]]:
    """The same for C++ and JavaScript: blocks that begin with a list of parameters."""
    code = NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), source)
    opened: list[tuple[str, int]] = []
    start = 0  # of the words before a brace
    for place, letter in enumerate(code):
        if letter == "{":
            opened.append((code[start:place], start))
        elif letter == "}" and opened:
            words, began = opened.pop()
            if "(" in words and not NO_FUNCTION.match(words):
                began += len(words) - len(words.lstrip())
                yield " ".join(words.split())[:60], code.count("\n", began, place) + 1
        if letter in "{};":
            start = place + 1


def test_functions_are_measured():
    python = "@a\ndef f():\n    def g():\n        pass\n"
    assert [*python_functions(python)] == [("f", 4), ("g", 2)]
    braced = "#define A(b) \\\n  (b)\nnamespace a {\n"
    braced += "int f(int b) {\n  if (b) {\n    g();\n  }\n  return '}';\n}\n}\n"
    assert [*braced_functions(braced)] == [("int f(int b)", 6)]
    script = "const a = (b) => {\n  call(b, () => {\n    1;\n  });\n};\n"
    assert [length for _, length in braced_functions(script)] == [3, 5]


@pytest.mark.parametrize("ending", ["py", "cpp", "h", "js"])
def test_functions_and_files_fit_a_screen_and_a_sitting(ending):
    measure = python_functions if ending == "py" else braced_functions
    paths = sorted(SOURCE.rglob(f"*.{ending}"))
    assert paths
    for path in paths:
        text = path.read_text()
        assert text.count("\n") <= LONGEST_FILE, path
        long = {name: lines for name, lines in measure(text) if lines > LONGEST_FUNCTION}
        assert long == {}, path


def test_files_of_tests_fit_a_sitting_too():
    lengths = {path: path.read_text().count("\n") for path in (ROOT / "tests").rglob("*.py")}
    assert Path(__file__) in lengths
    assert {path: lines for path, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_what_is_said_to_be_decided_somewhere_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = text.partition("## Where it is decided")[2].partition("\n## ")[0]
    found = re.findall(r"((?:`\w+`(?: and )?)+) in `([\w/]+\.py)`", rows)
    assert len(found) > 8
    for names, file in found:
        source = (SOURCE / file).read_text(encoding="utf-8")
        for name in re.findall(r"\w+", names.replace(" and ", " ")):
            assert re.search(rf"(def|class) {name}\b|^{name}\b.*=", source, re.M), (file, name)
