"""The fused backend: the whole unroll and its gradient in C++, for the built-in controllers.

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
