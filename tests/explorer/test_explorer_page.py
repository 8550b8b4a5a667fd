"""The page in a real browser: what is to be seen, and what happens when a person uses it."""

from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from constrained_dnc.errors import SettingError
from constrained_dnc.explorer import open_model, trace
from constrained_dnc.explorer.figures import link_at
from constrained_dnc.explorer.page import one_file
from constrained_dnc.files import locked, read_json, write_json
from constrained_dnc.training.folder import LOCK, STATUS
from constrained_dnc.training.run import load_run, write_selected
from explored_page import PROBLEM, link, shown_answer, type_problem


@pytest.fixture
def page(browser, address, runs):
    """A page that shows one model, loaded once for all tests that leave it as it is."""
    browser.look(address, model=runs["compr+reg"], problem=PROBLEM, memory="9")
    return browser


@pytest.fixture(scope="module")
def traced(runs):
    """What the page shows."""
    return trace(open_model(runs["compr+reg"]), PROBLEM, 9)


def test_the_matrices_of_a_step_are_those_of_unroll(page, runs):
    model = open_model(runs["compr+reg"])
    batch = model.task.batch_of([model.task.parse(PROBLEM)])
    network = model.model.with_memory_size(9)
    memory = network.unroll(batch.inputs, internals=True).internals.memory
    slots = page.run("return views[0].slots")
    for step in (7, 3, 12, 1):  # back and forth: the link is built up from kept ones
        page.run("setStep(arguments[0]); updatePlots()", step)
        for name, expected in (("memory", memory.memory), ("link", memory.link)):
            values = page.run(
                f"return document.querySelector('#{name}-0 .plot').data[0].z.map(r => [...r])"
            )
            at_step = expected[step - 1, 0, :slots, : len(values[0])]
            np.testing.assert_allclose(values, at_step, rtol=1e-5, atol=1e-6)


def test_scrubbing_asks_nobody_and_moves_every_cursor(page):
    page.requests()
    body = page.driver.find_element(By.TAG_NAME, "body")
    where = page.driver.find_element(By.ID, "where")
    lines = (
        "return [...document.querySelectorAll('.cursor')].filter(mark => mark.offsetParent)"
        ".map(mark => mark.getBoundingClientRect().x)"
    )
    body.send_keys(Keys.HOME)
    assert where.text == "step 1 of 12, encoding"
    before = page.run(lines)
    body.send_keys(Keys.ARROW_RIGHT * 6)
    assert where.text == "step 7 of 12, decoding"
    after = page.run(lines)
    assert len(after) == 7
    assert all(x > y for x, y in zip(after, before, strict=True))
    assert max(after) - min(after) < 1  # one line through all panels
    page.run("views[0].entryButtons[2].click()")
    assert where.text == "step 9 of 12, decoding"
    page.driver.find_element(By.ID, "step").send_keys(Keys.END)
    page.run(
        "window.steps = []; const go = setStep; setStep = step => (steps.push(step), go(step))"
    )
    page.driver.find_element(By.ID, "play").click()
    page.wait("return !playing && steps.length === 12")
    assert page.run("return steps") == list(range(1, 13))
    assert page.requests() == []


def test_following_a_slot(page, traced):
    field = page.driver.find_element(By.ID, "slot")
    field.send_keys("2", Keys.ENTER)
    values = page.run("return [...document.querySelector('#slot-0 .plot').data[0].y]")
    np.testing.assert_allclose(values, traced.internals.memory.write_weights[:, 0, 1], atol=1e-6)
    assert "Slot 2. " in page.driver.find_element(By.ID, "slot-0").text
    page.run("followSlot(9999)")
    assert link(page)["slot"] == "9"  # the last there is
    click = "document.querySelector('#write_weights-0 .plot').emit"
    page.run(f"{click}('plotly_click', {{points: [{{x: 4, y: 3}}]}})")
    assert page.run("return [state.step, state.slot]") == [4, 3]


def test_saving_pictures_and_numbers(page, traced):
    page.run("setStep(6)")
    page.run("document.querySelectorAll('#link-0 .save button').forEach(button => button.click())")
    name = "copy-compr+reg-link-step-6"
    files = [page.downloads / f"{name}.{kind}" for kind in ("png", "svg")]
    page.wait_for(lambda: all(path.exists() and path.stat().st_size for path in files))
    assert files[0].read_bytes().startswith(b"\x89PNG")
    picture = files[1].read_text()
    assert "colorbar" in picture  # nothing else there tells what its colours are
    assert "fill: rgb(255, 255, 255)" in picture  # the ground of the page
    page.run("document.querySelector('.answer a').click()")
    numbers = page.downloads / "copy-compr+reg.npz"
    page.wait_for(lambda: numbers.exists() and numbers.stat().st_size)
    with np.load(numbers) as saved:
        np.testing.assert_array_equal(saved["usage"], traced.internals.memory.usage[:, 0])
        np.testing.assert_array_equal(saved["link"], link_at(traced.internals, 6))


def test_panels_can_be_hidden(page, traced):
    plot, toggle = (
        page.driver.find_element(By.CSS_SELECTOR, f"#memory-0 .{part}")
        for part in ("plot", "toggle")
    )
    page.run("arguments[0].click()", toggle)
    assert not plot.is_displayed()
    assert toggle.get_attribute("aria-label") == "Show Memory"
    assert link(page)["hidden"] == "memory"
    page.run("setStep(3)")
    page.run("arguments[0].click()", toggle)
    page.run("updatePlots()")
    values = page.run("return document.querySelector('#memory-0 .plot').data[0].z.map(r => [...r])")
    expected = traced.internals.memory.memory[2, 0]
    np.testing.assert_allclose(values, expected[: len(values)], atol=1e-6)
    assert "hidden" not in link(page)


def test_what_is_refused_keeps_the_last_picture(page, runs):
    before = shown_answer(page)
    type_problem(page, "3 1 nine")
    sentence = page.wait("return !$('error').hidden && $('error').textContent")
    with pytest.raises(SettingError) as refused:
        trace(open_model(runs["compr+reg"]), "3 1 nine")
    assert sentence == str(refused.value)
    assert page.driver.find_element(By.ID, "problem").get_attribute("value") == "3 1 nine"
    field = page.driver.find_element(By.ID, "memory")
    field.clear()
    field.send_keys("5000", Keys.ENTER)
    page.wait("return $('error').textContent.includes('slots from 1 to 1000')")
    page.wait("return $('memory').value === '9'")
    page.run("location.hash = 'model=nobody&problem=1+2'")
    page.wait("return $('error').textContent.includes('model must be one of')")
    assert shown_answer(page) == before
    assert link(page)["problem"] == PROBLEM  # a link names what is shown
    assert link(page)["model"] == runs["compr+reg"]
    page.complaints()  # Chromium notes the refusals


def test_typing_and_drawing_problems(browser, address, runs):
    browser.requests()
    browser.open(f"{address}#{urlencode({'model': 'nobody', 'problem': '1 2'})}")
    assert "model must be one of" in browser.driver.find_element(By.ID, "error").text
    browser.complaints()
    assert browser.run("return state.step === views[0].first_result_step")
    type_problem(browser, PROBLEM)
    browser.wait(f"return views[0].problem === '{PROBLEM}' && $('error').hidden")
    browser.ready()
    entries = trace(open_model(runs["compr+reg"]), PROBLEM).entries
    words = {True: "right", False: "wrong"}
    assert shown_answer(browser) == [
        [
            f"entry {place}: right {entry.right}, model {entry.answer}, {words[entry.is_right]}"
            for place, entry in enumerate(entries, start=1)
        ]
    ]
    length = browser.driver.find_element(By.ID, "length")
    length.clear()
    length.send_keys("4")
    browser.driver.find_element(By.ID, "draw").click()
    browser.wait("return views[0].length === 4")
    browser.ready()
    browser.driver.find_element(By.ID, "growing").click()
    browser.wait("return views[0].memory_size === 'growing'")
    browser.ready()
    Select(browser.driver.find_element(By.ID, "rule")).select_by_value("seen")
    browser.wait("return views[0].model.rule === 'seen'")
    browser.ready()
    text = browser.driver.find_element(By.CLASS_NAME, "answer").text
    assert "chosen by rule seen" in text
    assert "a growing memory" in text
    assert all(url.startswith(address) for url in browser.requests())
    assert browser.complaints() == []


def test_two_models_side_by_side_light_dark_and_on_a_phone(browser, address, runs):
    other = runs["stateless-baseline"]
    browser.open(f"{address}#{urlencode({'model': runs['compr+reg'], 'compare': other})}")
    assert browser.run("return views.map(view => view.length)") == [4, 4]  # trained on 1 to 2
    problem = browser.run("return views[1].problem")
    answer = [entry.answer for entry in trace(open_model(other), problem).entries]
    assert [label.split("model ")[1].split(",")[0] for label in shown_answer(browser)[1]] == answer
    tops = browser.run("return ['tape-0', 'tape-1'].map(id => $(id).getBoundingClientRect().top)")
    assert tops[0] == tops[1]
    first, second = (browser.driver.find_element(By.ID, f"states-{place}") for place in (0, 1))
    assert "Check whether all problems share one narrow path" in first.text
    assert "Each model has its own plane and scale" in first.text
    assert "carries no state" in second.text
    assert not second.find_elements(By.CSS_SELECTOR, ".save button")  # nothing to save
    limits = browser.run("return views.map(({figures: {memory: {data: [map]}}}) => map.zmax)")
    assert limits[0] == limits[1]
    ink = "return document.querySelector('.plot')._fullLayout.font.color"
    assert browser.run(ink) == "#1d2328"
    browser.emulate(390, "dark")
    browser.wait(f"{ink} === '#e3e7ea'")
    assert browser.overflow() == 0
    assert browser.run("return $('scrub').offsetHeight") <= 80  # an eighth of a small screen
    assert browser.complaints() == []


def test_a_window_that_is_resized_while_a_problem_loads(page):
    page.run("state.step = 0; redraw(); updatePlots()")  # 0: where the new answer begins
    assert page.complaints() == []
    page.run("setStep(1)")


def test_states_that_are_on_their_way_are_announced(page):
    page.run("window.original = fetchJson; window.release = null")
    page.run(
        "fetchJson = (what, ...rest) => what !== 'states' ? original(what, ...rest)"
        ": new Promise(go => { release = () => go(original(what, ...rest)); })"
    )
    page.run("load()")
    page.wait("return release && $('states-0').textContent.includes('computing…')")
    page.run("fetchJson = original; release()")
    page.ready()
    assert "computing" not in page.driver.find_element(By.ID, "states-0").text
    assert page.complaints() == []


def test_links(browser, address, runs):
    state = {
        "model": runs["compr+reg"], "rule": "unseen", "compare": runs["compr+reg"],
        "compare_rule": "seen", "problem": PROBLEM, "memory": "9", "hidden": "usage",
    }  # fmt: skip
    browser.open(f"{address}#{urlencode({**state, 'step': 8, 'slot': 4})}")
    assert browser.run("return views.map(view => view.model.rule)") == ["unseen", "seen"]
    assert link(browser) == {**state, "step": "8", "slot": "4"}
    fresh = urlencode({"model": runs["compr+reg"], "problem": "3 1 4 1"})
    browser.run("location.hash = arguments[0]", fresh)  # in the same tab
    browser.wait("return views.length === 1 && views[0].problem === '3 1 4 1'")
    browser.ready()
    shown = browser.run("return [state.memory, state.compare, state.slot, state.step]")
    assert shown == ["", "", 0, 6]  # where the answer begins
    assert browser.complaints() == []


def test_a_run_that_ends_while_it_is_looked_at(browser, address, training_run):
    folder = Path(training_run)
    finished = read_json(folder / STATUS)
    write_json(folder / STATUS, finished | {"state": "training"})
    with locked(folder / LOCK):
        browser.look(address, model=training_run, problem=PROBLEM)
        assert "training, iteration 10 of 10" in browser.driver.find_element(By.ID, "news").text
    write_json(folder / STATUS, finished)
    run = load_run(training_run)
    write_selected(folder, run.config, "score", run.model, 9999, 0.5)
    browser.run("poll()")
    browser.wait("return !$('newer').hidden")
    assert "9999" not in browser.driver.find_element(By.CLASS_NAME, "answer").text
    browser.driver.find_element(By.ID, "newer").click()
    browser.wait("return views[0].model.iteration === 9999")
    browser.ready()
    assert "finished after 10 of 10" in browser.driver.find_element(By.CLASS_NAME, "answer").text
    assert browser.complaints() == []


def test_one_file_needs_nothing_but_itself(browser, runs, tmp_path):
    traces = [trace(open_model(name), PROBLEM, 9) for name in runs.values()]
    page = tmp_path / "copy.html"
    page.write_text(one_file(traces), encoding="utf-8")
    browser.requests()
    browser.open(f"{page.resolve().as_uri()}#step=8&slot=2")
    requests = {url.partition("#")[0] for url in browser.requests()}
    assert requests == {page.resolve().as_uri()}
    assert browser.complaints() == []
    assert browser.run("return [views.length, state.step, state.slot]") == [2, 8, 2]
    expected = np.asarray(traces[0].internals.memory.memory[7, 0])
    shown = browser.run("return matrixAt(views[0], 'memory', 8).map(row => [...row])")
    np.testing.assert_allclose(shown, expected[: len(shown)], atol=1e-6)
    browser.driver.find_element(By.TAG_NAME, "body").send_keys(Keys.ARROW_LEFT)
    assert browser.driver.find_element(By.ID, "where").text == "step 7 of 12, decoding"
    assert not browser.driver.find_element(By.ID, "ask").is_displayed()
