"""The page in a real browser: problems, memories and links, also those that are refused."""

from urllib.parse import urlencode

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from constrained_dnc.errors import SettingError
from constrained_dnc.explorer import open_model, trace
from explored_page import PROBLEM, link, shown_answer, type_problem


def test_typing_a_problem_shows_its_answer(browser, address, runs):
    browser.requests()
    browser.open(address)
    type_problem(browser, PROBLEM)
    browser.wait(f"return views[0].problem === '{PROBLEM}'")
    browser.ready()
    traced = trace(open_model(runs["compr+reg"]), PROBLEM)
    words = {True: "right", False: "wrong"}
    assert shown_answer(browser) == [
        [
            f"entry {place}: right {entry.right}, model {entry.answer}, {words[entry.is_right]}"
            for place, entry in enumerate(traced.entries, start=1)
        ]
    ]
    requests = browser.requests()
    assert requests
    assert all(url.startswith(address) for url in requests)
    assert browser.complaints() == []


def test_wrong_text_keeps_the_last_picture(browser, address, runs):
    browser.look(address, model=runs["compr+reg"], problem=PROBLEM, memory="9")
    before = shown_answer(browser)
    type_problem(browser, "3 1 nine")
    sentence = browser.wait("return !$('error').hidden && $('error').textContent")
    with pytest.raises(SettingError) as refused:
        trace(open_model(runs["compr+reg"]), "3 1 nine")
    assert sentence == str(refused.value)
    assert shown_answer(browser) == before
    assert browser.driver.find_element(By.ID, "problem").get_attribute("value") == "3 1 nine"
    assert link(browser)["problem"] == PROBLEM  # a link names what is shown
    browser.complaints()  # Chromium notes the refusal
    browser.run(
        "window.really = fetchJson; fetchJson = (...args) => new Promise(resolve => {"
        " window.release = () => { fetchJson = really; resolve(really(...args)); }; })"
    )
    type_problem(browser, "3 1")
    browser.wait("return Boolean(window.release)")
    busy = browser.driver.find_element(By.ID, "busy")
    assert (busy.text, busy.get_attribute("role")) == ("computing…", "status")
    assert browser.run("return $('error').hidden")
    browser.run("release()")
    browser.wait("return views[0].problem === '3 1' && $('error').hidden")
    browser.ready()
    assert link(browser)["problem"] == "3 1"
    assert busy.text == ""


def test_a_refused_memory_gives_way_to_what_is_shown(browser, address, runs):
    browser.look(address, model=runs["compr+reg"], problem=PROBLEM, memory="9")
    field = browser.driver.find_element(By.ID, "memory")
    for wrong in ("0", "5000"):
        field.clear()
        field.send_keys(wrong, Keys.ENTER)
        browser.wait(f"return $('error').textContent.includes('memory_size must be') && '{wrong}'")
        browser.wait("return $('memory').value === '9' && state.memory === '9'")
        browser.run("showError(null)")
    assert link(browser)["memory"] == "9"
    type_problem(browser, "3 1 4")
    browser.wait("return views[0].problem === '3 1 4' && $('error').hidden")
    browser.ready()
    assert browser.run("return views[0].memory_size") == 9
    browser.complaints()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"problem": "1 2", "memory": "abc"}, "memory_size must be a number of"),
        ({"problem": "1 nine"}, "problem must be numerals"),
        ({"model": "nobody", "problem": "1 2"}, "This explorer has no model nobody."),
        (
            {"problem": "1 2", "slot": "9999"},
            "There is no slot 9999: slots are numbered from 1 to 4.",
        ),
    ],
)
def test_a_link_to_what_is_refused_says_so_and_shows_something(
    browser, address, runs, wrong, sentence
):
    browser.open(f"{address}#{urlencode({'model': runs['compr+reg'], **wrong})}")
    browser.wait("return $('error').textContent")
    assert sentence in browser.driver.find_element(By.ID, "error").text
    shown = link(browser)
    assert shown["model"] == runs["compr+reg"]
    assert not {"memory", "slot"} & shown.keys()
    browser.complaints()
    type_problem(browser, "4 4")
    browser.wait("return views[0].problem === '4 4' && $('error').hidden")


def test_a_problem_that_no_address_can_hold(browser, address, runs):
    browser.look(address, model=runs["compr+reg"], problem=PROBLEM, memory="9")
    browser.run("$('problem').value = '1 '.repeat(60000)")
    browser.driver.find_element(By.CSS_SELECTOR, "#ask .primary").click()
    sentence = "The problem has 120000 characters; at most 100000 fit into an address."
    browser.wait(f"return $('error').textContent === '{sentence}'")
    assert link(browser)["problem"] == PROBLEM
    browser.complaints()


def test_numbers_that_cannot_be_saved_say_why(browser, address, runs):
    browser.look(address, model=runs["compr+reg"], problem=PROBLEM, memory="9")
    browser.run("views[0].problem = 'x'; document.querySelector('.answer a').click()")
    browser.wait("return $('error').textContent.includes('problem must be ')")
    browser.run("views[0].problem = arguments[0]", PROBLEM)
    browser.complaints()


def test_drawing_a_problem_and_choosing_a_memory(browser, address, runs):
    browser.look(address, model=runs["compr+reg"], problem=PROBLEM, memory="9")
    length = browser.driver.find_element(By.ID, "length")
    length.clear()
    length.send_keys("4")
    browser.driver.find_element(By.ID, "draw").click()
    browser.wait("return views[0].length === 4")
    browser.ready()
    browser.driver.find_element(By.ID, "slots").send_keys(Keys.HOME, Keys.ARROW_RIGHT)
    browser.wait("return views[0].memory_size === 4")
    browser.ready()
    assert browser.driver.find_element(By.ID, "memory").get_attribute("value") == "4"
    assert "4 slots (trained with 4)" in browser.driver.find_element(By.CLASS_NAME, "answer").text


def test_a_link_restores_the_page(browser, address, runs):
    names = {"model": runs["compr+reg"], "compare": runs["stateless-baseline"]}
    browser.look(address, **names, problem=PROBLEM, memory="9", step=5)
    browser.run("setStep(8); followSlot(4)")
    shared = browser.wait("return location.hash.includes('slot=4') && location.href")
    answer = shown_answer(browser)
    browser.complaints()
    browser.open(shared, 390)
    expected = {**names, "problem": PROBLEM, "memory": "9", "step": 8, "slot": 4, "hidden": ""}
    assert browser.run("return state") == expected
    assert shown_answer(browser) == answer
    assert browser.driver.find_element(By.ID, "problem").get_attribute("value") == PROBLEM
    assert browser.overflow() == 0  # on a phone too
    assert browser.complaints() == []


def test_a_link_in_the_same_tab_replaces_the_state(browser, address, runs):
    both = {"model": runs["compr+reg"], "compare": runs["stateless-baseline"], "problem": PROBLEM}
    browser.look(address, memory="9", step=5, **both)
    browser.shown = None  # what follows changes the page behind its back
    link = urlencode({"model": runs["compr+reg"], "problem": "3 1 4 1"})
    browser.run("location.hash = arguments[0]", link)
    browser.wait("return views.length === 1 && views[0].problem === '3 1 4 1'")
    browser.ready()
    shown = browser.run("return [state.memory, state.compare, state.step]")
    assert shown == ["", "", 6]  # where the answer begins
    browser.run("location.hash = arguments[0]", urlencode({"model": runs["stateless-baseline"]}))
    browser.wait("return state.problem !== '3 1 4 1' && views[0].problem === state.problem")
    browser.ready()
    browser.run("location.hash = arguments[0]", link)
    browser.wait("return views[0].problem === '3 1 4 1'")
    browser.ready()
    browser.run("location.hash = 'model=nobody&problem=1+2'")
    browser.wait("return $('error').textContent.includes('no model nobody')")
    assert browser.run("return [state.model, views[0].problem]") == [runs["compr+reg"], "3 1 4 1"]
    assert browser.complaints() == []
