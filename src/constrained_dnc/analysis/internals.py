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
from constrained_dnc.model.dnc import DNC
from constrained_dnc.shapes import AnyArray, Array, Float
from constrained_dnc.tasks.task import AbstractTask, Batch
from constrained_dnc.training.run import Run
from constrained_dnc.training.streams import evaluation_batch


def analyse_run(run: Run, rules: Sequence[SelectionRule] = RULES) -> dict[str, Any]:
    """The analyses of the parameters that the first possible of `rules` selected.

    The array `selection` names that rule.
    """
    selected = run.selected(next((rule for rule in rules if rule in run.rules), PAPER_RULE))
    arrays = analyse_model(selected.model, run.task, run.config)
    return {"selection": np.array(selected.rule), **arrays}


def analyse_model(model: DNC, task: AbstractTask, config: Config) -> dict[str, Any]:
    """States at the unseen length of selection and access modes at the longest training length.

    In the paper these are 30 and 15. States are the carried ones, before any constraint that
    changes them. A controller without a state has none, and those of a run that diverged may not be
    finite: then they are left out.
    """
    training = config.training
    arrays: dict[str, Any] = {}
    batch = evaluation_batch(task, config, training.unseen_length, 0)
    carried, uncompressed, _, _ = _inside(model, batch.inputs)
    states = uncompressed if model.changes_state else carried
    if states.shape[-1] and np.isfinite(states).all():
        encoding = task.encoding_steps(training.unseen_length)
        arrays |= analyse_states(np.asarray(states), encoding, batch.num_steps)
    batch = evaluation_batch(task, config, training.max_length, 0)
    _, _, gates, modes = _inside(model, batch.inputs)
    encoding = task.encoding_steps(training.max_length)
    arrays |= analyse_modes(np.asarray(gates), np.asarray(modes), encoding, decoding_steps(batch))
    return arrays


def decoding_steps(batch: Batch) -> Bool[np.ndarray, "time batch"]:
    """The steps of each sample that give its answer: from the first in the loss to its last one."""
    step = np.arange(len(batch.mask))[:, np.newaxis]
    return (step >= batch.mask.argmax(axis=0)) & (step < batch.num_steps)


@eqx.filter_jit
def _inside(
    model: DNC, inputs: Float[AnyArray, "time batch inputs"]
) -> tuple[
    Float[Array, "time batch cell"],
    Float[Array, "time batch cell"],
    Float[Array, "time batch"],
    Float[Array, "time batch reads 3"],
]:
    """Cell states, carried and before compression, allocation gates and read modes of all steps."""
    inside = model.unroll(inputs, internals=True).internals
    assert inside is not None
    interface = inside.interface
    return (
        inside.cell_state,
        inside.uncompressed_cell_state,
        interface.allocation_gate,
        interface.read_modes,
    )
