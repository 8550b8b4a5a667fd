"""A small run for the explorer, trained once."""

from pathlib import Path

import pytest

from constrained_dnc.evaluation.lengths import evaluate
from constrained_dnc.training.loop import train
from tiny_runs import tiny_config


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run directories by approach; the first has stored scores."""
    folder = tmp_path_factory.mktemp("runs")
    found: dict[str, str] = {}
    for approach in ("compr+reg", "stateful-baseline"):
        train(tiny_config("copy", approach, iterations=10), folder / approach)
        found[approach] = str(Path(folder / approach))
    evaluate(found["compr+reg"])
    return found
