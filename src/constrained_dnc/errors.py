"""The errors a user can meet: a value that is not accepted, a run that cannot be used."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral


class BadSetting(Exception):
    """A setting has a value that is not accepted; the message names all three.

    Not a ValueError: the command line's parser would show a part of that only.

    >>> print(BadSetting("memory_size", 0, "a whole number of at least 1"))
    memory_size is 0; accepted: a whole number of at least 1
    """

    def __init__(self, setting: str, value: object, accepted: str):
        super().__init__(setting, value, accepted)

    def __str__(self) -> str:
        setting, value, accepted = self.args
        return f"{setting} is {value!r}; accepted: {accepted}"


def one_of(names: Iterable[str]) -> str:
    """The accepted part of the sentence for a choice between names."""
    return "one of " + ", ".join(sorted(names))


def require_whole(setting: str, value: object, minimum: int) -> None:
    """Refuse anything but a whole number of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < minimum:
        raise BadSetting(setting, value, f"a whole number of at least {minimum}")


class RunProblem(Exception):
    """A run's files cannot be read or written; the message says which, and why."""
