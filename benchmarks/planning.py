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

from constrained_dnc.evaluation.results import results_frame
from constrained_dnc.study import read_study, write_results
from constrained_dnc.sweep.plan import open_study, plan_study
from synthetic import row


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        plan = open_study(plan_study(folder, "paper"))
        (folder / "analysis").mkdir()
        for config in plan.configs[:-1]:
            np.savez(folder / "analysis" / f"{config.run_id}.npz")
            names = config.task, config.approach.name, config.seed
            rows = [
                row(*names, planned.length, 0.5, run_id=config.run_id, selection=rule)
                | {"memory": str(planned.memory), "batches": planned.batches}
                for rule, planned in plan.rows_of(config)
            ]
            iterations = config.training.iterations
            write_results(folder, config.run_id, iterations, results_frame(rows))
        start = time.process_time()
        plan = open_study(plan_study(folder, "paper"))
        left = len(plan.to_do())
        assert left == 1
        planned = time.process_time()
        runs = len(read_study(folder).runs)
        collected = time.process_time()
        costs = {"runs": runs, "left": left, "plan_s": planned - start}
        print(json.dumps({**costs, "collect_s": collected - planned}, indent=1))


if __name__ == "__main__":
    main()
