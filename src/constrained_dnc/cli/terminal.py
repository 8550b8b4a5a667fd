"""Printing: sentences on standard error, tables on standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from constrained_dnc.errors import printable

if TYPE_CHECKING:
    from rich.console import Console

UNLIMITED = 100_000
"""More columns than any line has."""


def print_stderr(sentence: str) -> None:
    """Print a message to standard error; if that fails, the command goes on."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(printable(sentence), file=sys.stderr, flush=True)


def console() -> Console:
    """A console as wide as the terminal, or unlimited, so that piped lines are never cut."""
    from rich.console import Console  # noqa: PLC0415 - help needs none

    return Console(width=None if sys.stdout.isatty() else UNLIMITED)


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1) -> None:
    """Print rows as columns, the first `left` of them flush left and the others flush right."""
    from rich.table import Table  # noqa: PLC0415 - help needs none
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, name in enumerate(header):
        table.add_column(Text(name), justify="left" if index < left else "right")
    for row in rows:
        table.add_row(*(Text(printable(str(cell))) for cell in row))  # never markup
    screen = console()
    with screen.capture() as lines:
        screen.print(table)
    print("\n".join(line.rstrip() for line in lines.get().splitlines()))
