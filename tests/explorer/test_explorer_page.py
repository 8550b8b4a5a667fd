"""The page in a real browser: what is to be seen, and moves with step, slot and width."""

import json
from pathlib import Path
from urllib.parse import urlencode

import equinox as eqx
import numpy as np
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from constrained_dnc.explorer import open_model, trace
from constrained_dnc.explorer.figures import TOUCHED, link_at
from constrained_dnc.explorer.page import one_file
from constrained_dnc.explorer.views import PANELS
from constrained_dnc.files import locked, read_json, write_json
from constrained_dnc.training.disk import LOCK, STATUS
from constrained_dnc.training.run import write_selected
from explored_page import PROBLEM, link, shown_answer, type_problem


def test_the_numbers_shown_are_those_of_unroll(browser, address, runs):
    browser.look(address, model=runs["compr+reg"], problem=PROBLEM, memory="9", step=7)
    model = open_model(runs["compr+reg"])
    batch = model.task.batch_of([model.task.parse(PROBLEM)])
    unrolled = model.dnc.with_memory_size(9).unroll(batch.inputs, internals=True)
    memory, interface = unrolled.internals.memory, unrolled.internals.interface
    slots = browser.run("return views[0].slots")
    close = {"rtol": 1e-5, "atol": 1e-6}
    for step in (7, 3, 12, 1):  # back and forth: the link is built up from kept ones
        browser.run("setStep(arguments[0]); updatePlots()", step)
        for name, expected in (("memory", memory.memory), ("link", memory.link)):
            values = browser.run(
                f"return document.querySelector('#{name}-0 .plot').data[0].z.map(r => [...r])"
            )
            at_step = expected[step - 1, 0, :slots, : len(values[0])]
            np.testing.assert_allclose(values, at_step, **close)
    free = interface.free_gates[:, 0].T
    gates = np.stack([interface.write_gate[:, 0], interface.allocation_gate[:, 0], *free])
    maps = {
        "write_weights": [memory.write_weights[:, 0, :slots].T],
        "usage": [memory.usage[:, 0, :slots].T],
        "read_weights": list(memory.read_weights[:, 0, :, :slots].transpose(1, 2, 0)),
        "gates": [gates],
    }
    for name, expected in maps.items():
        drawn = browser.run(
            f"return document.querySelector('#{name}-0 .plot')._fullData.map("
            "trace => [...trace.z].map(row => [...row]))"
        )
        np.testing.assert_allclose(drawn, expected, **close)
    modes = interface.read_modes[:, 0].reshape(12, -1)
    strengths = [interface.write_strength[:, 0], *interface.read_strengths[:, 0].T]
    for name, expected in {"read_modes": modes.T, "strengths": strengths}.items():
        drawn = browser.run(
            f"return document.querySelector('#{name}-0 .plot')._fullData.map(t => [...t.y])"
        )
        np.testing.assert_allclose(drawn, expected, **close)
    tape = browser.run("return [...document.querySelector('#tape-0 .plot')._fullData[0].z.at(-2)]")
    np.testing.assert_allclose(tape, unrolled.outputs[:, 0, 0], **close)


def test_a_page_opens_where_the_answer_begins(browser, address):
    browser.open(address)
    assert browser.run("return state.step === views[0].first_result_step")
    browser.run("setStep(2)")
    type_problem(browser, "3 1 4")
    browser.wait("return views[0].problem === '3 1 4'")
    browser.ready()
    assert browser.run("return state.step") == 5
    assert "chosen by rule score" in browser.driver.find_element(By.CLASS_NAME, "answer").text


def test_heads_that_read_nothing_share_a_sentence(browser, address, runs):
    browser.look(address, model=runs["compr+reg"], problem=PROBLEM, memory="9")
    names = browser.run(
        "return [[1, 2, 3, 4], [2, 3], [1, 3, 4], [2]].map(heads => several('Head', heads))"
    )
    assert names == ["Heads 1 to 4", "Heads 2 and 3", "Heads 1, 3 and 4", "Head 2"]
    story = browser.run(
        "const none = views[0].read_weights.values.map(() => 0);"
        "return describeStep({...views[0], read_weights: {values: none}}, 3)"
    )
    heads = browser.run("return views[0].heads")
    words = "Heads 1 and 2 read" if heads == 2 else f"Heads 1 to {heads} read"
    assert story.count("in particular") == 1
    assert (words if heads > 1 else "Head 1 reads") in story


def test_the_legend_draws_each_line_as_the_figure_does(browser, address, runs):
    browser.look(address, model=runs["compr+reg"], problem=PROBLEM, memory="9")
    swatches = browser.run(
        "return ['solid', 'dash', 'dot', 'dashdot'].map(dash => swatch(dash, '#000000').innerHTML)"
    )
    assert len(set(swatches)) == 4
    lines = browser.run(
        "const panel = views[0].panels.find(({name}) => name === 'scores');"
        "return [panel.figure.data.filter(({name}) => name).length,"
        " document.querySelectorAll('#scores-0 .keys svg').length,"
        " document.querySelectorAll('#scores-0 .keys svg path').length]"
    )
    assert lines[0] == lines[1]
    assert lines[2] == 1  # the paper's diamond


def test_scrubbing_asks_nobody_and_moves_every_cursor(browser, address, runs):
    browser.look(address, model=runs["compr+reg"], problem=PROBLEM, memory="9")
    browser.requests()
    body = browser.driver.find_element(By.TAG_NAME, "body")
    where = browser.driver.find_element(By.ID, "where")
    lines = (
        "return [...document.querySelectorAll('.cursor:not(.phase)')].filter(m => m.offsetParent)"
        ".map(m => m.getBoundingClientRect().x)"
    )
    body.send_keys(Keys.HOME)
    assert where.text == "step 1 of 12, encoding"
    before = browser.run(lines)
    body.send_keys(Keys.ARROW_RIGHT * 6)
    assert where.text == "step 7 of 12, decoding"
    after = browser.run(lines)
    assert len(after) == 7
    assert all(x > y for x, y in zip(after, before, strict=True))
    assert max(after) - min(after) < 1  # one line through all panels
    browser.driver.find_element(By.ID, "step").send_keys(Keys.END)
    assert where.text == "step 12 of 12, decoding"
    browser.run(
        "window.steps = []; const go = setStep; setStep = step => (steps.push(step), go(step))"
    )
    browser.driver.find_element(By.ID, "play").click()
    browser.wait("return !playing && steps.length === 12")
    assert browser.run("return steps") == list(range(1, 13))
    assert browser.requests() == []


def test_the_entries_are_one_stop_of_the_tab_key(browser, address, runs):
    browser.look(address, model=runs["compr+reg"], problem=PROBLEM, memory="9")
    stops = "return views[0].entryButtons.filter(button => button.tabIndex === 0).length"
    assert browser.run(stops) == 1
    first = browser.driver.find_element(By.CSS_SELECTOR, ".entries button")
    first.send_keys(Keys.ENTER)
    browser.driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT * 2)
    at = browser.driver.switch_to.active_element.get_attribute("aria-label")
    assert at.startswith("entry 3: right 4")
    assert browser.run(stops) == 1
    assert browser.run("return state.step - views[0].first_result_step") == 2


def test_the_cursor_stands_beside_the_cell_that_it_marks(browser, address, runs):
    browser.look(address, model=runs["compr+reg"], problem=PROBLEM, memory="9", step=3)
    free, cell = browser.run(
        "const panel = views[0].panels.find(p => p.name == 'tape'), cursor = panel.marks.cursor;"
        "return [cursor.clientWidth, plotArea(panel).width / views[0].steps]"
    )
    assert abs(free - cell) < 1
    ground = (
        "getComputedStyle(views[0].panels.find(p => p.name == 'tape').marks.cursor).backgroundColor"
    )
    assert browser.run(f"return {ground}") == "rgba(0, 0, 0, 0)"


def test_panels_say_what_their_colours_are(browser, address, runs):
    browser.look(address, model=runs["compr+reg"], problem=PROBLEM, memory="9")
    ends = browser.run(
        "return Object.fromEntries(views[0].panels.map(p => [p.name, p.scale.textContent]))"
    )
    assert (ends["tape"], ends["scores"]) == ("-11", "")
    weights = trace(open_model(runs["compr+reg"]), PROBLEM, 9).internals.memory.write_weights
    strongest = float(np.max(weights))  # weak weights are scaled to the largest
    assert ends["write_weights"] == ("01" if strongest >= 0.5 else f"0{round(strongest, 2):g}")
    largest = browser.run("return +views[0].figures.memory.data[0].zmax.toFixed(2)")
    assert ends["memory"] == f"{-largest:g}{largest:g}"
    assert "what the network sees as colours" in browser.driver.find_element(By.ID, "tape-0").text


def test_following_a_slot(browser, address, runs):
    browser.look(address, model=runs["compr+reg"], problem=PROBLEM, memory="9")
    field = browser.driver.find_element(By.ID, "slot")
    field.send_keys("2", Keys.ENTER)
    traced = trace(open_model(runs["compr+reg"]), PROBLEM, 9)
    values = browser.run("return [...document.querySelector('#slot-0 .plot').data[0].y]")
    np.testing.assert_allclose(values, traced.internals.memory.write_weights[:, 0, 1], atol=1e-6)
    assert "Slot 2. " in browser.driver.find_element(By.ID, "slot-0").text
    unused = browser.run("return describeSlot({...views[0], slots: 1}, 2)")
    assert unused.endswith(f"no weight reaches it by {TOUCHED}.")
    field.send_keys(Keys.CONTROL + "a")
    field.send_keys("9999", Keys.ENTER)
    browser.wait(
        "return $('error').textContent === 'There is no slot 9999: slots are numbered from 1 to 9.'"
    )
    assert field.get_attribute("value") == "2"
    assert link(browser)["slot"] == "2"
    browser.run(
        "document.querySelector('#write_weights-0 .plot').emit("
        "'plotly_click', {points: [{x: 4, y: 3}]})"
    )
    assert browser.run("return [state.step, state.slot]") == [4, 3]


def test_saving_pictures_and_numbers(browser, address, runs):
    browser.look(address, model=runs["compr+reg"], problem=PROBLEM, memory="9", step=6)
    panel = browser.driver.find_element(By.ID, "link-0")
    for button in panel.find_elements(By.CSS_SELECTOR, ".save button"):
        browser.run("arguments[0].click()", button)
    name = "copy-compr+reg-link-step-6"
    files = [browser.downloads / f"{name}.{kind}" for kind in ("png", "svg")]
    browser.wait_for(lambda: all(path.exists() and path.stat().st_size for path in files))
    assert files[0].read_bytes().startswith(b"\x89PNG")
    picture = files[1].read_text()
    assert picture.startswith("<svg")
    assert "colorbar" in picture  # nothing else there tells what its colours are
    assert "fill: rgb(255, 255, 255)" in picture  # the ground of the page
    browser.run("document.querySelector('.answer a').click()")
    numbers = browser.downloads / "copy-compr+reg.npz"
    browser.wait_for(lambda: numbers.exists() and numbers.stat().st_size)
    inside = trace(open_model(runs["compr+reg"]), PROBLEM, 9).internals
    with np.load(numbers) as saved:
        np.testing.assert_array_equal(saved["usage"], inside.memory.usage[:, 0])
        np.testing.assert_array_equal(saved["link"], link_at(inside, 6))


def test_two_models_side_by_side(browser, address, runs):
    other = runs["stateless-baseline"]
    browser.look(address, model=runs["compr+reg"], problem=PROBLEM, memory="9")
    Select(browser.driver.find_element(By.ID, "compare")).select_by_value(other)
    browser.wait("return views.length === 2")
    browser.ready()
    answer = [entry.answer for entry in trace(open_model(other), PROBLEM, 9).entries]
    assert [label.split("model ")[1].split(",")[0] for label in shown_answer(browser)[1]] == answer
    tops = browser.run("return ['tape-0', 'tape-1'].map(id => $(id).getBoundingClientRect().top)")
    assert tops[0] == tops[1]
    assert "carries no state" in browser.driver.find_element(By.ID, "states-1").text
    save = [f"#states-{place} .save button" for place in (0, 1)]
    counts = [len(browser.driver.find_elements(By.CSS_SELECTOR, path)) for path in save]
    assert counts == [2, 0]  # no picture, nothing to save
    strengths = "document.querySelector(`#strengths-${at} .plot`)"
    (low, high), other_range = browser.run(
        f"return [0, 1].map(at => {strengths}.layout.yaxis.range)"
    )
    assert [low, high] == other_range
    drawn = browser.run(f"return [0, 1].map(at => {strengths}._fullData.map(t => [...t.y]))")
    assert all(low < y < high for lines in drawn for line in lines for y in line)
    limits = browser.run("return views.map(({figures: {memory: {data: [map]}}}) => map.zmax)")
    assert limits[0] == limits[1]
    assert browser.complaints() == []


def test_two_models_open_on_a_problem_longer_than_in_training(browser, address, runs):
    names = {"model": runs["compr+reg"], "compare": runs["stateless-baseline"]}
    browser.open(f"{address}#{urlencode(names)}")
    assert browser.run("return views.map(view => view.length)") == [4, 4]  # trained on 1 to 2
    note = browser.driver.find_element(By.ID, "states-0").text
    assert "Look whether all problems share one narrow path" in note
    assert "Each model has its own plane and scale" in note


def test_panels_can_be_hidden(browser, address, runs):
    browser.look(address, model=runs["compr+reg"], problem=PROBLEM, memory="9")
    order = browser.run("return views[0].panels.map(panel => panel.name)")
    assert order == [panel.name for panel in PANELS]
    assert order[0] == "states"
    panel = browser.driver.find_element(By.ID, "memory-0")
    plot, toggle = (panel.find_element(By.CSS_SELECTOR, path) for path in (".plot", ".toggle"))
    toggle.click()
    assert not plot.is_displayed()
    assert toggle.get_attribute("aria-label") == "Show Memory"
    assert link(browser)["hidden"] == "memory"
    browser.driver.refresh()
    browser.ready()
    assert not browser.driver.find_element(By.CSS_SELECTOR, "#memory-0 .plot").is_displayed()
    browser.run("setStep(3); updatePlots()")
    browser.driver.find_element(By.CSS_SELECTOR, "#memory-0 .toggle").click()
    browser.wait("return document.querySelector('#memory-0 .plot').data")
    browser.run("updatePlots()")
    drawn = "return document.querySelector('#memory-0 .plot').data[0].z.map(row => [...row])"
    expected = trace(open_model(runs["compr+reg"]), PROBLEM, 9).internals.memory.memory[2, 0]
    values = browser.run(drawn)
    np.testing.assert_allclose(values, expected[: len(values)], atol=1e-6)
    assert "hidden" not in link(browser)
    browser.shown = None


def test_words_and_buttons_do_not_wrap_on_a_phone(browser, address, runs):
    browser.look(address, 360, model=runs["compr+reg"], problem=PROBLEM, memory="9")
    lines = (
        "const range = document.createRange(); range.selectNodeContents(arguments[0].lastChild);"
        "return new Set([...range.getClientRects()].map(({bottom}) => Math.round(bottom))).size"
    )
    for place in (".grow", "#share"):
        element = browser.driver.find_element(By.CSS_SELECTOR, place)
        assert browser.run(lines, element) == 1
    tops = "['back', 'play', 'forth', 'share'].map(id => $(id).getBoundingClientRect().bottom)"
    assert browser.run(f"return new Set({tops}).size") == 1
    bar = browser.run("return $('scrub').offsetHeight")
    assert bar <= 80  # an eighth of a small screen
    assert browser.overflow() == 0


def test_colours_follow_the_scheme(browser, address, runs):
    names = {"model": runs["compr+reg"], "compare": runs["stateless-baseline"]}
    browser.look(address, **names, problem=PROBLEM, memory="9")
    ink = "return document.querySelector('.plot')._fullLayout.font.color"
    assert browser.run(ink) == "#1d2328"
    media = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.wait(f"{ink} === '#e3e7ea'")
    assert browser.overflow() == 0


def test_a_run_that_ends_while_it_is_looked_at(browser, address, training_run):
    folder = Path(training_run)
    finished = read_json(folder / STATUS)
    write_json(folder / STATUS, finished | {"state": "training"})
    with locked(folder / LOCK):
        browser.look(address, model=training_run, problem=PROBLEM)
        assert "training, iteration 10 of 10" in browser.driver.find_element(By.ID, "news").text
    parameters = eqx.filter(open_model(training_run).dnc, eqx.is_inexact_array)
    write_json(folder / STATUS, finished)
    write_selected(folder, "score", parameters, 9999, 0.5)
    browser.run("poll()")
    browser.wait("return document.querySelector('#news button')")
    browser.run("document.querySelector('#news button').focus()")
    assert browser.run("showNews(); return document.activeElement.closest('#news') !== null")
    text = browser.driver.find_element(By.CLASS_NAME, "answer").text
    assert "finished after 10 of 10" in text
    assert "9999" not in text  # still the old parameters
    browser.run("document.querySelector('#news button').click()")
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
    assert json.loads(browser.run("return JSON.stringify(state)"))["step"] == 7
