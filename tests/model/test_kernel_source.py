"""The kernel's source: constants as in Python, headers that stand on their own, no warnings."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from constrained_dnc.model import addressing, config, fused

SOURCE = Path(fused.__file__).parent


@pytest.mark.parametrize(
    ("file", "name", "expected"),
    [
        ("addressing.h", "epsilon", addressing.EPSILON),
        ("addressing.h", "largest_exponent", addressing.LARGEST_EXPONENT),
        ("binding.cpp", "largest_size", config.MOST_SLOTS),
    ],
)
def test_a_constant_has_the_same_value_in_both_languages(file, name, expected):
    text = (SOURCE / file).read_text()
    (value,) = re.findall(rf"^constexpr \w+ {name} = ([\d.e-]+)f?;", text, re.M)
    assert float(value) == expected


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize(
    "pattern", ["unroll.cpp", "workspace.cpp", pytest.param("*.h", marks=pytest.mark.slow)]
)
def test_every_file_compiles_by_itself_without_a_warning(pattern, tmp_path):
    for path in SOURCE.glob(pattern):
        (tmp_path / f"{path.stem}.cpp").write_text(f'#include "{path}"\n')
    command = ["g++", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Wshadow", "-Wpedantic"]
    command += ["-Wno-psabi", "-Wno-unused-function"]
    command += ["-DCDNC_LEVEL=test", '-DCDNC_LEVEL_NAME="test"']
    command += ["-mavx2", "-mfma"] if platform.machine() in ("x86_64", "AMD64") else []
    command += map(str, sorted(tmp_path.iterdir()))
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""


@pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="needs a C++ compiler"
)
def test_where_there_is_a_compiler_there_is_a_kernel():
    """An install goes on without a kernel that fails to compile, and tests of it are skipped."""
    assert fused.missing_reason() is None
