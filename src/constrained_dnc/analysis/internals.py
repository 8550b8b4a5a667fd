"""State-space and memory analyses of a trained run, as arrays to store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Bool

from constrained_dnc.analysis.memory_modes import analyse_modes
from constrained_dnc.analysis.state_space import analyse_states
from constrained_dnc.choices import PAPER_RULE, RULES, SelectionRule
from constrained_dnc.config import Config
from constrained_dnc.model.dnc import DNC, Internals
from constrained_dnc.model.dnc_memory import Interface
from constrained_dnc.shapes import AnyArray, Float
from constrained_dnc.tasks.task import AbstractTask, Batch
from constrained_dnc.training.batches import evaluation_batch
from constrained_dnc.training.run import Run


def analyse_run(run: Run, rules: Sequence[SelectionRule] = RULES) -> dict[str, Any]:
    """Analyse the parameters of the first of `rules` that selected any.

    The array `selection` names that rule, `iteration` the one it selected.
    """
    selected = run.selected(next((rule for rule in rules if rule in run.rules), PAPER_RULE))
    arrays = analyse_model(selected.model, run.task, run.config)
    origin = {"selection": np.array(selected.rule), "iteration": np.array(selected.iteration)}
    return {**origin, **arrays}


def analyse_model(model: DNC, task: AbstractTask, config: Config) -> dict[str, Any]:
    """Cell states at the unseen length, and access modes at the longest training length.

    In the paper these lengths are 30 and 15. States are taken before any constraint changes them;
    they are left out if the controller has none or if some are not finite, as after divergence.
    Only the DNC's memory has access modes.
    """
    training = config.training
    arrays: dict[str, Any] = {}
    batch = evaluation_batch(task, config.evaluation, training.unseen_length, 0)
    inside = _inside(model, batch.inputs)
    states = inside.uncompressed_cell_state if model.changes_state else inside.cell_state
    if states.shape[-1] and np.isfinite(states).all():
        encoding = task.encoding_steps(training.unseen_length)
        arrays |= analyse_states(np.asarray(states), encoding, batch.num_steps)
    if isinstance(inside.interface, Interface):
        batch = evaluation_batch(task, config.evaluation, training.max_length, 0)
        interface = _inside(model, batch.inputs).interface
        gates, modes = np.asarray(interface.allocation_gate), np.asarray(interface.read_modes)
        encoding = task.encoding_steps(training.max_length)
        arrays |= analyse_modes(gates, modes, encoding, decoding_steps(batch))
    return arrays


def decoding_steps(batch: Batch) -> Bool[np.ndarray, "time batch"]:
    """The steps at which each sample gives its answer: from the first in the loss to its last."""
    step = np.arange(len(batch.mask))[:, np.newaxis]
    return (step >= batch.mask.argmax(axis=0)) & (step < batch.num_steps)


@eqx.filter_jit
def _inside(model: DNC, inputs: Float[AnyArray, "time batch inputs"]) -> Internals:
    """The internals of all steps without the memory state, by far the largest part."""
    inside = model.unroll(inputs, internals=True).internals
    assert inside is not None
    return eqx.tree_at(lambda inside: inside.memory, inside, None)
