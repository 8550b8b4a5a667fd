"""Updates that are not finite: skipped, counted and kept."""

from dataclasses import replace

import equinox as eqx
import numpy as np
import pytest

from constrained_dnc.files import read_tensors
from constrained_dnc.model.backend import choose_backend
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.batches import training_batch
from constrained_dnc.training.loop import train
from constrained_dnc.training.parameters import initial_model
from tiny_runs import fingerprint, newest_checkpoint, tiny_config
from watched_runs import CONFIG, Watcher


def faulty_backend(config, is_faulty):
    """The default backend with a NaN in the gradient of some calls, counted from 1."""
    model = initial_model(config)
    backend = choose_backend("auto", model, get_task(config.task).loss, threads=1)
    calls = iter(range(1, 10**6))
    compute = backend.value_and_grad

    def value_and_grad(model, batch, key=None):
        loss, parts, gradient = compute(model, batch, key)
        if is_faulty(next(calls)):
            bias = np.array(gradient.output_bias)
            bias[0] = np.nan
            gradient = eqx.tree_at(lambda g: g.output_bias, gradient, bias)
        return loss, parts, gradient

    backend.value_and_grad = value_and_grad
    return backend


def test_fault_in_a_gradient_is_skipped_and_counted(finished, tmp_path):
    faults = {9, 10, 17}
    backend = faulty_backend(CONFIG, faults.__contains__)
    watcher = Watcher()
    run = train(CONFIG, tmp_path / "run", backend=backend, threads=1, observer=watcher)
    assert run.status.skipped_updates == len(faults)
    assert run.status.state == "finished"
    kept = sorted(path.name for path in (run.folder / "nonfinite").iterdir())
    assert kept == [f"iteration-{i:07d}.safetensors" for i in sorted(faults)]
    tensors, _ = newest_checkpoint(run.folder)
    assert all(np.isfinite(array).all() for array in tensors.values())
    assert int(tensors["optimiser/1.0.count"]) == 40 - len(faults)
    assert len(watcher.warnings) == 3
    assert [line["seen_loss"] for line in run.metrics if line["iteration"] == 10] == [None]
    # the updates before the first fault are those of the undisturbed run
    assert run.metrics[:4] == finished[0].metrics[:4]
    assert run.metrics[-1] != finished[0].metrics[-1]


def test_hundred_faults_in_a_row_are_a_divergence(tmp_path):
    config = tiny_config(iterations=300, checkpoint_every=50)
    run = train(
        config, tmp_path / "run", backend=faulty_backend(config, lambda call: call > 30), threads=1
    )
    status = run.status
    assert (status.state, status.iteration, status.skipped_updates) == ("diverged", 130, 100)
    assert len(list((run.folder / "nonfinite").iterdir())) == 5
    before = fingerprint(run.folder)
    longer = replace(config, training=replace(config.training, iterations=400))
    for requested in (config, longer):
        again = train(requested, run.folder).status
        assert (again.state, again.iterations) == ("diverged", 300)
    assert fingerprint(run.folder) == before


def test_an_update_that_overflows_is_skipped_and_said(tmp_path):
    config = tiny_config(iterations=12, learning_rate=1e32, clip_norm=1e-30, epsilon=1.2e-38)
    watcher = Watcher()
    run = train(config, tmp_path / "run", threads=1, observer=watcher)
    skipped = run.status.skipped_updates
    assert skipped == 12
    for tensors in (
        newest_checkpoint(run.folder)[0],
        read_tensors(run.folder / "selected.safetensors")[0],
    ):
        assert all(np.isfinite(array).all() for array in tensors.values())
    finite = [warning for warning in watcher.warnings if "the update overflowed" in warning]
    assert finite


@pytest.mark.parametrize(("faults", "warned"), [(4, False), (5, True)])
def test_skipped_updates_are_reported_at_the_end(tmp_path, faults, warned):
    backend = faulty_backend(CONFIG, lambda call: call <= faults)
    for _ in range(2):  # also when there is nothing left to do
        watcher = Watcher()
        run = train(CONFIG, tmp_path / "run", backend=backend, threads=1, observer=watcher)
        assert run.status.reason.endswith(f"{faults} of 40 updates were skipped")
        assert any("more than a tenth" in warning for warning in watcher.warnings) == warned


NAN_TASK = '''
from constrained_dnc.tasks.numeral import Copy

class NanCopy(Copy):
    """Copy, with a NaN in the batches whose first and last problem begin with 4."""

    name = "nan-copy"

    def encode(self, problems):
        batch = super().encode(problems)
        if problems[0][0] == problems[-1][0] == 4:
            batch.inputs[0, 0, 0] = float("nan")
        return batch
'''


@pytest.fixture(scope="module")
def nan_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nan")
    (folder / "nan_copy.py").write_text(NAN_TASK)
    config = tiny_config(f"{folder / 'nan_copy.py'}:NanCopy", iterations=80)
    return train(config, folder / "run", threads=1)


def test_nan_in_batches_is_skipped_and_counted(nan_run):
    config, task = nan_run.config, nan_run.task
    faulty = [
        iteration
        for iteration in range(1, 81)
        if np.isnan(training_batch(task, config, iteration).inputs).any()
    ]
    assert faulty
    assert nan_run.status.skipped_updates == len(faulty)
    kept = sorted(int(path.stem[-7:]) for path in (nan_run.folder / "nonfinite").iterdir())
    assert kept == faulty[:5]
    assert nan_run.status.state == "finished"
