"""t-SNE embeddings of a study's runs, each computed once and stored in the study directory.

Embedding 64 samples of length 30 takes about 13 s on one core, so only the states that a report's
figures show are embedded, when it is first built.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import sklearn
from jaxtyping import Float, Float32

from constrained_dnc import published
from constrained_dnc.analysis.state_space import embed
from constrained_dnc.cores import available_cores
from constrained_dnc.files import make_folder, write_atomically
from constrained_dnc.study import Study
from constrained_dnc.study.layout import EMBEDDINGS

PHASES = ("encoding", "decoding")
FEWEST_STATES = 4  # in one phase; fewer are not worth drawing


def phases_of(task: str) -> tuple[str, ...]:
    """The phases of a task whose states are drawn."""
    return PHASES[:1] if task in published.ENCODING_ONLY else PHASES


def embedding(study: Study, run_id: str, phase: str) -> Float32[np.ndarray, "time batch 2"] | None:
    """The embedded states of a run in one phase; None for a run without states."""
    states = phase_states(study, run_id, phase)
    if states is None:
        return None
    path = stored_at(study, states)
    with suppress(Exception):  # absent or corrupt: recompute it
        stored: Float32[np.ndarray, "..."] = np.load(path, allow_pickle=False)
        if stored.shape == (*states.shape[:2], 2):
            return stored
    embedded = embed(states)
    make_folder(path.parent)
    buffer = io.BytesIO()
    np.save(buffer, embedded, allow_pickle=False)
    write_atomically(path, buffer.getvalue())
    return embedded


def embed_all(
    study: Study,
    run_phases: Iterable[tuple[str, str]],
    progress: Callable[[str, int, int], None],
) -> None:
    """Compute the missing embeddings of pairs (run id, phase), one per core at a time."""
    pairs = list(run_phases)
    # Threads suffice: the gradient of t-SNE releases the interpreter lock.
    with ThreadPoolExecutor(available_cores()) as pool:
        for done, _ in enumerate(pool.map(lambda pair: embedding(study, *pair), pairs), start=1):
            progress("t-SNE", done, len(pairs))


def phase_states(
    study: Study, run_id: str, phase: str
) -> Float[np.ndarray, "time batch dimensions"] | None:
    """The reduced states of a run in one phase; None if there are too few to draw."""
    arrays = study.analysis(run_id, "states", "encoding_steps")
    if "states" not in arrays:
        return None
    steps = int(arrays["encoding_steps"])  # with the end-of-input flag
    states = arrays["states"][:steps] if phase == "encoding" else arrays["states"][steps:]
    return states if len(states) >= 2 and states[..., 0].size >= FEWEST_STATES else None


def stored_at(study: Study, states: Float[np.ndarray, "time batch dimensions"]) -> Path:
    """The file of an embedding, named by a hash of the states and scikit-learn's version."""
    digest = hashlib.sha256(f"{sklearn.__version__} {states.shape} {states.dtype}".encode())
    digest.update(np.ascontiguousarray(states).tobytes())
    return study.path / EMBEDDINGS / f"{digest.hexdigest()[:32]}.npy"
