"""The cost of a report on a full study: 7 tasks, 5 approaches, 10 trials, all lengths.

    PYTHONPATH=tests python benchmarks/report_cost.py

The results are made up (tests/synthetic.py). `report_s` leaves t-SNE out: the first two principal
components stand in for the stored embeddings. One real embedding is measured on its own, and
`tsne_cpu_s` is that times their number, what a report costs on top if none is stored.

Last numbers: see docs/report.md.
"""

from __future__ import annotations

import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from constrained_dnc.evaluation.analyses import embed
from constrained_dnc.report import Report, published
from constrained_dnc.report.findings import Findings
from constrained_dnc.report.states import phase_states, stored_at, wanted_embeddings
from constrained_dnc.study import read_study
from synthetic import Request, write_study


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = write_study(Path(directory) / "full", Request(tasks=published.TASKS, trials=10))
        costs: dict[str, object] = {}
        start = time.perf_counter()
        report = Report(read_study(path))
        costs["tables"] = sum(map(len, report.tables.values()))
        costs["tables_s"] = time.perf_counter() - start
        findings = report.analysed
        count, seconds = store_stand_ins(findings), one_embedding(findings)
        costs |= {"embeddings": count, "one_embedding_s": seconds, "tsne_cpu_s": count * seconds}
        start, cpu = time.perf_counter(), time.process_time()
        page = report.write()
        costs |= {
            "report_s": time.perf_counter() - start,
            "report_cpu_s": time.process_time() - cpu,
        }
        costs["page_MB"] = page.stat().st_size / 1e6
        costs["peak_GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(json.dumps(costs, indent=1))


def store_stand_ins(findings: Findings) -> int:
    wanted = wanted_embeddings(findings)
    for run_id, phase in wanted:
        states = phase_states(findings.study, run_id, phase)
        if states is not None:
            path = stored_at(findings.study, states)
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, states[..., :2], allow_pickle=False)
    return len(wanted)


def one_embedding(findings: Findings) -> float:
    states = phase_states(findings.study, *wanted_embeddings(findings)[0])
    if states is None:
        raise RuntimeError("the made-up study has no states")
    start = time.perf_counter()
    embed(states)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
