"""One small study and its report, shared by the tests of the report."""

from pathlib import Path

import pytest

from constrained_dnc.report import Report, build_report, states
from constrained_dnc.study import read_study
from made_up import add_rows
from synthetic import Request, row, run_folder, write_study

SMALL = Request(
    tasks=("sort", "search"),
    approaches=("stateful-baseline", "stateless-baseline", "compr+reg", "lstm-compr+reg"),
    trials=2,
    samples=2,
    selections=("unseen", "score"),
)


@pytest.fixture(scope="session")
def small_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks, four approaches, two trials; one run missing, one diverged, one failed."""
    path = write_study(tmp_path_factory.mktemp("studies") / "small", SMALL)
    failed = run_folder(path, "search", "compr+reg", 1)
    (failed / "evaluation.parquet").unlink()
    broken = {"status": "diverged", "skipped_updates": 7}
    rows = [
        row("sort", "stateful-baseline", 1, length, 0.4, selection=rule, **broken)
        for rule in SMALL.selections
        for length in range(2, 101)
    ]
    add_rows(path, rows)
    reason = "Traceback\nMemoryError: <script>alert(1)</script> & out of memory"
    (failed / "failure.txt").write_text(reason)
    return path


@pytest.fixture(scope="session")
def small_report(small_study: Path) -> Report:
    return Report(read_study(small_study))


@pytest.fixture(scope="session")
def page(small_study: Path) -> Path:
    """The page of the small study, with components of the states in place of t-SNE."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(states, "embed", lambda states: states[..., :2])
        return build_report(small_study)
