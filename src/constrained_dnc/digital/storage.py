"""The digital parts of a run's selected parameters, calibrated once and stored in its folder."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import asdict

import numpy as np

from constrained_dnc.digital.calibration import calibrate
from constrained_dnc.digital.parts import Digital, Measured
from constrained_dnc.digital.states import spread
from constrained_dnc.errors import RunError
from constrained_dnc.files import corruption_named, read_tensors, write_tensors
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.leaves import named_leaves
from constrained_dnc.training.folder import DIGITAL
from constrained_dnc.training.run import Run, Selected


def digital_of(run: Run, selected: Selected, threads: int | None = None) -> Digital:
    """The stored digital parts of selected parameters, or new ones, which are stored."""
    stored = stored_digital(run, selected)
    if stored is not None:
        return stored
    training = run.config.training
    lengths = spread(training.min_length, training.max_length)
    digital = calibrate(selected.model, run.task, lengths=lengths, threads=threads)
    if not run.is_pretrained:
        metadata = {
            "parameters": fingerprint(selected.model),
            "writes": digital.writes,
            "state_count": digital.state_count,
            # losses as text: JSON has no NaN
            "tried": [asdict(each) | {"loss": str(each.loss)} for each in digital.tried],
        }
        states = {} if digital.states is None else {"states": digital.states}
        with suppress(RunError):  # the disk may be full or read-only
            write_tensors(run.folder / DIGITAL[selected.rule], states, metadata)
    return digital


def stored_digital(run: Run, selected: Selected) -> Digital | None:
    """The digital parts in a run's folder; None if they are absent, corrupt or out of date."""
    path = run.folder / DIGITAL[selected.rule]
    with suppress(RunError):
        tensors, metadata = read_tensors(path)
        with corruption_named(path):
            tried = tuple(
                Measured(**each | {"loss": float(each["loss"])}) for each in metadata["tried"]
            )
            if metadata["parameters"] == fingerprint(selected.model):
                states, count = tensors.get("states"), metadata["state_count"]
                return Digital(metadata["writes"], states, count, tried)
    return None


def fingerprint(model: DNC) -> str:
    """A checksum of the parameters of a model."""
    digest = hashlib.sha256()
    for name, leaf in named_leaves(model):
        digest.update(name.encode() + np.asarray(leaf).tobytes())
    return digest.hexdigest()
