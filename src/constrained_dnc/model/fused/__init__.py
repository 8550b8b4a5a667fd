"""The fused backend: the unroll over all steps and its gradient in C++, for built-in parts.

The compiled part is optional: without it `missing_reason()` says why and `FusedUnroll` refuses.
"""

from __future__ import annotations

from constrained_dnc.model.fused.unroll import (
    Forward,
    FusedUnroll,
    missing_reason,
    simd_levels,
    unsupported_reason,
)

__all__ = ["Forward", "FusedUnroll", "missing_reason", "simd_levels", "unsupported_reason"]
