"""The page, as text and in a real browser, and the table for a terminal."""

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path

import pytest
from rich.console import Console

from chromium import Browser, start_chromium
from constrained_dnc.report import Report, build_report, terminal_table
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
    assert f"<dt>jax</dt><dd>{version('jax')}</dd>" in text
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
    study = read_study(path)
    study.__dict__["config"] = replace(study.config, model=replace(study.config.model, word_size=8))
    assert "model.word_size 8 (paper: 16)" in budget_warning(study)


def test_an_empty_study_has_a_page(tmp_path: Path) -> None:
    path = write_study(tmp_path, Request(trials=1, analysis=False))
    for table in path.glob("runs/*/evaluation.parquet"):
        table.unlink()
    text = build_report(path).read_text(encoding="utf-8")
    assert "No results yet." in text
    assert "sort, compr: 0 of 1 trials have results." in text
    assert 'id="claims"' not in text


def test_other_tasks_and_approaches_alone_have_a_report(tmp_path: Path) -> None:
    request = Request(("mine",), ("own-1", "own-2"), trials=2, analysis=False, extended=False)
    text = build_report(write_study(tmp_path, request)).read_text(encoding="utf-8")
    assert "own-1 / own-2" not in text
    assert 'href="tables/max_length_50.csv"' in text


def test_figures_that_take_minutes_are_for_those_who_ask(tmp_path: Path) -> None:
    request = Request(("sort",), ("reg",), trials=2, samples=2, preset="quick", extended=False)
    study = read_study(write_study(tmp_path / "study", request))
    names = {
        figures: {it.name for section in Report(study, figures).drawings.values() for it in section}
        for figures in (None, "quick", "all")
    }
    assert names[None] == names["quick"]
    assert {it.partition("_")[0] for it in names["all"] - names["quick"]} == {
        "states",
        "write",
        "read",
    }
    assert "--figures all" in Report(study).left_out
    assert Report(study, "all").left_out == ""


def test_the_terminal_shows_ours_and_the_papers(small_study: Path) -> None:
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(terminal_table(small_study))
    text = console.export_text()
    heads = re.search(r"entries .* paper", text)
    assert heads is not None
    for approach, paper in (
        ("stateful-baseline", 23),
        ("stateless-baseline", 39),
        ("compr+reg", 48),
    ):
        assert re.search(rf" {re.escape(approach)} .* {paper} *$", text, re.MULTILINE)
    assert "500 slots" in text
    assert "Below 95 % at training lengths: sort, stateful-baseline: seed 1 (40.0 %)" in text
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
    figures = "return document.querySelectorAll('#curves figure svg').length"
    assert browser.run(figures) >= 2
    shade = "return getComputedStyle(document.querySelector('#curves svg text')).fill"
    assert browser.run(shade) == {"light": "rgb(29, 35, 40)", "dark": "rgb(227, 231, 234)"}[scheme]
    broken = "return [...document.images].filter(i => i.complete && !i.naturalWidth).length"
    assert browser.run(broken) == 0
    ground = "return getComputedStyle(document.querySelector('main > section')).backgroundColor"
    assert browser.run(ground) == {"light": "rgb(255, 255, 255)", "dark": "rgb(27, 32, 37)"}[scheme]
