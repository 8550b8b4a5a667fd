"""The command that compares with another implementation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from constrained_dnc.cli.parsing import parse
from constrained_dnc.errors import RunError, first_line


@dataclass(frozen=True)
class _Parity:
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """An .npz file as docs/parity.md describes it."""
    backend: Literal["pure", "fused"] = "pure"
    """What computes in float32: JAX (pure) or C++ (fused); float64 is always JAX."""


def parity(arguments: list[str]) -> int:
    """Compare this implementation with vectors computed by another one.

    One line per quantity and precision; the exit code is 1 if one of them differs.
    """
    asked = parse(_Parity, arguments, "cdnc parity", parity.__doc__)
    import jax  # noqa: PLC0415 - slow to import

    from constrained_dnc.parity import compare_both, load_vectors  # noqa: PLC0415

    vectors, failed = load_vectors(asked.file), 0
    try:
        for comparison in compare_both(vectors, asked.backend):
            failed += not comparison.passed
            print(
                f"{'ok  ' if comparison.passed else 'FAIL'} {comparison.dtype} "
                f"{comparison.name:26} largest error {comparison.error:.2e} "
                f"of {comparison.scale:.2e}"
            )
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        raise RunError(f"{asked.file} cannot be compared: {first_line(error)}") from error
    print(f"{failed} quantities differ" if failed else "all quantities agree")
    return 1 if failed else 0
