"""From arguments to a dataclass, with help that teaches and errors of one sentence."""

from __future__ import annotations

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
    return tyro.cli(
        kind,
        prog=program,
        description=description,
        args=arguments,
        config=(tyro.conf.FlagConversionOff,),
        **options,
    )
