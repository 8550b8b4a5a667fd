"""What the explorer costs: python benchmarks/explorer.py [MODEL].

An answer with its figures and one step of the cursor in headless Chromium (L = 30; L = 100 with
500 slots), and the page of L = 30 as one file. Times are the least and the median: on a busy
machine the least is nearer to what the work takes. Without a model: one of the paper's size,
hardly trained.
"""

from __future__ import annotations

import dataclasses
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from constrained_dnc import make_config, train
from constrained_dnc.explorer import Trace, open_model, trace, views
from constrained_dnc.explorer.page import one_file
from constrained_dnc.training.run import TrainedModel

REPEATS = 10
SCRUB = """
const done = arguments[0], times = [];
for (let step = 1; step <= Math.min(views[0].steps, 60); step++) {
  const before = performance.now();
  setStep(step);
  document.body.getBoundingClientRect(); // the layout belongs to it
  times.push(performance.now() - before);
}
done(times);
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = open_model(sys.argv[1] if len(sys.argv) > 1 else hardly_trained(Path(folder)))
        short = answer(model, 30, None)
        large = answer(model, 100, 500)
        page = Path(folder, "page.html")
        for what, shown in {
            "L = 30": [short],
            "L = 30, two models": [short, short],
            "L = 100, 500 slots": [large],
        }.items():
            page.write_text(one_file(shown), encoding="utf-8")
            print(f"one file, {what}: {page.stat().st_size / 1e6:.1f} MB", flush=True)
            scrub(page, what)


def hardly_trained(folder: Path) -> str:
    config = make_config("sort", "compr+reg")
    training = dataclasses.replace(config.training, iterations=10)
    train(dataclasses.replace(config, training=training), folder / "run")
    return str(folder / "run")


def answer(model: TrainedModel, length: int, slots: int | None) -> Trace:
    """Time an answer, from the text to what is sent to the browser."""
    seconds, processor = [], []
    for seed in range(REPEATS + 1):
        text = model.task.format_problem(model.task.sample(seed, 1, length).problems[0])
        before, used = time.perf_counter(), time.process_time()
        traced = trace(model, text, slots)
        sent = views.dumps(views.view(traced))
        seconds.append(time.perf_counter() - before)
        processor.append(time.process_time() - used)
    print(
        f"answer, L = {length}, {traced.slots} slots: {in_words(seconds[1:])}, processor time "
        f"{in_words(processor[1:])}; first {1000 * seconds[0]:.0f} ms; {len(sent) / 1e6:.1f} MB",
        flush=True,
    )
    return traced


def in_words(seconds: Sequence[float]) -> str:
    least, median = 1000 * min(seconds), 1000 * statistics.median(seconds)
    return f"least {least:.1f} ms, median {median:.1f} ms"


def scrub(page: Path, what: str) -> None:
    """Time steps of the cursor in a browser."""
    from selenium import webdriver  # noqa: PLC0415 - the rest needs none
    from selenium.webdriver.chrome.service import Service  # noqa: PLC0415

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    driver.get(page.as_uri())
    while not driver.execute_script("return views.length > 0 && Boolean(views[0].path)"):
        time.sleep(0.2)
    time.sleep(1)
    times = driver.execute_async_script(SCRUB)
    driver.quit()
    seconds = [each / 1000 for each in times]
    print(
        f"one step of the cursor, {what}: {in_words(seconds)}, most {max(times):.1f} ms", flush=True
    )


if __name__ == "__main__":
    main()
