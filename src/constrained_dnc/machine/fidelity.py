"""How faithful a machine is: to the network it was taken from, and to the truth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product, zip_longest

import numpy as np
import pandas as pd

from constrained_dnc.errors import SettingError, require_integer
from constrained_dnc.machine.automaton import UNKNOWN, Machine
from constrained_dnc.model.backend import choose_backend
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.losses import task_loss
from constrained_dnc.tasks.sequence import AbstractSequenceTask
from constrained_dnc.tasks.task import AbstractTask, Answer, Batch, Problem

BATCH_SIZE = 64
MOST_INPUTS = 5000
"""Of one length, for an enumeration of all."""
FIDELITY = 2
"""Part of the keys of its samples; those of the extraction have 0 and 1."""


def fidelity(
    model: DNC,
    machine: Machine,
    task: AbstractTask,
    lengths: Iterable[int],
    *,
    samples: int = BATCH_SIZE,
    seed: int = 0,
) -> pd.DataFrame:
    """Scores of network and machine, and their agreement, by length.

    Args:
        model: The model that the machine was extracted from.
        machine: Takes the place of the controller.
        task: The task that the model was trained on.
        lengths: Input lengths.
        samples: Samples of every length.
        seed: Fixes the samples, which the extraction has not seen.

    Returns:
        A row for each length. `agreement` is the share of entries of the answers that are equal,
        right or wrong; columns that end with `_whole` are shares of whole answers.
    """
    require_integer("samples", samples, 1)
    inserted, rows = machine.apply(model), []
    for length in lengths:
        batch = task.sample((seed, FIDELITY, length), samples, length)
        outputs = {
            "network": _outputs(model, task, batch),
            "machine": _outputs(inserted, task, batch),
        }
        row: dict[str, float] = {"length": length, "samples": samples}
        for name, values in outputs.items():
            scores = task.score(batch, values)
            row[name] = float(scores.score.mean())
            row[f"{name}_whole"] = float(scores.sequence_accuracy.mean())
        answers = [task.decode(values, length) for values in outputs.values()]
        row["agreement"], row["agreement_whole"] = agreement(*answers)
        rows.append(row)
    return pd.DataFrame(rows)


def _outputs(model: DNC, task: AbstractTask, batch: Batch) -> np.ndarray:
    backend = choose_backend("auto", model, task.loss, threads=1)
    return np.asarray(backend.forward(model, batch.inputs, keep_state=False).outputs)


def agreement(answers: Sequence[Answer], others: Sequence[Answer]) -> tuple[float, float]:
    """The mean share of equal entries, and the share of answers that are equal as a whole.

    >>> agreement([(1, 2), ()], [(1, 3), ()]), agreement([True], [False])
    ((0.75, 0.5), (0.0, 0.0))
    """
    shares = [_share_equal(*pair) for pair in zip(answers, others, strict=True)]
    return float(np.mean(shares)), float(np.mean([share == 1 for share in shares]))


def _share_equal(answer: Answer, other: Answer) -> float:
    if not isinstance(answer, Sequence):
        return float(answer == other)
    equal = [left == right for left, right in zip_longest(answer, other, fillvalue=object())]
    return float(np.mean(equal)) if equal else 1.0


@dataclass(frozen=True)
class Checked:
    """Inputs of one length that were tried."""

    inputs: int
    is_exhaustive: bool
    different: int  # answers that are not the network's
    counterexample: Problem | None  # the first of them


def check_inputs(
    model: DNC,
    machine: Machine,
    task: AbstractTask,
    length: int,
    *,
    samples: int = 256,
    seed: int = 0,
) -> Checked:
    """Try all inputs of a length if they are few and can be listed, otherwise random ones."""
    models, different = (model, machine.apply(model)), []
    listed = all_problems(task, length)
    problems = listed or list(task.sample((seed, FIDELITY + 1, length), samples, length).problems)
    for start in range(0, len(problems), BATCH_SIZE):
        part = problems[start : start + BATCH_SIZE]
        batch = task.batch_of(part + part[:1] * (BATCH_SIZE - len(part)))  # one compiled program
        answers = [task.decode(_outputs(model, task, batch), length) for model in models]
        pairs = list(zip(*answers, strict=True))[: len(part)]
        different += [at for at, (one, other) in zip(part, pairs, strict=True) if one != other]
    return Checked(len(problems), listed is not None, len(different), next(iter(different), None))


def all_problems(task: AbstractTask, length: int) -> list[Problem] | None:
    """All problems of a length, for tasks of L symbols in, L symbols out, if they are few."""
    if not isinstance(task, AbstractSequenceTask):
        return None
    entries = entries_of(task)
    if len(entries) ** length > MOST_INPUTS:
        return None
    return [tuple(problem) for problem in product(entries, repeat=length)]


def entries_of(task: AbstractSequenceTask) -> list[Problem]:
    """The symbols that problems are made of, from many problems of length 1."""
    return sorted({problem[0] for problem in task.sample((0, FIDELITY), 1000, 1).problems})


def hardest_input(
    model: DNC, task: AbstractTask, length: int, *, rounds: int = 20, seed: int = 0
) -> tuple[Problem, float, bool]:
    """Climb to an input with a large loss: the input, its loss, and whether its answer is right.

    Each round changes one to three symbols of the worst input so far in 64 ways.
    """
    if not isinstance(task, AbstractSequenceTask):
        raise SettingError(f"inputs of {task.name} cannot be changed symbol by symbol")
    generator, entries = np.random.default_rng(seed), entries_of(task)
    problems = list(task.sample((seed, FIDELITY + 2, length), BATCH_SIZE, length).problems)
    for _ in range(rounds):
        batch = task.batch_of(problems)
        outputs = _outputs(model, task, batch)
        losses = np.asarray(task_loss(outputs, batch, task.loss))
        worst, at = problems[int(losses.argmax())], int(losses.argmax())
        right = bool(task.score(batch, outputs).sequence_accuracy[at] == 1)
        if not right:
            break
        problems = [worst, *(_changed(worst, entries, generator) for _ in range(BATCH_SIZE - 1))]
    return worst, float(losses[at]), right


def _changed(problem: Problem, entries: list[Problem], generator: np.random.Generator) -> Problem:
    changed = list(problem)
    for index in generator.integers(len(changed), size=generator.integers(1, 4)):
        changed[index] = entries[generator.integers(len(entries))]
    return tuple(changed)


def phase_symbols(machine: Machine, task: AbstractSequenceTask) -> list[list[int]]:
    """The input symbols of the phases of a problem: its entries, the control, a blank."""
    inputs = task.batch_of([(entry,) for entry in entries_of(task)]).inputs
    phases = [inputs[0], inputs[1, :1], inputs[2, :1]]
    return [
        [int(np.argmin(((machine.inputs - x) ** 2).sum(axis=1))) for x in phase] for phase in phases
    ]


def missing_transitions(machine: Machine, task: AbstractTask) -> list[tuple[int, int]] | None:
    """The (state, input) pairs that some input of any length reaches and the table lacks.

    Every read counts as possible. None for a task whose inputs are not symbols, one control and
    blanks.
    """
    if not isinstance(task, AbstractSequenceTask):
        return None
    symbols = phase_symbols(machine, task)
    follows = {"start": (0,), 0: (0, 1), 1: (2,), 2: (2,)}  # the phases after each
    todo: list[tuple[int, str | int]] = [(machine.start, "start")]
    missing = set()
    for state, phase in todo:
        for after, symbol in [(state, s) for state in follows[phase] for s in symbols[state]]:
            targets = set(machine.next_state[state, symbol].tolist())
            if UNKNOWN in targets:
                missing.add((state, symbol))
            todo += [(q, after) for q in targets - {UNKNOWN} if (q, after) not in todo]
    return sorted(missing)
