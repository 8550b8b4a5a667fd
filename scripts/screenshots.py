"""Make the pictures of the explorer: python scripts/screenshots.py [MODEL [OTHER]].

Two models side by side as a picture and as an animation, and the first one alone on a phone, dark.
"""

from __future__ import annotations

import io
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

IMAGES = Path(__file__).parents[1] / "docs" / "images"
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
LENGTH = 30
DRAWN = """
return views.length > 0 && views.every(view => view.path || !view.states)
  && !document.querySelector('.plot:empty:not([hidden] *, .folded *)')"""
FRAME_MILLISECONDS = 120


def main(arguments: list[str]) -> None:
    names = arguments or ["zoo:copy/compr+reg", "zoo:copy/stateful-baseline"]
    models = [open_model(name) for name in names]
    task = models[0].task
    text = task.format_problem(task.sample(1, 1, LENGTH).problems[0])
    traces = [trace(model, text) for model in models]
    step = traces[0].first_result_step + 3
    driver = start()
    with tempfile.TemporaryDirectory() as folder:
        both, one = Path(folder, "both.html"), Path(folder, "one.html")
        both.write_text(one_file(traces, machines=True), encoding="utf-8")
        one.write_text(one_file(traces[:1], machines=True), encoding="utf-8")
        show(driver, f"{both.as_uri()}#step={step}", (1440, 1500), "light")
        still(driver).save(IMAGES / "explorer.png", optimize=True)
        show(driver, f"{one.as_uri()}#step={step}", (390, 1750), "dark")
        still(driver).save(IMAGES / "explorer-phone.png", optimize=True)
        show(driver, f"{both.as_uri()}#step=1", (1280, 1270), "light")
        driver.execute_script("document.querySelector('.top').hidden = $('scrub').hidden = true")
        frames = []
        for at in range(1, len(traces[0].outputs) + 1):
            driver.execute_script("setStep(arguments[0])", at)
            frames.append(still(driver, colours=64, width=900))
    animate(frames, IMAGES / "explorer.gif")
    driver.quit()


def start() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in FLAGS:
        options.add_argument(flag)
    return webdriver.Chrome(options, Service(shutil.which("chromedriver")))


def show(driver: webdriver.Chrome, url: str, size: tuple[int, int], scheme: str) -> None:
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


def still(driver: webdriver.Chrome, colours: int = 128, width: int | None = None) -> Image.Image:
    """A screenshot in few colours: a third of the size, and no difference to be seen."""
    image = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
    if width is not None:
        image = image.resize((width, image.height * width // image.width))
    return image.quantize(colours, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)


def animate(frames: list[Image.Image], path: Path) -> None:
    """A GIF of one palette, so that frames differ little; its last frame stays for two seconds."""
    first = frames[len(frames) // 2]
    same = [
        frame.convert("RGB").quantize(palette=first, dither=Image.Dither.NONE) for frame in frames
    ]
    durations = [*[FRAME_MILLISECONDS] * (len(frames) - 1), 2000]
    same[0].save(path, save_all=True, append_images=same[1:], duration=durations, loop=0)
    print(f"{path}: {path.stat().st_size / 1e6:.2f} MB, {len(frames)} frames")


if __name__ == "__main__":
    main(sys.argv[1:])
