"""The explorer's page as a person uses it, in headless Chromium."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from chromium import start_chromium
from constrained_dnc.explorer import server

PROBLEM = "3 1 4 1 0"
SIDEWAYS = "const page = document.documentElement; return page.scrollWidth - page.clientWidth"
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
            "'carries no state'))"
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


@contextmanager
def served(models: server.ModelCache) -> Iterator[int]:
    """The port of a page that is served from a thread."""
    listening = server.listen(0)
    loop = asyncio.new_event_loop()
    task = loop.create_task(server.serve(models, listening))

    def run() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()

    thread = threading.Thread(target=run)
    port = listening.getsockname()[1]
    thread.start()
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()


def start_browser(folder: Path) -> Browser:
    """A browser with downloads and a profile of its own."""
    downloads = folder / "downloads"
    downloads.mkdir()
    driver = start_chromium(folder / "profile")
    where = {"behavior": "allow", "downloadPath": str(downloads)}
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    return Browser(driver, downloads)


def type_problem(browser: Browser, text: str) -> None:
    field = browser.driver.find_element(By.ID, "problem")
    field.clear()
    field.send_keys(text, Keys.ENTER)


def link(browser: Browser) -> dict[str, str]:
    """What the address says, once it is written."""
    browser.run("address()")
    found = urlsplit(browser.driver.current_url).fragment
    return dict(parse_qsl(found))


def shown_answer(browser: Browser) -> list[list[str]]:
    """The entries of the answers as text, one list for each model."""
    return browser.run(
        "return [...document.querySelectorAll('.entries')].map("
        "list => [...list.querySelectorAll('button')].map(b => b.ariaLabel))"
    )
