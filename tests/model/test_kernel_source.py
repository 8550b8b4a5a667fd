"""The kernel's source: it mirrors the Python files, and every header stands on its own."""

from __future__ import annotations

import ast
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from constrained_dnc.model import addressing, config, fused

MODEL = Path(__file__).parents[2] / "src" / "constrained_dnc" / "model"
HEADERS = sorted((MODEL / "fused").glob("*.h"))

EQUATIONS = [
    node.name
    for node in ast.parse((MODEL / "addressing.py").read_text()).body
    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
]


@pytest.mark.parametrize("name", EQUATIONS)
def test_an_equation_has_the_same_name_in_both_languages(name):
    for header, function in (("addressing.h", name), ("addressing_back.h", f"{name}_back")):
        text = (MODEL / "fused" / header).read_text()
        struct = "".join(part.capitalize() for part in function.split("_"))
        assert re.search(rf"^\w.*\b{function}\(|^struct {struct} ", text, re.M)


@pytest.mark.parametrize(
    ("file", "name", "expected"),
    [
        ("addressing.h", "epsilon", addressing.EPSILON),
        ("addressing.h", "largest_exponent", addressing.LARGEST_EXPONENT),
        ("binding.cpp", "largest_size", config.MOST_SLOTS),
    ],
)
def test_a_constant_has_the_same_value_in_both_languages(file, name, expected):
    text = (MODEL / "fused" / file).read_text()
    (value,) = re.findall(rf"^constexpr \w+ {name} = ([\d.e-]+)f?;", text, re.M)
    assert float(value) == expected


COMMENT = re.compile(r"//.*")
TYPE = re.compile(r"^(?:struct|class|enum(?: class)?) (\w+) |^#define (\w+)", re.M)


def missing_includes(sources: dict[str, str]) -> list[str]:
    """Files that use a type or macro of a header without including the header itself."""
    found = []
    for header in (name for name in sources if name.endswith(".h")):
        names = {one or other for one, other in TYPE.findall(sources[header])} - {"CDNC_LANES"}
        used = re.compile(rf"\b(?:{'|'.join(names)})\b")
        for name, text in sources.items():
            code = COMMENT.sub("", text)
            if name != header and names and used.search(code) and f'"{header}"' not in code:
                found.append(f"{name} lacks {header}")
    return found


def test_every_file_includes_what_it_uses():
    sources = {path.name: path.read_text() for path in (MODEL / "fused").glob("*.[hc]*")}
    assert {"layout.h", "workspace.cpp"} <= sources.keys()
    assert missing_includes(sources) == []
    a, b = "struct A {\n};\n", '#include "b.h"\nA a;  // B\n'
    assert missing_includes({"a.h": a, "b.h": "", "c.cpp": b}) == ["c.cpp lacks a.h"]


def complaints(source: str, *options: str) -> str:
    x86 = platform.machine() in ("x86_64", "AMD64")
    command = ["g++", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Wshadow", "-Wpedantic"]
    command += ["-Wno-psabi", *(["-mavx2", "-mfma"] if x86 else []), *options]
    command += [f"-I{MODEL / 'fused'}", "-x", "c++", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    return done.stderr


needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@needs_gxx
@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_a_header_compiles_by_itself_without_a_warning(header):
    assert complaints(f'#include "{header.name}"\n', "-Wno-unused-function") == ""


@needs_gxx
@pytest.mark.parametrize("name", ["unroll.cpp", "workspace.cpp"])
def test_the_kernel_compiles_without_a_warning(name):
    level = ["-DCDNC_LEVEL=test", '-DCDNC_LEVEL_NAME="test"']
    assert complaints(f'#include "{name}"\n', *level) == ""


@needs_gxx
def test_a_local_that_hides_a_member_is_seen():
    assert "shadows a member" in complaints("struct A { int a; void f() { int a = 1; (void)a; } };")


@pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="needs a C++ compiler"
)
def test_where_there_is_a_compiler_there_is_a_kernel():
    """An install goes on without a kernel that fails to compile, and tests of it are skipped."""
    assert fused.missing_reason() is None
