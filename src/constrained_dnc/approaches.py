"""Approaches: which controller, which constraints on its state, which look-up. Some have names."""

from __future__ import annotations

from dataclasses import dataclass

from constrained_dnc.errors import (
    SettingError,
    coerce_numbers,
    one_of,
    require_integer,
    require_name,
    require_number,
)
from constrained_dnc.plugins import ACCEPTED_PATHS, is_import_path

CONTROLLERS = ("lstm", "peephole", "feed-forward")
LOOKUPS = ("every-slot", "used-slots")


@dataclass(frozen=True)
class Regularisation:
    """A loss that pulls the most similar states of a sequence closer together."""

    task_weight: float = 0.9
    """Weight of the task's loss, lambda; the state's loss has the rest."""
    num_pairs: int = 5
    """How many of the most similar pairs of states count, K."""

    def __post_init__(self) -> None:
        require_number("regularisation.task_weight", self.task_weight, 0.0, 1.0)
        require_integer("regularisation.num_pairs", self.num_pairs, 1)
        coerce_numbers(self)


@dataclass(frozen=True)
class Approach:
    """A combination of parts; give a new combination a name of its own.

    >>> Approach("gentle", "peephole", regularisation=Regularisation(task_weight=0.99)).name
    'gentle'
    """

    name: str
    """What tables and files call it."""
    controller: str = "lstm"
    """lstm, peephole, feed-forward, or package.module:Class or file.py:Class for your own."""
    compression: bool = False
    """Squash the carried cell state with tanh."""
    regularisation: Regularisation | None = None
    """Regularise the cell states with an additional loss."""
    lookup: str = "every-slot"
    """every-slot: look-up by content sees every slot, as in the paper; used-slots: a slot counts as
    far as it is used, so that the number of slots does not matter while one is free."""

    def __post_init__(self) -> None:
        require_name("approach.name", self.name)
        if not isinstance(self.compression, bool):
            raise SettingError("approach.compression", self.compression, "True or False")
        if not isinstance(self.regularisation, Regularisation | None):
            accepted = "a Regularisation, or None"
            raise SettingError("approach.regularisation", self.regularisation, accepted)
        if self.lookup not in LOOKUPS:
            raise SettingError("approach.lookup", self.lookup, one_of(LOOKUPS))
        is_text = isinstance(self.controller, str)
        if not is_text or not (self.controller in CONTROLLERS or is_import_path(self.controller)):
            raise SettingError(
                "approach.controller",
                self.controller,
                f"{one_of(CONTROLLERS)}, or {ACCEPTED_PATHS}",
            )
        if self.compression and self.controller not in ("lstm", "peephole"):
            raise SettingError(
                "approach.compression", True, f"False with the controller {self.controller!r}"
            )
        if self.regularisation is not None and self.controller == "feed-forward":
            raise SettingError(
                "approach.regularisation",
                self.regularisation,
                "None with the controller 'feed-forward', which has no state",
            )

    def summary(self) -> str:
        """One line for people."""
        constraints = []
        if self.compression:
            constraints.append("compressed state")
        if self.regularisation is not None:
            constraints.append(
                f"regularised state (lambda {self.regularisation.task_weight:g}, "
                f"K {self.regularisation.num_pairs})"
            )
        parts = [f"{self.controller} controller", " and ".join(constraints) or "no constraint"]
        if self.lookup == "used-slots":
            parts.append("look-up over used slots")
        return ", ".join(parts)


APPROACHES: dict[str, Approach] = {
    approach.name: approach
    for approach in (
        Approach("stateful-baseline", "lstm"),
        Approach("stateless-baseline", "feed-forward"),
        Approach("compr", "peephole", compression=True),
        Approach("reg", "peephole", regularisation=Regularisation()),
        Approach("compr+reg", "peephole", compression=True, regularisation=Regularisation()),
        Approach("peephole", "peephole"),
        Approach("lstm-compr", "lstm", compression=True),
        Approach("lstm-reg", "lstm", regularisation=Regularisation()),
        Approach("lstm-compr+reg", "lstm", compression=True, regularisation=Regularisation()),
        Approach(
            "compr+reg+used",
            "peephole",
            compression=True,
            regularisation=Regularisation(),
            lookup="used-slots",
        ),
        Approach("stateful-baseline+used", "lstm", lookup="used-slots"),
    )
}
"""The five of the paper, the four of its supplement C, and two that go beyond it."""


USED_SLOTS = tuple(name for name, approach in APPROACHES.items() if approach.lookup == "used-slots")


def get_approach(name: str) -> Approach:
    """The approach of that name."""
    if not isinstance(name, str) or name not in APPROACHES:
        raise SettingError("approach", name, one_of(APPROACHES, name))
    return APPROACHES[name]
