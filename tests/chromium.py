"""A real browser for the pages that people look at."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 180
"""Seconds that a busy machine may take for a page."""


def find_browser() -> tuple[str, str]:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        reason = "no Chromium with chromedriver on this machine; `make browser` installs them"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return browser, driver


def start_chromium(profile: Path) -> webdriver.Chrome:
    """Headless Chromium that logs its console and its requests."""
    binary, driver_path = find_browser()
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(driver_path))


class Browser:
    """Pages in headless Chromium."""

    def __init__(self, driver: webdriver.Chrome):
        self.driver = driver

    def emulate(self, width: int, scheme: str) -> None:
        """A window this wide, on a light or dark system."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)

    def show(self, url: str, width: int = 1280, scheme: str = "light") -> None:
        self.emulate(width, scheme)
        self.driver.get("about:blank")  # a change of the fragment alone does not load a page
        self.driver.get(url)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str) -> Any:
        return WebDriverWait(self.driver, PATIENCE).until(lambda _: self.run(script))

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        root = "document.documentElement"
        return int(self.run(f"return {root}.scrollWidth - {root}.clientWidth"))

    def complaints(self) -> list[dict[str, str]]:
        """Messages on the console since the last call."""
        return list(self.driver.get_log("browser"))  # type: ignore[no-untyped-call]

    def requests(self) -> list[str]:
        """Addresses requested since the last call, except those inside the page."""
        log = self.driver.get_log("performance")  # type: ignore[no-untyped-call]
        messages = [json.loads(entry["message"])["message"] for entry in log]
        urls = [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]
        own = ("data:", "blob:", "chrome", "about:")
        return [url for url in urls if not url.startswith(own)]
