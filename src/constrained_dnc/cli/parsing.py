"""From arguments to a dataclass, with help that teaches and errors of one sentence."""

from __future__ import annotations

import contextlib
import io
import itertools
import sys
from typing import Any, TypeVar

import tyro

Asked = TypeVar("Asked")


def parse(
    kind: type[Asked],
    arguments: list[str],
    program: str,
    description: str | None,
    default: Asked | None = None,
) -> Asked:
    """Fill `kind` from command-line arguments; `--help` prints its fields and exits."""
    options: dict[str, Any] = {} if default is None else {"default": default}
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                kind,
                prog=program,
                description=description,
                args=arguments,
                **options,
            )
    except SystemExit as stop:
        if stop.code:
            print(f"{program}: {one_sentence(complaint.getvalue())}", file=sys.stderr)
        raise


def one_sentence(box: str) -> str:
    """What a box on the terminal says, on one line.

    >>> one_sentence("╭─ Error ─╮\\n│ Missing: TASK │\\n│ ───── │\\n│ See --help │\\n╰──────╯")
    'Missing: TASK; See --help'
    """
    lines = [line.strip("│ ") for line in box.splitlines() if not line.startswith(("╭", "╰"))]
    parts = itertools.groupby(filter(None, lines), lambda line: set(line) != {"─"})
    return "; ".join(" ".join(part) for is_text, part in parts if is_text)
