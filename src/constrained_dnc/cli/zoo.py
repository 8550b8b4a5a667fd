"""The command zoo: the pretrained models that come with the package."""

from __future__ import annotations

from collections.abc import Iterator

from constrained_dnc.choices import EXTENSION, MEMORIES, RULES, memory_names
from constrained_dnc.cli.parsing import Nothing, parse
from constrained_dnc.zoo import RULE, Pretrained, pretrained


def zoo(arguments: list[str]) -> int:
    """List the pretrained models: how long they were trained, how long their inputs may be.

    A maximum length is the longest input with a score of at least 95 %, with the memory of
    training, one ten times as large, and one that grows with the input; - was not measured. A row
    for every rule that selected parameters of the run: unseen is the paper's. Those with a star
    come with the package.
    Use a name wherever a run is asked for: cdnc predict zoo:sort/compr+reg "3 1 4 1 0".
    """
    parse(Nothing, arguments, "cdnc zoo", zoo.__doc__)
    models = list(pretrained().values())
    if not models:
        print("This installation has no pretrained models.")
        return 0
    rows = [["model", "iterations", "best of", "rule", *_memories(models)]]
    for model in models:
        rows += _rows(model)
    print(
        "Maximum lengths by memory and by the rule that selected the parameters.\n"
        f"* comes with this package: --selection RULE; without it, {RULE}.\n"
    )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for name, iterations, trials, rule, *lengths in rows:
        cells = [name.ljust(widths[0]), iterations.rjust(widths[1]), trials.rjust(widths[2])]
        cells.append(rule.ljust(widths[3]))
        cells += [cell.rjust(width) for cell, width in zip(lengths, widths[4:], strict=True)]
        print("  ".join(cells))
    print(
        "\nBest of: the trials whose parameters were there to choose from, by the score at an "
        f"unseen length.\nUse a name such as {models[0].name} wherever a run is asked for."
    )
    return 0


def _memories(models: list[Pretrained]) -> list[str]:
    """The headings of the memories, in slots if all models have the same."""
    from constrained_dnc.training.run import load_run  # noqa: PLC0415 - slow to import

    sizes = {load_run(model.name).config.model.memory_size for model in models}
    if len(sizes) > 1:
        return ["slots of training", f"{EXTENSION} times as many", "growing"]
    return list(memory_names(*sizes).values())


def _rows(model: Pretrained) -> Iterator[list[str]]:
    """One for every rule, that of the zoo first."""
    from constrained_dnc.training.disk import SELECTED  # noqa: PLC0415 - slow to import

    about = [model.name, str(model.about["iterations"]), str(len(model.about["trials"]))]
    for rule in sorted(RULES, key=lambda rule: rule != RULE):
        lengths = [model.max_length(memory, rule) for memory in MEMORIES]
        star = " *" if (model.folder / SELECTED[rule]).exists() else ""
        shown = ["-" if length is None else str(length) for length in lengths]
        yield [*about, rule + star, *shown]
        about = ["", "", ""]
