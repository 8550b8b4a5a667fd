"""Completing one run: it is trained, analysed and scored, all in its own folder."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from constrained_dnc.config import PAPER_RULE, RULES, Config, Inference, SelectionRule, extended
from constrained_dnc.errors import RunError, SettingError, first_line
from constrained_dnc.evaluation.analyses import analyse_run
from constrained_dnc.evaluation.digital import digital_of
from constrained_dnc.evaluation.results import read_results_file
from constrained_dnc.evaluation.scoring import Planned, evaluate, make_plan
from constrained_dnc.files import (
    locked,
    read_arrays,
    refuse_link,
    remove_unfinished,
    write_arrays,
)
from constrained_dnc.model.config import GROWING, MemorySize
from constrained_dnc.plugins import override_sources
from constrained_dnc.training.folder import ANALYSES, COMPLETING, ENDED, EVALUATION, FAILURE, Status
from constrained_dnc.training.loop import train
from constrained_dnc.training.process import use_compilation_cache
from constrained_dnc.training.run import Run, open_run, stored_sources


@dataclass(frozen=True)
class Wanted:
    """What a study wants of each of its runs, besides the parameters."""

    rules: tuple[SelectionRule, ...] = RULES
    """Selection rules whose parameters are scored."""
    inferences: tuple[Inference, ...] = ("network",)
    """How the model runs when it is scored."""
    analyses: bool = True
    """Whether states and memory access are analysed and states are counted."""


def complete_run(folder: Path, wanted: Wanted) -> str:
    """Complete the run that config.json in a folder describes, from wherever it stopped.

    Nothing outside the folder is written. A second process that is to complete the run waits. The
    traceback of an error is stored in failure.txt, and the error raised as a RunError: its own
    class may be one that only this process can import.

    Args:
        folder: The folder of a run; config.json is enough.
        wanted: What is to be there in the end.

    Returns:
        The state of the run, `finished` or `diverged`.
    """
    refuse_link(folder)
    try:
        with locked(folder / COMPLETING, wait=True), override_sources(stored_sources(folder)):
            if not is_done(folder, wanted):
                remove_unfinished(folder, [EVALUATION, ANALYSES])
                use_compilation_cache()
                run = open_run(folder)
                _score(train(run.config, folder, threads=run.threads), wanted)
            (folder / FAILURE).unlink(missing_ok=True)
            return open_run(folder).status.state
    except Exception as error:
        write_failure(folder, traceback.format_exc())
        is_ours = isinstance(error, SettingError | RunError)
        reason = first_line(error) if is_ours else f"{type(error).__name__}: {first_line(error)}"
    raise RunError(reason)  # out here it has no context, which would be sent along


def write_failure(folder: Path, text: str) -> None:
    """Keep the reason why a run failed, such as a traceback; its last line is shown."""
    (folder / FAILURE).unlink(missing_ok=True)  # never written through a link
    (folder / FAILURE).write_text(text, encoding="utf-8")


def _score(run: Run, wanted: Wanted) -> None:
    """Analyse and evaluate a trained run; rows that are stored already are kept."""
    rules = rules_of(run, wanted)
    if wanted.analyses:
        for rule in rules:  # for the state count in the results
            digital_of(run, run.selected(rule), threads=1)
        write_arrays(run.folder / ANALYSES, analyse_run(run, wanted.rules))
    for rule in rules:
        for inference in wanted.inferences:
            for memory in memories_of(run.config, rule):
                evaluate(
                    run,
                    memories=[memory],
                    selection=rule,
                    inference=inference,
                    threads=1,
                    reuse=True,
                )


def memories_of(config: Config, rule: SelectionRule = PAPER_RULE) -> list[MemorySize]:
    """The memories that a run is scored with; by default only the trained one for `seen`."""
    slots = config.model.memory_size
    chosen = config.evaluation.memory_sizes(slots)
    if config.approach.memory.kind == "none" or (rule == "seen" and not chosen):
        return [slots]
    if chosen:
        return [size for size in chosen if size != GROWING or config.approach.can_grow]
    return [slots, extended(slots), *([GROWING] if config.approach.can_grow else [])]


def rules_of(run: Run, wanted: Wanted) -> list[SelectionRule]:
    """The rules to score: one selects no parameters if no update was ever finite.

    Shipped results have scores but no parameters: they are to have those of all rules.
    """
    return [rule for rule in wanted.rules if rule in (run.rules or RULES)]


def rows_of(run: Run, wanted: Wanted) -> list[tuple[SelectionRule, Planned]]:
    """The rows of scores that a run needs, each with its rule."""
    evaluation, slots = run.config.evaluation, run.config.model.memory_size
    return [
        (rule, row)
        for rule in rules_of(run, wanted)
        for row in make_plan(evaluation, slots, memories=memories_of(run.config, rule))
    ]


def is_done(folder: Path, wanted: Wanted) -> bool:
    """Whether a run is trained to its end, scored at all lengths, and analysed."""
    run = open_run(folder)
    try:
        status = run.status
        if not has_ended(run, status):
            return False
        if wanted.analyses and not _is_analysed(run, status, wanted.rules):
            return False
        table = read_results_file(folder / EVALUATION)
    except RunError:  # absent or corrupt
        return False
    settings = run.config.evaluation
    is_current = (table["run_id"] == run.config.run_id) & (table["iterations"] == status.iteration)
    is_current &= table["batch_size"] == settings.batch_size
    rows = table[is_current]
    key = (rows[name] for name in ("selection", "inference", "memory", "length"))
    stored = dict(zip(zip(*key, strict=True), rows["batches"], strict=True))
    skipped = -1 if settings.all_lengths else 0
    batches = (
        (stored.get((rule, inference, str(row.memory), row.length), -2), row.batches)
        for rule, row in rows_of(run, wanted)
        for inference in wanted.inferences
    )
    return all(count == skipped or count >= needed for count, needed in batches)


def has_ended(run: Run, status: Status) -> bool:
    """Whether a run is trained to its end, which may have been moved since."""
    is_long_enough = status.iteration >= run.config.training.iterations
    return status.state == "diverged" or (status.state in ENDED and is_long_enough)


def _is_analysed(run: Run, status: Status, rules: Sequence[SelectionRule]) -> bool:
    """Whether the stored analyses are of the parameters that are selected now."""
    arrays = read_arrays(run.folder / ANALYSES)
    rule = next((rule for rule in rules if rule in (run.rules or RULES)), PAPER_RULE)
    stored = [arrays[name].item() for name in ("selection", "iteration") if name in arrays]
    return stored == [rule, status.best_iteration[rule]]
