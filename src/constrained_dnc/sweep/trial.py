"""One run of a study from start to end; what a worker does."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa

from constrained_dnc.analysis.embeddings import PHASES, embed_run
from constrained_dnc.config import Config
from constrained_dnc.evaluation.internals import analyse_run
from constrained_dnc.evaluation.lengths import evaluate
from constrained_dnc.study import read_study, write_results
from constrained_dnc.sweep.plan import ANALYSIS, EXTENSION, RUNS
from constrained_dnc.training.compilation import use_compilation_cache
from constrained_dnc.training.files import write_atomically
from constrained_dnc.training.loop import train


def run_trial(study: str, config_text: str) -> str:
    """Train, evaluate with and without memory extension, analyse, embed; the run's final state.

    Everything goes to the study directory, which all workers share. A run that was begun by a
    worker that died goes on from its last checkpoint. Results come last and mark the run as done.
    """
    use_compilation_cache()
    folder, config = Path(study), Config.from_json(config_text)
    run = train(config, folder / RUNS / config.run_id, threads=1)
    memory_size = config.model.memory_size
    tables = [
        evaluate(run, memory_sizes=[memory_size], threads=1),
        evaluate(run, memory_sizes=[EXTENSION * memory_size], threads=1),
        evaluate(run, memory_sizes=[memory_size], selection="seen", threads=1),
    ]
    arrays = io.BytesIO()
    np.savez(arrays, allow_pickle=False, **analyse_run(run))
    (folder / ANALYSIS).mkdir(exist_ok=True)
    write_atomically(folder / ANALYSIS / f"{config.run_id}.npz", arrays.getvalue())
    phases = PHASES if run.task.has_fixed_decoding else PHASES[:1]
    embed_run(read_study(folder), config.run_id, phases)
    write_results(folder, config.run_id, pa.concat_tables(tables).to_pylist())
    return run.status.state
