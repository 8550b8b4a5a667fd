"""The page, as text and in a real browser."""

import io
import json
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from rich.console import Console
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from chromium import start_chromium
from constrained_dnc.cli.studies import write_report
from constrained_dnc.report import figures, summary, tables
from constrained_dnc.report import page as page_module
from constrained_dnc.report.findings import find
from constrained_dnc.report.page import build_report, collect, terminal_table
from constrained_dnc.report.summary import budget_warning, facts
from constrained_dnc.report.wording import DASH
from constrained_dnc.study import read_study, write_results
from synthetic import Request, row, write_study


class Outline(HTMLParser):
    """Every element of a page, and whether they are closed in order."""

    VOID = ("meta", "link", "img", "source", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name) for name, _ in attrs]
        self.links += [str(value) for name, value in attrs if name in ("src", "href", "srcset")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_from_outside(page: Path) -> None:
    outline = Outline()
    outline.feed(page.read_text(encoding="utf-8"))
    assert outline.open == []
    for link in outline.links:
        assert link.startswith(("data:", "#")) or (page.parent / link).is_file(), link[:80]


def test_budget_failures_and_provenance_are_on_the_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "<strong>Reduced budget</strong>" in text
    assert "cdnc reproduce --preset synthetic" in text
    assert "<dt>jax</dt><dd>0.9</dd>" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; out of memory" in text
    assert "<script>alert(1)" not in text
    assert "search, compr+reg: 1 of 2 trials have results." in text
    assert "sort-stateful-baseline-1 (sort, stateful-baseline, trial 1): diverged" in text
    assert "7 updates skipped" in text
    assert "no difference can be significant" in text


def test_the_papers_budget_has_no_banner(tmp_path: Path) -> None:
    request = Request(
        tasks=("sort",), approaches=("reg",), trials=10, iterations=300_000, analysis=False
    )
    text = build_report(write_study(tmp_path, request)).read_text(encoding="utf-8")
    assert "Reduced budget" not in text


def test_an_empty_study_has_a_page(tmp_path: Path) -> None:
    path = write_study(tmp_path, Request(trials=1, analysis=False))
    shutil.rmtree(path / "results")
    text = build_report(path).read_text(encoding="utf-8")
    assert "No results yet." in text
    assert "sort, compr+reg: 0 of 1 trials have results." in text


def test_a_users_own_task_and_approach(tmp_path: Path) -> None:
    approaches = ("stateful-baseline", "my & approach")
    request = Request(("my <task>",), approaches, trials=1, analysis=False, extended=False)
    path = write_study(tmp_path, request)
    told: list[tuple[str, int, int]] = []
    text = build_report(path, lambda *step: told.append(step)).read_text(encoding="utf-8")
    assert "my &lt;task&gt;" in text
    assert "my &amp; approach" in text
    assert told == [("figures", 1, 1)]
    assert re.search(rf"my <task>\s+\d+ \({DASH}\)", printed(path))


HOSTILE = '"><img src=x onerror=alert(1)>/../\x1b[31m[/red]'


def test_names_are_text_everywhere(tmp_path: Path) -> None:
    request = Request((HOSTILE, HOSTILE + "s" * 300), ("reg", HOSTILE), trials=1, samples=2)
    path = write_study(tmp_path / "study", request, number_runs=True)
    page = build_report(path)
    outline = Outline()
    outline.feed(page.read_text(encoding="utf-8"))
    assert outline.open == []
    assert not any("onerror" in name or "onerror" in tag for tag, name in outline.attributes)
    for link in outline.links:
        assert link.startswith(("data:", "#")) or (page.parent / unquote(link)).is_file()
    assert {file.name for file in tmp_path.iterdir()} == {"study"}
    assert "\x1b" not in printed(path)
    assert "[/red]" in printed(path)


QUICK = Request(trials=3, iterations=6000, preset="quick", samples=2)


def test_numbers_in_captions_come_from_the_study(tmp_path: Path) -> None:
    path = write_study(tmp_path, QUICK)
    findings = find(read_study(path))
    captions = [table.caption for table in tables.all_tables(findings)]
    captions += [drawing.caption for drawing in figures.all_drawings(findings)]
    told = re.sub(r"\(paper: [^)]*\)", "", " ".join(captions))
    assert not re.search(r"\b(5 to 15|30|45|50|450|500)\b", re.sub("2 to [35]0", "", told))
    assert "training lengths (1 to 6)" in told
    assert "lengths from 2 to 30 (paper: 2 to 45)" in " ".join(captions)
    assert "lengths from 2 to 50 (paper: 2 to 450)" in " ".join(captions)
    assert "cell states at length 8" in told
    assert "Histograms at length 6" in told


def test_other_settings_than_the_papers_are_named(tmp_path: Path) -> None:
    request = Request(("sort",), ("reg",), 10, 300_000, analysis=False, extended=False)
    path = write_study(tmp_path, request)
    stored = json.loads((path / "study.json").read_text())
    settings = {"training.max_length": 20, "training.learning_rate": 0.01}
    stored["settings"] |= settings
    (path / "study.json").write_text(json.dumps(stored))
    told = budget_warning(find(read_study(path)))
    assert "longest input in training 20 (paper: 15)" in told
    assert "learning rate 0.01 (paper: 0.001)" in told
    assert "smaller" not in told
    quick = budget_warning(find(read_study(write_study(tmp_path / "quick", QUICK))))
    assert "slots 16 (paper: 50)" in quick
    assert "controller width 64 (paper: 128)" in quick


def test_requests_of_different_size_are_told_together(tmp_path: Path) -> None:
    path = write_study(tmp_path, Request(("sort",), ("reg",), 3, 100_000, analysis=False))
    stored = json.loads((path / "study.json").read_text())
    more = {"tasks": ["sort", "copy"], "approaches": ["compr"], "trials": 1, "iterations": 300_000}
    stored["requests"] = [{name: stored[name] for name in more}, more]
    (path / "study.json").write_text(json.dumps(stored))
    findings = find(read_study(path))
    told = budget_warning(findings).replace("\u202f", " ")
    assert told.startswith(
        "Reduced budget: 100 000 of the paper's 300 000 iterations, 3 trials instead of 10 (1 to 3 "
        "asked for), none yet of sort with compr and copy with compr. "
    )
    assert facts(findings)["runs"] == "3 with results, 5 asked for"
    assert facts(findings)["trials"] == (
        "3 per task and approach, none yet of sort with compr and copy with compr "
        "(asked for: 1 to 3; paper: 10)"
    )


def test_what_is_missing_of_the_papers_budget_is_a_reduced_budget(tmp_path: Path) -> None:
    request = Request(("sort",), ("reg",), 10, 300_000, analysis=False, extended=False)
    path = write_study(tmp_path, request)
    assert budget_warning(find(read_study(path))) == ""
    for file in sorted((path / "results").iterdir())[1:]:
        file.unlink()
    told = budget_warning(find(read_study(path)))
    assert told.startswith("Reduced budget: 1 trial instead of 10 (10 asked for). ")


def test_a_study_that_does_not_say_its_lengths_is_given_none(tmp_path: Path) -> None:
    path = write_study(tmp_path, Request(("sort",), ("reg",), 1, analysis=False, extended=False))
    stored = json.loads((path / "study.json").read_text())
    del stored["settings"]
    (path / "study.json").write_text(json.dumps(stored))
    text = build_report(path).read_text(encoding="utf-8")
    assert f"<dt>training lengths</dt><dd>{DASH} (paper: 5 to 15)</dd>" in text
    assert "Shaded" not in text


def printed(study: Path) -> str:
    """The terminal table at 100 columns."""
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(terminal_table(study))
    return console.export_text()


def test_the_terminal_shows_ours_and_the_papers(small_study: Path) -> None:
    text = printed(small_study)
    assert re.search(r"sort .*\d+ \(23\) .*\d+ \(39\) .*\d+ \(48\)", text)
    assert "500 slots:" in text
    assert "Reduced budget" in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_terminal_says_who_does_not_solve_training_lengths(tmp_path: Path) -> None:
    path = write_study(tmp_path, Request(("sort",), ("reg",), trials=0, analysis=False))
    write_results(path, "reg", [row("sort", "reg", 0, at, 0.9499) for at in range(2, 61)])
    assert "Below 95 % at training lengths: sort, reg (94 %)." in printed(path)


def test_name_machine_and_menu_of_a_study(tmp_path: Path) -> None:
    path = write_study(
        tmp_path / "my-study",
        Request(("sort",), ("reg",), 1, analysis=False, selections=("unseen", "seen")),
    )
    stored = json.loads((path / "study.json").read_text())
    stored["platform"] = {"system": "Linux", "device": "cpu"}
    (path / "study.json").write_text(json.dumps(stored))
    text = build_report(path).read_text(encoding="utf-8")
    assert "<h1>Constrained DNC: my-study (preset synthetic)</h1>" in text
    assert "<dt>last asked for on</dt><dd>system Linux, device cpu</dd>" in text
    menu = re.findall(r'<a href="#(\w+)">', text)
    assert menu == re.findall(r'<section id="(\w+)">', text)


def test_captions_of_a_single_trial(tmp_path: Path) -> None:
    request = Request(("sort",), ("reg", "compr"), trials=1, samples=2, growing=True)
    contents = collect(read_study(write_study(tmp_path, request)))
    found = [*contents.tables.values(), *contents.drawings.values()]
    captions = {shown.name: shown.caption for several in found for shown in several}
    told = " ".join(captions.values())
    for word in ("band", "middle half", "interval", "three", "best", "Median over"):
        assert word not in told
    assert captions["score_vs_length"] == (
        "One trial each. Dashed: the slots of training (50). Shaded: the training lengths (5 to "
        "15). Line: 95 %, what counts as processed. Parameters selected by the rule unseen, the "
        "paper's."
    )
    assert "slots of training (50) and these (500)" in captions["score_vs_length_extended_memory"]
    assert "Growing: from 50 slots on" in captions["memory_sort"]
    for name in ("memory_sort", "score_vs_length_extended_memory"):
        assert "Dots: the lengths that were measured, where not all were" in captions[name]
    for name in ("states_sort_encoding", "write_modes_sort"):
        assert (
            "one trial per approach. Above each: its average score at lengths 2 to 45."
            in (captions[name])
        )


@pytest.mark.parametrize("trials", [2, 5])
def test_captions_of_several_trials(tmp_path: Path, trials: int) -> None:
    request = Request(("sort",), ("reg",), trials, samples=2, selections=("unseen", "score"))
    contents = collect(read_study(write_study(tmp_path, request)))
    captions = {of.name: of.caption for found in contents.drawings.values() for of in found}
    tables = {of.name: of.caption for found in contents.tables.values() for of in found}
    held = {2: "all", 5: "the middle half"}[trials]
    spread = f"Median over {trials} trials; the band holds {held} of them."
    assert captions["score_vs_length"].startswith(spread)
    shown = {2: "the 2 trials, the best first,", 5: "the 3 best trials and, of the others, the 2"}
    assert shown[trials] in captions["read_modes_sort"]
    assert "with its 95 % bootstrap interval" in tables["max_length"]
    for name, caption in captions.items():  # every figure names its rule
        rule = "score, not" if name.endswith("score_selection") else "unseen,"
        assert caption.endswith(f"Parameters selected by the rule {rule} the paper's.")


def test_a_study_is_evaluated_once_for_page_and_terminal(
    small_study: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, evaluated = shutil.copytree(small_study, tmp_path / "study"), []
    for module in (page_module, summary):
        monkeypatch.setattr(module, "find", lambda *of: (evaluated.append(of), find(*of))[1])
    monkeypatch.setattr(
        page_module, "_draw_all", lambda contents, *_: {name: [] for name in contents.drawings}
    )
    monkeypatch.setattr(page_module, "embed_all", lambda *of: None)
    write_report(path)
    assert len(evaluated) == 1
    text = capsys.readouterr().out
    assert "Maximum lengths by the rule unseen: ours (paper's)" in text
    assert text.endswith(f"report: {path / 'report' / 'index.html'}\n")


class Browser:
    """A page in headless Chromium."""

    def __init__(self, driver: webdriver.Chrome):
        self.driver = driver

    def show(self, page: Path, width: int, scheme: str) -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        self.driver.get(page.resolve().as_uri())

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def log(self, kind: str) -> list[dict[str, str]]:
        return list(self.driver.get_log(kind))  # type: ignore[no-untyped-call]

    def requests(self) -> list[str]:
        """Every address asked for, the page's own and those inside it left out."""
        messages = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        urls = [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
            and message["params"]["documentURL"].startswith("file:")  # not the browser's own pages
        ]
        assert any(url.startswith("file:") for url in urls)  # the log does work
        return [url for url in urls if not url.startswith(("file:", "data:", "blob:"))]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    driver = start_chromium(tmp_path_factory.mktemp("profile"))
    yield Browser(driver)
    driver.quit()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_in_a_browser(browser: Browser, page: Path, width: int, scheme: str) -> None:
    browser.show(page, width, scheme)
    assert browser.log("browser") == []
    assert browser.requests() == []
    command = "const text = document.querySelector('#how pre');"
    assert browser.run(f"{command} return text.scrollWidth - text.clientWidth") == 0
    # Nothing sticks out sideways.
    page_width = "const page = document.documentElement; return page.scrollWidth - page.clientWidth"
    assert browser.run(page_width) == 0
    # Two tasks, without and with extension: a band and a median per approach, all visible.
    counts = (
        "return [...document.querySelectorAll('.chart .js-plotly-plot')].map(c => c.data.length)"
    )
    assert browser.run(counts) == [8, 8, 8, 8]
    drawn = "return document.querySelectorAll('.chart .scatterlayer path.js-line').length"
    assert browser.run(drawn) >= 16
    assert len(browser.driver.find_elements(By.CSS_SELECTOR, "section.table table")) == 12
    broken = "return [...document.images].filter(i => i.complete && !i.naturalWidth).length"
    assert browser.run(broken) == 0
    ink = browser.run("return document.querySelector('.js-plotly-plot').layout.font.color")
    assert ink == {"light": "#1d2328", "dark": "#e3e7ea"}[scheme]


def test_a_chip_toggles_an_approach_in_all_charts(browser: Browser, page: Path) -> None:
    browser.show(page, 1280, "light")
    shown = (
        "return [...document.querySelectorAll('.js-plotly-plot')].map("
        "c => c.data.filter(t => t.visible !== false).length)"
    )
    chip = browser.driver.find_element(By.CSS_SELECTOR, ".chip[data-approach='compr+reg']")
    before = browser.run(shown)
    chip.click()
    assert browser.run(shown) == [count - 2 for count in before]
    assert chip.get_attribute("aria-pressed") == "false"
    chip.click()
    assert browser.run(shown) == before


def test_a_rule_is_chosen_for_all_charts(browser: Browser, tmp_path: Path) -> None:
    rules = ("unseen", "seen", "score")
    request = Request(("sort",), ("reg",), trials=1, analysis=False, selections=rules)
    browser.show(build_report(write_study(tmp_path, request)), 390, "light")
    counts = "return [...document.querySelectorAll('.js-plotly-plot')].map(c => c.data.length)"
    assert browser.run(counts) == [2, 2]
    seen = browser.driver.find_element(By.CSS_SELECTOR, ".rule[data-rule=seen]")
    browser.run("document.querySelector('.rule[data-rule=seen]').click()")
    assert browser.run(counts) == [2, 0]  # not evaluated with extended memory
    assert seen.get_attribute("aria-pressed") == "true"
    told = "return document.querySelectorAll('.js-plotly-plot')[1].textContent"
    assert "not evaluated with this rule" in browser.run(told)
    assert browser.log("browser") == []


def test_every_verdict_has_its_own_colour(browser: Browser, tmp_path: Path) -> None:
    request = Request(("sort",), ("stateful-baseline", "compr+reg"), trials=0, analysis=False)
    path = write_study(tmp_path, request)
    ends = {"stateful-baseline": (20, 32, 9), "compr+reg": (32, 20, 32)}  # by rule
    for name, by_rule in ends.items():
        cases = zip(("unseen", "seen", "score"), by_rule, strict=True)
        rows = [
            row("sort", name, 0, at, float(at <= end), selection=rule)
            for rule, end in cases
            for at in range(2, 61)
        ]
        write_results(path, name, rows)
    browser.show(build_report(path), 1280, "light")
    colours = (
        "const claim = document.querySelector('#claims li:has(.other)');"
        "return [claim.querySelector('.mark'), ...claim.querySelectorAll('.word')].map("
        "word => getComputedStyle(word).color)"
    )
    yes, no, soft = "rgb(0, 115, 79)", "rgb(179, 71, 0)", "rgb(91, 101, 110)"
    assert browser.run(colours) == [yes, yes, no, soft]


def test_hovering_shows_the_median_and_the_spread(browser: Browser, page: Path) -> None:
    browser.show(page, 1280, "light")
    browser.run("Plotly.Fx.hover('chart-sort-plain', {xval: 30})")
    text = browser.run("return document.querySelector('.hoverlayer').textContent")
    assert "compr+reg" in text
    assert re.search(r"\d+\.\d \(\d+\.\d to \d+\.\d\)", text)


def test_charts_follow_a_change_of_the_colour_scheme(browser: Browser, page: Path) -> None:
    browser.show(page, 1280, "light")
    media = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    ink = "return document.querySelector('.js-plotly-plot').layout.font.color"
    WebDriverWait(browser.driver, 20).until(lambda _: browser.run(ink) == "#e3e7ea")
