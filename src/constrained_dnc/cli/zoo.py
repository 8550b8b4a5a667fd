"""The command zoo: the pretrained models that come with the package."""

from __future__ import annotations

from constrained_dnc.cli.parsing import Nothing, parse
from constrained_dnc.words import EXTENSION, MEMORIES, RULES, memory_names
from constrained_dnc.zoo import PREFIX, RULE, Pretrained, pretrained

OTHER_RULES = [rule for rule in RULES if rule != RULE]


def zoo(arguments: list[str]) -> int:
    """List the pretrained models: how long they were trained, how long their inputs may be.

    A maximum length is the longest input with at least 95 % of its entries right, with the memory
    of training, one ten times as large, and one that grows with the input; - was not measured. The
    parameters are those of the selection rule score; the last two columns are what the same run
    reaches with the memory of training and the rules unseen (the paper's) and seen.
    Use a name wherever a run is asked for: cdnc predict zoo:sort/compr+reg "3 1 4 1 0".
    """
    parse(Nothing, arguments, "cdnc zoo", zoo.__doc__)
    models = list(pretrained().values())
    if not models:
        print("This installation has no pretrained models.")
        return 0
    head = ["model", "iterations", "best of", *_memories(models), *OTHER_RULES]
    rows = [head, *(_row(model) for model in models)]
    print(
        f"Maximum lengths by memory, rule {RULE}; last, other rules with the slots of training.\n"
    )
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for row in rows:
        first, *rest = row
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        print("  ".join(cells))
    print(
        f"\nThe best trial of each, by the score at an unseen length. Use a name such as {PREFIX}"
        f"{models[0].task}/{models[0].approach}\nwherever a run is asked for."
    )
    return 0


def _memories(models: list[Pretrained]) -> list[str]:
    """The headings of the memories, in slots if all models have the same."""
    from constrained_dnc.training.run import load_run  # noqa: PLC0415 - slow to import

    sizes = {load_run(model.name).config.model.memory_size for model in models}
    if len(sizes) > 1:
        return ["slots of training", f"{EXTENSION} times as many", "growing"]
    return list(memory_names(*sizes).values())


def _row(model: Pretrained) -> list[str]:
    about = model.about
    lengths = [model.max_length(memory) for memory in MEMORIES]
    others = [model.max_length("trained", rule) for rule in OTHER_RULES]
    return [
        model.name,
        str(about["iterations"]),
        str(len(about["trials"])),
        *("-" if length is None else str(length) for length in (*lengths, *others)),
    ]
