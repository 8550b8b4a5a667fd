"""State-space and memory analyses of a trained model, as arrays to store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Float32, Int
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from constrained_dnc.config import PAPER_RULE, RULES, Config, SelectionRule, parse_lengths
from constrained_dnc.evaluation.states import decoding_steps, drift
from constrained_dnc.model.dnc import DNC, Internals
from constrained_dnc.model.dnc_memory import Interface
from constrained_dnc.shapes import AnyArray
from constrained_dnc.tasks.task import AbstractTask
from constrained_dnc.training.batches import evaluation_batch
from constrained_dnc.training.run import Run

DIMENSIONS = 20
PERPLEXITY = 50
STILL = 1e-6
"""A step shorter than this fraction of the largest state entry is rounding noise, not movement."""


def analyse_states(
    cell_states: Float[np.ndarray, "time batch cell"],
    encoding_steps: int,
    num_steps: Int[np.ndarray, "batch"] | None = None,
) -> Mapping[str, np.ndarray]:
    """Reduced states of one batch, their explained variance and curvature, for storage.

    States after the first `num_steps` of a sample are padding; by default there is none.
    """
    time, batch, _ = cell_states.shape
    ends = np.full(batch, time) if num_steps is None else num_steps
    is_valid = np.arange(time)[:, None] < ends
    reduced, explained = reduce_states(cell_states, is_valid)
    return {
        "states": reduced,
        "explained_variance": np.array(explained),
        "curvature": np.array(curvature(reduced, is_valid)),
        "encoding_steps": np.array(encoding_steps),
    }


def reduce_states(
    cell_states: Float[np.ndarray, "time batch cell"],
    is_valid: Bool[np.ndarray, "time batch"] | None = None,
    dimensions: int = DIMENSIONS,
) -> tuple[Float32[np.ndarray, "time batch dimensions"], float]:
    """Principal components, fitted to all states but padding, and the variance they explain.

    There are fewer dimensions if there are fewer states or cells. States that never move have no
    variance to explain; all of it (1.0) counts as explained.
    """
    time, batch, cell = cell_states.shape
    flat = cell_states.reshape(-1, cell).astype(np.float64)
    valid = flat if is_valid is None else flat[is_valid.ravel()]
    if np.ptp(valid, axis=0).max() == 0:
        return np.zeros((time, batch, min(dimensions, *valid.shape)), np.float32), 1.0
    pca = PCA(min(dimensions, *valid.shape), svd_solver="full").fit(valid)
    reduced = pca.transform(flat).reshape(time, batch, -1)
    return reduced.astype(np.float32), float(pca.explained_variance_ratio_.sum())


def curvature(
    states: Float[np.ndarray, "time batch dimensions"],
    is_valid: Bool[np.ndarray, "time batch"] | None = None,
) -> float:
    """Mean change of direction between successive steps, over the sequence and the batch.

    A step without movement has no direction: changes from or to it are left out. A state that
    never moves, or moves once, has curvature 0, like a straight line.
    """
    steps = np.diff(states.astype(np.float64), axis=0)
    distance = np.linalg.norm(steps, axis=-1, keepdims=True)
    moves = distance > STILL * np.abs(states).max(initial=0.0)
    directions = np.divide(steps, distance, out=np.zeros_like(steps), where=moves)
    change = np.linalg.norm(np.diff(directions, axis=0), axis=-1)
    counted = (moves[1:] & moves[:-1])[..., 0]
    if is_valid is not None:
        counted &= is_valid[2:]
    return float(change[counted].mean()) if counted.any() else 0.0


def embed(
    states: Float[np.ndarray, "time batch dimensions"],
) -> Float32[np.ndarray, "time batch 2"]:
    """Deterministic two-dimensional t-SNE of all states of one phase.

    Perplexity 50, or less if there are too few states; random initialisation.
    """
    flat = states.reshape(-1, states.shape[-1])
    tsne = TSNE(
        perplexity=min(PERPLEXITY, (len(flat) - 1) / 3),
        learning_rate="auto",
        init="random",
        random_state=0,
    )
    # One thread is fastest for this few points, and several embeddings can run in parallel.
    with threadpool_limits(1, user_api="openmp"):
        plane: Float32[np.ndarray, "points 2"] = tsne.fit_transform(flat).astype(np.float32)
    return plane.reshape(*states.shape[:2], 2)


BINS = 20
"""Bins of a histogram on [0, 1]."""
CONTENT = 2  # order of the read modes: backward, forward, content


def analyse_modes(
    allocation_gate: Float[np.ndarray, "time batch"],
    read_modes: Float[np.ndarray, "time batch reads 3"],
    encoding_steps: int,
    is_decoding: Bool[np.ndarray, "time batch"] | None = None,
) -> Mapping[str, Int[np.ndarray, "bins"]]:
    """Histograms of both modes in both phases, by the names they are stored under.

    Write mode: the allocation gate, 0 = by content, 1 = a newly allocated slot. Read mode: the
    content component, 0 = sequential, 1 = by content, over all read heads. `is_decoding` marks
    the steps that give the answer (not a query, not padding); by default all after the encoding.
    """
    modes = {"write_mode": allocation_gate, "read_mode": read_modes[..., CONTENT]}
    is_encoding = np.zeros(allocation_gate.shape, np.bool_)
    is_encoding[:encoding_steps] = True
    phases = {
        "encoding": is_encoding,
        "decoding": ~is_encoding if is_decoding is None else is_decoding,
    }
    return {
        f"{mode}_{phase}": np.histogram(values[steps], BINS, (0.0, 1.0))[0]
        for mode, values in modes.items()
        for phase, steps in phases.items()
    }


def analyse_run(run: Run, rules: Sequence[SelectionRule] = RULES) -> dict[str, Any]:
    """Analyse the parameters of the first of `rules` that selected any.

    The array `selection` names that rule, `iteration` the one it selected.
    """
    selected = run.selected(next((rule for rule in rules if rule in run.rules), PAPER_RULE))
    arrays = analyse_model(selected.model, run.task, run.config)
    origin = {"selection": np.array(selected.rule), "iteration": np.array(selected.iteration)}
    return {**origin, **arrays}


def analyse_model(model: DNC, task: AbstractTask, config: Config) -> dict[str, Any]:
    """Cell states at the unseen length, their drift, and access modes.

    In the paper the unseen length is 30. States are taken before any constraint changes them; they
    are left out if the controller has none or if some are not finite, as after divergence. Drift
    is that of the carried states, at the unseen length and the longest that is evaluated. Access
    modes, which only the DNC's memory has, are those at the longest training length.
    """
    training = config.training
    arrays: dict[str, Any] = {}
    batch = evaluation_batch(task, config.evaluation, training.unseen_length, 0)
    inside = _inside(model, batch.inputs)
    states = inside.uncompressed_cell_state if model.changes_state else inside.cell_state
    if states.shape[-1] and np.isfinite(states).all():
        encoding = task.encoding_steps(training.unseen_length)
        arrays |= analyse_states(np.asarray(states), encoding, batch.num_steps)
        arrays |= analyse_drift(model, task, config)
    if isinstance(inside.interface, Interface):
        batch = evaluation_batch(task, config.evaluation, training.max_length, 0)
        interface = _inside(model, batch.inputs).interface
        gates, modes = np.asarray(interface.allocation_gate), np.asarray(interface.read_modes)
        encoding = task.encoding_steps(training.max_length)
        arrays |= analyse_modes(gates, modes, encoding, decoding_steps(batch))
    return arrays


def analyse_drift(model: DNC, task: AbstractTask, config: Config) -> dict[str, np.ndarray]:
    """Relative drift by length and phase; `drift` is that of answers at the unseen length."""
    training = config.training
    longest = parse_lengths(config.evaluation.lengths)[-1]
    measured = drift(
        model,
        task,
        (training.min_length, training.max_length),
        (training.unseen_length, longest),
        threads=1,
    )
    return {
        "drift": np.array(measured.relative[0, 1]),
        "drift_lengths": np.array(measured.lengths),
        "drift_by_length": measured.relative,
    }


@eqx.filter_jit
def _inside(model: DNC, inputs: Float[AnyArray, "time batch inputs"]) -> Internals:
    """The internals of all steps without the memory state, by far the largest part."""
    inside = model.unroll(inputs, internals=True).internals
    assert inside is not None
    return eqx.tree_at(lambda inside: inside.memory, inside, None)
