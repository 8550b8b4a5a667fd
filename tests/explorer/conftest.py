"""Small runs, a served page and a browser, each made once."""

import shutil
from collections.abc import Iterator

import pytest

from constrained_dnc.evaluation.scoring import evaluate
from constrained_dnc.explorer import server
from constrained_dnc.training.loop import train
from explored_page import ExplorerBrowser, served, start_browser
from tiny_runs import tiny_config


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run directories by approach, of one task; the first has stored scores."""
    folder = tmp_path_factory.mktemp("runs")
    folders: dict[str, str] = {}
    for approach in ("compr+reg", "stateless-baseline"):
        train(tiny_config("copy", approach, iterations=10), folder / approach)
        folders[approach] = str(folder / approach)
    evaluate(folders["compr+reg"])
    return folders


@pytest.fixture(scope="session")
def training_run(runs: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """A copy of a run, to be changed while it is shown."""
    folder = tmp_path_factory.mktemp("more") / "training"
    shutil.copytree(runs["compr+reg"], folder)
    return str(folder)


@pytest.fixture(scope="session")
def address(runs: dict[str, str], training_run: str) -> Iterator[str]:
    """A page on a free port."""
    with served(server.ModelCache([*runs.values(), training_run])) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExplorerBrowser]:
    browser = start_browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.driver.quit()
