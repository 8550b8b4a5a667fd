"""Make the pictures of the explorer: python docs/images/explorer.py MODEL [OTHER] [TEXT] [SLOTS].

The first model alone on a phone and dark, both side by side; by default two pretrained models.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from constrained_dnc.explorer import open_model, trace
from constrained_dnc.explorer.page import one_file

HERE = Path(__file__).parent
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
DRAWN = "return views.length > 0 && !document.querySelector('.plot:empty:not([hidden] *)')"


def main(arguments: list[str]) -> None:
    first, second, text, slots, *_ = [*arguments, *[""] * 4]
    models = [
        open_model(first or "zoo:sort/compr+reg"),
        open_model(second or "zoo:sort/stateful-baseline"),
    ]
    task = models[0].task
    text = text or task.format_problem(task.sample(1, 1, 30).problems[0])
    found = [trace(model, text, int(slots) if slots else None) for model in models]
    step = found[0].first_result_step + 3
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in FLAGS:
        options.add_argument(flag)
    driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    with tempfile.TemporaryDirectory() as folder:
        for name, shown, width, height, scheme in (
            ("explorer", found, 1440, 1500, "light"),
            ("explorer-dark", found[:1], 1440, 1250, "dark"),
            ("explorer-phone", found[:1], 390, 844, "light"),
        ):
            page = Path(folder, f"{name}.html")
            page.write_text(one_file(shown), encoding="utf-8")
            take(driver, f"{page.as_uri()}#step={step}", (width, height), scheme)
            save(driver, HERE / f"{name}.png")
    driver.quit()


def take(driver: webdriver.Chrome, url: str, size: tuple[int, int], scheme: str) -> None:
    """Open a page and wait until all of it is drawn."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    driver.get("about:blank")
    driver.get(url)
    while not driver.execute_script(DRAWN):
        time.sleep(0.2)
    time.sleep(2)


def save(driver: webdriver.Chrome, path: Path) -> None:
    """A screenshot in 128 colours: a third of the size, and no difference to be seen."""
    driver.save_screenshot(str(path))
    image = Image.open(path).convert("RGB").quantize(128, Image.Quantize.MEDIANCUT)
    image.save(path, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])
