"""Small runs, a served page and a browser, each made once."""

import asyncio
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

from constrained_dnc.evaluation.lengths import evaluate
from constrained_dnc.explorer import server
from constrained_dnc.training.loop import train
from report.test_page import FLAGS, find_browser
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


PATIENCE = 180
"""Seconds that a busy machine may take for a page."""


class Browser:
    """The explorer in headless Chromium."""

    def __init__(self, driver: webdriver.Chrome, downloads: Path):
        self.driver, self.downloads = driver, downloads
        self.shown: tuple[str, int, str] | None = None

    def look(
        self, address: str, width: int = 1280, scheme: str = "light", step: int = 1, **state: str
    ) -> None:
        """Show a state of the page; one that is on the screen already is not loaded again."""
        wanted = {"compare": "", "memory": "", **state}
        if (
            self.shown == (address, width, scheme)
            and self.run("return state").items() >= wanted.items()
        ):
            self.run("setStep(arguments[0]); follow(0)", step)
        else:
            self.open(f"{address}#{urlencode({**wanted, 'step': step})}", width, scheme)
            self.shown = address, width, scheme

    def open(self, url: str, width: int = 1280, scheme: str = "light") -> None:
        """Show a page and wait for all of its figures."""
        self.shown = None
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        self.driver.get("about:blank")  # a change of the fragment alone does not load a page
        self.driver.get(url)
        self.ready()

    def ready(self) -> None:
        """Wait until every figure of the last answer is drawn."""
        self.wait(
            "return views.length > 0 && !$('views').hasAttribute('aria-busy') && views.every("
            "v => v.path || v.panels.find(p => p.name == 'states').words.textContent.includes("
            "'no state'))"
        )

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str) -> Any:
        return WebDriverWait(self.driver, PATIENCE).until(lambda _: self.run(script))

    def wait_for(self, condition: Callable[[], Any]) -> Any:
        return WebDriverWait(self.driver, PATIENCE).until(lambda _: condition())

    def complaints(self) -> list[dict[str, str]]:
        return list(self.driver.get_log("browser"))  # type: ignore[no-untyped-call]

    def requests(self) -> list[str]:
        """Every address asked for since the last look, those inside the page left out."""
        log = self.driver.get_log("performance")  # type: ignore[no-untyped-call]
        messages = [json.loads(entry["message"])["message"] for entry in log]
        urls = [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith(("data:", "blob:", "chrome:"))]


def start_browser(folder: Path) -> Browser:
    binary, driver_path = find_browser()
    downloads = folder / "downloads"
    downloads.mkdir()
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_path))
    where = {"behavior": "allow", "downloadPath": str(downloads)}
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    return Browser(driver, downloads)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = start_browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.driver.quit()
