"""The page, as text and in a real browser, and the table for a terminal."""

import io
import json
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console
from selenium.webdriver.common.by import By

from chromium import Browser, start_chromium
from constrained_dnc.report import build_report, terminal_table
from constrained_dnc.report.overview import budget_warning
from constrained_dnc.study import read_study
from synthetic import Request, write_study


class Outline(HTMLParser):
    """Every link of a page, and whether elements are closed in order."""

    VOID = ("meta", "link", "img", "source", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [str(value) for name, value in attrs if name in ("src", "href", "srcset")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_needs_nothing_from_outside(page: Path) -> None:
    outline = Outline()
    outline.feed(page.read_text(encoding="utf-8"))
    assert outline.open == []
    for link in outline.links:
        assert link.startswith(("data:", "#")) or (page.parent / link).is_file(), link[:80]


def test_budget_failures_and_provenance_are_on_the_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "20 000 of the paper&#39;s 300 000 iterations; 1 to 2 of its 10 trials" in text
    assert "cdnc reproduce --preset synthetic" in text
    assert "<dt>jax</dt><dd>0.9</dd>" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; out of memory" in text
    assert "<script>alert(1)" not in text
    assert "search, compr+reg: 1 of 2 trials have results." in text
    assert "sort, stateful-baseline, trial 1: after 20000 iterations" in text
    menu = re.findall(r'<a href="#(\w+)">', text)
    assert menu == re.findall(r'<section id="(\w+)">', text)


def test_the_papers_budget_has_no_warning(tmp_path: Path) -> None:
    request = Request(("sort",), ("reg",), trials=10, iterations=300_000, analysis=False)
    path = write_study(tmp_path, request)
    assert budget_warning(read_study(path)) == ""
    stored = json.loads((path / "study.json").read_text())
    stored["settings"]["model"]["word_size"] = 8
    (path / "study.json").write_text(json.dumps(stored))
    assert "model.word_size 8 (paper: 16)" in budget_warning(read_study(path))


def test_an_empty_study_has_a_page(tmp_path: Path) -> None:
    path = write_study(tmp_path, Request(trials=1, analysis=False))
    shutil.rmtree(path / "results")
    text = build_report(path).read_text(encoding="utf-8")
    assert "No results yet." in text
    assert "sort, compr: 0 of 1 trials have results." in text
    assert "agrees" in text


def test_other_tasks_and_approaches_alone_have_a_report(tmp_path: Path) -> None:
    request = Request(("mine",), ("own-1", "own-2"), trials=2, analysis=False, extended=False)
    text = build_report(write_study(tmp_path, request)).read_text(encoding="utf-8")
    assert "own-1 / own-2" not in text
    assert 'href="tables/max_length_50.csv"' in text


def test_the_terminal_shows_ours_and_the_papers(small_study: Path) -> None:
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(terminal_table(small_study))
    text = console.export_text()
    assert re.search(r"sort .*\d+ / \d+ \(23\) .*\d+ / \d+ \(39\) .*\d+ / \d+ \(48\)", text)
    assert "500 slots:" in text
    assert "Below 95 % at training lengths: sort, stateful-baseline" in text
    assert "Not the paper's budget" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    driver = start_chromium(tmp_path_factory.mktemp("profile"))
    yield Browser(driver)
    driver.quit()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_in_a_browser(browser: Browser, page: Path, width: int, scheme: str) -> None:
    browser.requests()
    browser.show(page.resolve().as_uri(), width, scheme)
    assert browser.complaints() == []
    assert browser.requests() == [page.resolve().as_uri()]
    assert browser.overflow() == 0
    # Two memories: per task a trace for each of four approaches, and the floor.
    counts = "return [...document.querySelectorAll('.js-plotly-plot')].map(c => c.data.length)"
    assert browser.run(counts) == [10, 10]
    broken = "return [...document.images].filter(i => i.complete && !i.naturalWidth).length"
    assert browser.run(broken) == 0
    ground = "return getComputedStyle(document.querySelector('main > section')).backgroundColor"
    assert browser.run(ground) == {"light": "rgb(255, 255, 255)", "dark": "rgb(27, 32, 37)"}[scheme]


def test_a_click_on_the_legend_hides_an_approach_in_all_panels(
    browser: Browser, page: Path
) -> None:
    browser.show(page.resolve().as_uri())
    shown = (
        "return document.querySelector('.js-plotly-plot')"
        ".data.filter(t => t.visible !== 'legendonly').length"
    )
    assert browser.run(shown) == 10
    browser.driver.execute_script("document.getElementById('curves').scrollIntoView()")
    browser.driver.find_elements(By.CSS_SELECTOR, "#chart-50 .legendtoggle")[0].click()
    browser.wait(f"{shown} === 8")
