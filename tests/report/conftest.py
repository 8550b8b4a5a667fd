"""One small study and its report, shared by the tests of the report."""

from pathlib import Path

import pytest

from constrained_dnc.report.page import build_report
from constrained_dnc.study import write_results
from synthetic import Request, row, write_study

SMALL = Request(
    tasks=("sort", "search"),
    approaches=("stateful-baseline", "stateless-baseline", "compr+reg", "lstm-compr+reg"),
    trials=2,
    samples=2,
)


@pytest.fixture(scope="session")
def small_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks, four approaches, two trials; one run missing, one diverged, one failed."""
    path = write_study(tmp_path_factory.mktemp("studies") / "small", SMALL)
    (path / "results" / "search-compr+reg-1.parquet").unlink()
    broken = {"status": "diverged", "skipped_updates": 7}
    rows = [row("sort", "stateful-baseline", 1, length, 0.4, **broken) for length in range(2, 101)]
    write_results(path, "sort-stateful-baseline-1", rows)
    (path / "failures.json").write_text(
        '[{"run_id": "search-compr+reg-1", "task": "search", "approach": "compr+reg", "seed": 1,'
        ' "reason": "<script>alert(1)</script> & out of memory \\ud800", "attempts": 3}]'
    )
    return path


@pytest.fixture(scope="session")
def page(small_study: Path) -> Path:
    return build_report(small_study)
