"""Small runs, a served page and a browser, each made once."""

import asyncio
import shutil
import threading
from collections.abc import Iterator

import pytest

from constrained_dnc.evaluation.scoring import evaluate
from constrained_dnc.explorer import server
from constrained_dnc.training.loop import train
from explored_page import Browser, start_browser
from tiny_runs import tiny_config


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run directories by approach, of one task; the first has stored scores."""
    folder = tmp_path_factory.mktemp("runs")
    found: dict[str, str] = {}
    for approach in ("compr+reg", "stateless-baseline"):
        train(tiny_config("copy", approach, iterations=10), folder / approach)
        found[approach] = str(folder / approach)
    evaluate(found["compr+reg"])
    return found


@pytest.fixture(scope="session")
def training_run(runs: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run of its own, to be changed while it is looked at."""
    folder = tmp_path_factory.mktemp("more") / "training"
    shutil.copytree(runs["compr+reg"], folder)
    return str(folder)


@pytest.fixture(scope="session")
def address(runs: dict[str, str], training_run: str) -> Iterator[str]:
    """A page on a free port, served from a thread."""
    listening = server.listen(0)
    port = listening.getsockname()[1]
    loop = asyncio.new_event_loop()
    task = loop.create_task(server.serve(server.Shelf([*runs.values(), training_run]), listening))

    def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    yield f"http://127.0.0.1:{port}/"
    loop.call_soon_threadsafe(task.cancel)
    thread.join()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = start_browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.driver.quit()
