"""The kernel's own test without Python, under address and undefined-behaviour checks."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src" / "constrained_dnc" / "model" / "fused"


def run_kernel_test(folder: Path, optimise: str, sizes: int, calls: int) -> str:
    """Build the kernel's own test with address and undefined-behaviour checks, and run it.

    Without AVX-512 here, its sixteen lanes are run as pairs of eight.
    """
    x86 = platform.machine() in ("x86_64", "AMD64")
    levels = {"baseline": []}
    if x86:
        cpu = Path("/proc/cpuinfo")
        has_avx512 = cpu.exists() and "avx512f" in cpu.read_text()
        levels["avx2"] = ["-mavx2", "-mfma"]
        levels["avx512"] = (
            ["-mavx512f", "-mfma"] if has_avx512 else ["-mavx2", "-mfma", "-DCDNC_LANES=16"]
        )
    common = ["g++", "-std=c++17", optimise, "-ffp-contract=fast", "-Wno-psabi"]
    common += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{SOURCES}"]
    objects = []
    for level, flags in levels.items():
        objects.append(folder / f"{level}.o")
        names = [f"-DCDNC_LEVEL={level}", f'-DCDNC_LEVEL_NAME="{level}"']
        source = ["-c", SOURCES / "unroll.cpp", "-o", objects[-1]]
        subprocess.run([*common, *flags, *names, *source], check=True)
    program = folder / "kernel_test"
    sources = [Path(__file__).with_name("kernel_test.cpp"), SOURCES / "workspace.cpp"]
    define = ["-DCDNC_X86"] if x86 else []
    subprocess.run([*common, *define, *sources, *objects, "-pthread", "-o", program], check=True)
    done = subprocess.run(
        [program, str(sizes), str(calls)], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@needs_gxx
@pytest.mark.slow
def test_sanitizers_find_nothing(tmp_path):
    assert run_kernel_test(tmp_path, "-O0", sizes=15, calls=300) == "0 failures\n"


@needs_gxx
@pytest.mark.slow
def test_sanitizers_find_nothing_in_many_calls(tmp_path):
    assert run_kernel_test(tmp_path, "-O1", sizes=300, calls=10_000) == "0 failures\n"
