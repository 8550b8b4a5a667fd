"""Studies whose trials are right up to chosen lengths."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from constrained_dnc.evaluation.results import results_frame
from constrained_dnc.report.findings import Findings
from constrained_dnc.study import read_study, write_results
from synthetic import Request, row, write_study

GRID = (2, *range(5, 51, 5), *range(60, 101, 10), 150, 200)


def add_rows(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Store results of further runs of a study."""
    frame = results_frame(rows)
    for (run_id, iterations), part in frame.groupby(["run_id", "iterations"]):
        write_results(path, str(run_id), int(iterations), part)
    request = json.loads((path / "study.json").read_text())
    runs = frame.drop_duplicates("run_id").set_index("run_id")[["task", "approach", "seed"]]
    request["runs"] |= runs.to_dict("index")
    (path / "study.json").write_text(json.dumps(request))


def findings_of(
    path: Path, task: str, ends: Mapping[str, Mapping[str, Sequence[int]]], **other: object
) -> Findings:
    """By memory and approach, the lengths up to which the trials are right."""
    names = tuple(dict.fromkeys(name for by_name in ends.values() for name in by_name))
    request = Request((task,), names, trials=0, analysis=False, growing="growing" in ends)
    write_study(path, request)
    add_rows(
        path,
        [
            row(task, name, seed, at, float(at <= end), memory=memory, **other)
            for memory, by_name in ends.items()
            for name, lengths in by_name.items()
            for seed, end in enumerate(lengths)
            for at in (range(2, 101) if memory == "50" else GRID)
        ],
    )
    return Findings(read_study(path), "unseen")
