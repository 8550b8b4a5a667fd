"""Sentences on standard error, beside the result of a command, which does not depend on them."""

from __future__ import annotations

import sys
from contextlib import suppress

from constrained_dnc.errors import printable


def tell(sentence: str) -> None:
    """Say it if somebody listens: standard error may be closed or full."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(printable(sentence), file=sys.stderr, flush=True)
