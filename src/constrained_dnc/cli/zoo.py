"""The command zoo: the pretrained models that come with the package."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from constrained_dnc.cli.parsing import Flag
from constrained_dnc.cli.terminal import print_table
from constrained_dnc.config import RULES, SelectionRule
from constrained_dnc.model.config import memory_order
from constrained_dnc.training.folder import SELECTED
from constrained_dnc.zoo import pretrained, read_origin

if TYPE_CHECKING:
    import pandas as pd

RULE: SelectionRule = "score"
"""Every model comes with the parameters selected by this rule."""


@dataclass(frozen=True)
class Zoo:
    """List the pretrained models: their seed, how long they were trained, the lengths they reach.

    Use a name wherever a run is expected: cdnc predict zoo:sort/compr+reg "3 1 4 1 0".
    """

    all: Flag = False
    """A row for every selection rule, not only for the parameters used by default."""

    def run(self) -> int:
        """Print the table and how to read it."""
        from constrained_dnc.evaluation.results import stored_results  # noqa: PLC0415 - slow to import

        models = {name: (path, stored_results(path)) for name, path in pretrained().items()}
        if not models:
            print("This installation has no pretrained models.")
            return 0
        rules = (RULE, *(rule for rule in RULES if rule != RULE)) if self.all else (RULE,)
        header = ["model", *["selection"] * self.all, "seed", "best of", "iterations", "k*"]
        memories = {str(memory) for _, rows in models.values() for memory in rows["memory"]}
        columns = sorted(memories, key=memory_order)
        table = [
            row for name, model in models.items() for row in _rows(name, *model, rules, columns)
        ]
        print("Maximum length: the longest input with at least 95 % correct, by memory.\n")
        slots = [f"{memory} slots" if memory.isdecimal() else memory for memory in columns]
        print_table([*header, *slots], table, left=1 + self.all)
        print("\nBest of: how many trials it was chosen from, by the score at an unseen length.")
        print("k*: the fewest states that its cell state can snap to and keep 99 % of the score.")
        if self.all:
            print(f"*: included, use it with --selection RULE; {RULE} is the default.")
        return 0


def _rows(
    name: str,
    folder: Path,
    results: pd.DataFrame,
    rules: Sequence[SelectionRule],
    memories: Sequence[str],
) -> Iterator[list[object]]:
    """One row for each rule; the first names the model."""
    run = results.iloc[0]
    facts = [name, run["seed"], len(read_origin(folder).trials), run["iterations"]]
    network = results[(results["inference"] == "network") & (results["batches"] > 0)]
    for rule in rules:
        rows = network[network["selection"] == rule]
        star = " *" if (folder / SELECTED[rule]).exists() else ""
        lengths = [_longest(rows[rows["memory"] == memory]) for memory in memories]
        yield [facts[0], *[rule + star] * (len(rules) > 1), *facts[1:], _count(rows), *lengths]
        facts = [""] * len(facts)


def _longest(rows: pd.DataFrame) -> object:
    """The maximum length of one rule and memory; a dash if it was not measured."""
    from constrained_dnc.evaluation.results import max_length  # noqa: PLC0415 - slow to import

    return max_length(rows) if len(rows) else "-"


def _count(rows: pd.DataFrame) -> object:
    """The state count of the parameters of a rule; a dash if it was not taken."""
    counts = rows["state_count"].dropna().tolist()
    if not counts:
        return "-"
    return ">4096" if math.isinf(counts[0]) else int(counts[0])
