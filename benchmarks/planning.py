"""The cost of planning and collecting the paper's 350 runs, all done but for one.

    PYTHONPATH=tests python benchmarks/planning.py

Every run has results at all lengths (made up); `plan_s` opens the study and looks which runs are
left, `collect_s` reads all results, both in processor time.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import numpy as np

from constrained_dnc.config import RULES
from constrained_dnc.evaluation.results import results_frame
from constrained_dnc.files import write_json, write_table
from constrained_dnc.study import read_study
from constrained_dnc.study.plan import Plan, open_study, requested_configs
from constrained_dnc.study.trial import rows_of
from constrained_dnc.training.folder import ANALYSES, EVALUATION
from constrained_dnc.training.run import Run, write_config
from synthetic import row
from tiny_runs import STATUS


def complete(plan: Plan, run: Run) -> None:
    """Give a run the files of one that is done."""
    config, iterations = run.config, run.config.training.iterations
    write_config(run.folder, config, "fused", threads=1)
    selected = dict.fromkeys(RULES, iterations)
    status = {"iteration": iterations, "iterations": iterations, "best_iteration": selected}
    write_json(run.folder / "status.json", STATUS | status)
    np.savez(run.folder / ANALYSES, selection=np.array("unseen"), iteration=np.array(iterations))
    names = config.task, config.approach.name, config.seed
    rows = [
        row(*names, planned.length, 0.5, selection=rule, iterations=iterations)
        | {"memory": str(planned.memory), "batches": planned.batches}
        for rule, planned in rows_of(run, plan.wanted)
    ]
    write_table(run.folder / EVALUATION, results_frame(rows))


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / "study"
        plan = open_study(folder, requested_configs("paper"))
        for run in plan.runs[:-1]:
            complete(plan, run)
        start = time.process_time()
        left = len(open_study(folder, requested_configs("paper")).to_do())
        assert left == 1
        planned = time.process_time()
        runs = len(read_study(folder).runs)
        collected = time.process_time()
        costs = {"runs": runs, "left": left, "plan_s": planned - start}
        print(json.dumps({**costs, "collect_s": collected - planned}, indent=1))


if __name__ == "__main__":
    main()
