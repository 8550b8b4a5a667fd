"""The command zoo: the pretrained models that come with the package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from constrained_dnc.cli.parsing import Flag
from constrained_dnc.cli.terminal import print_table
from constrained_dnc.config import RULES, SelectionRule
from constrained_dnc.training.folder import SELECTED
from constrained_dnc.zoo import RULE, Pretrained, pretrained


@dataclass(frozen=True)
class Zoo:
    """List the pretrained models: their seed, how long they were trained, the lengths they reach.

    Use a name wherever a run is expected: cdnc predict zoo:sort/compr+reg "3 1 4 1 0".
    """

    all: Flag = False
    """A row for every selection rule, not only for the parameters used by default."""

    def run(self) -> int:
        """Print the table and how to read it."""
        models = list(pretrained().values())
        if not models:
            print("This installation has no pretrained models.")
            return 0
        rules = (RULE, *(rule for rule in RULES if rule != RULE)) if self.all else (RULE,)
        header = ["model", *["selection"] * self.all, "seed", "best of", "iterations", "k*"]
        memories = list(dict.fromkeys(each for model in models for each in model.memories()))
        rows = [row for model in models for row in _rows(model, rules, memories)]
        print("Maximum length: the longest input with at least 95 % correct, by memory.\n")
        slots = [f"{memory} slots" if memory.isdecimal() else memory for memory in memories]
        print_table([*header, *slots], rows, left=1 + self.all)
        print("\nBest of: how many trials it was chosen from, by the score at an unseen length.")
        print("k*: the fewest states that its cell state can snap to and keep 99 % of the score.")
        if self.all:
            print(f"*: included, use it with --selection RULE; {RULE} is the default.")
        return 0


def _rows(
    model: Pretrained, rules: tuple[SelectionRule, ...], memories: list[str]
) -> Iterator[list[object]]:
    """One row for each rule; the first names the model."""
    facts = [model.metadata["trial"], len(model.metadata["trials"]), model.metadata["iterations"]]
    counts = model.metadata["state_counts"]
    for rule in rules:
        is_first = rule == rules[0]
        star = " *" if (model.folder / SELECTED[rule]).exists() else ""
        lengths = [model.max_length(memory, rule) for memory in memories]
        yield [
            model.name if is_first else "",
            *[rule + star] * (len(rules) > 1),
            *(facts if is_first else [""] * len(facts)),
            ">4096" if (count := counts.get(rule, "-")) is None else count,
            *("-" if length is None else length for length in lengths),
        ]
