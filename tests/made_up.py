"""Studies whose trials are right up to chosen lengths."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from constrained_dnc.evaluation.results import concat_results, results_frame, stored_results
from constrained_dnc.files import write_table
from constrained_dnc.report.findings import Findings
from constrained_dnc.study import read_study
from constrained_dnc.training.folder import EVALUATION
from synthetic import Request, config_of, plan, row, run_folder, write_study

GRID = (2, *range(5, 51, 5), *range(60, 101, 10), 150, 200)


def add_rows(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Store results of runs of a study, in place of those after as many iterations."""
    frame = results_frame(rows)
    for (task, approach, seed), part in frame.groupby(["task", "approach", "seed"]):
        folder = run_folder(path, task, approach, seed)
        if not folder.exists():
            iterations = int(part["iterations"].max())
            memories = "trained,500,growing"
            plan(path, task, config_of(task, approach, seed, "paper", iterations, memories))
        before = stored_results(folder)
        kept = before[~before["iterations"].isin(part["iterations"])]
        write_table(folder / EVALUATION, concat_results([kept, part]))


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
