"""The explorer's page as a person uses it, in headless Chromium."""

import asyncio
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

from chromium import PATIENCE, Browser, start_chromium
from constrained_dnc.explorer import server

PROBLEM = "3 1 4 1 0"


class ExplorerBrowser(Browser):
    """The explorer in headless Chromium."""

    def __init__(self, driver: webdriver.Chrome, downloads: Path):
        super().__init__(driver)
        self.downloads = downloads
        self.shown: tuple[str, int] | None = None

    def look(self, address: str, width: int = 1280, step: int = 1, **state: str) -> None:
        """Show a state of the page; one that is on the screen already is not loaded again."""
        state = {"compare": "", "memory": "", **state}
        if self.shown == (address, width) and self.run("return state").items() >= state.items():
            self.run("setStep(arguments[0]); followSlot(0)", step)
        else:
            self.open(f"{address}#{urlencode({**state, 'step': step})}", width)
            self.shown = address, width

    def open(self, url: str, width: int = 1280) -> None:
        """Show a page and wait for all of its figures."""
        self.shown = None
        self.show(url, width)
        self.ready()

    def ready(self) -> None:
        """Wait until every figure of the last answer is drawn."""
        self.wait(
            "return views.length > 0 && $('views').ariaBusy !== 'true' && views.every("
            "v => v.path || v.panels.find(p => p.name == 'states').words.textContent.includes("
            "'carries no state'))"
        )

    def wait_for(self, condition: Callable[[], Any]) -> Any:
        return WebDriverWait(self.driver, PATIENCE).until(lambda _: condition())


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


def start_browser(folder: Path) -> ExplorerBrowser:
    """A browser with a fresh profile and folder for downloads."""
    downloads = folder / "downloads"
    downloads.mkdir()
    driver = start_chromium(folder / "profile")
    where = {"behavior": "allow", "downloadPath": str(downloads)}
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    return ExplorerBrowser(driver, downloads)


def type_problem(browser: ExplorerBrowser, text: str) -> None:
    field = browser.driver.find_element(By.ID, "problem")
    field.clear()
    field.send_keys(text, Keys.ENTER)


def link(browser: ExplorerBrowser) -> dict[str, str]:
    """What the address says, once it is written."""
    browser.run("writeLink()")
    return dict(parse_qsl(urlsplit(browser.driver.current_url).fragment))


def shown_answer(browser: ExplorerBrowser) -> list[list[str]]:
    """The entries of the answers as text, one list for each model."""
    return browser.run(
        "return [...document.querySelectorAll('.entries')].map("
        "list => [...list.querySelectorAll('button')].map(b => b.ariaLabel))"
    )
