"""The slider's votes are the module's, by pointer and by keys; the samples open beneath."""

import json

import pytest
import voting
from real_samples import Problem

ANSWERS = ["7", "4", "4", None, "7", "7", "4", "</script>"]
ONE = Problem(5, "How many?", "4", ANSWERS, [], [], [f"I think {a} < 9." for a in ANSWERS])
RIGHT = [one == "4" for one in ANSWERS]
CURVES = {"majority": [40.0 + k for k in range(8)], "pass": [50.0] * 8}


def visit(browser, data, wide=1000):
    page = browser.new_page(viewport={"width": wide, "height": 900})
    page.set_content(voting.slider("words & more", data))
    page.wait_for_selector(".vote-slider[data-state]")
    return page


@pytest.fixture
def data():
    other = ONE._replace(number=6, answers=["1"] * 8)
    return voting.content([ONE, other], [RIGHT, [False] * 8], CURVES)


def shown(page):
    return json.loads(page.locator(".vote-slider").get_attribute("data-shown"))


def test_words_stand_until_a_browser_runs_the_script(data):
    assert "<p>words &amp; more</p>" in voting.slider("words & more", data)


@pytest.mark.parametrize("wide", [320, 1000])
def test_each_k_has_the_module_s_leaders(browser, data, wide):
    page = visit(browser, data, wide)
    votes = page.get_by_role("slider", name="Votes")
    for k in range(1, 9):
        leaders = voting.leaders(ANSWERS[:k])
        right = voting.majority(ANSWERS[:k]) == "4"
        assert shown(page) == [k, leaders, right]
        votes.press("ArrowRight")
    said = page.get_by_role("status").inner_text()
    assert "A tie of 2: the first to come, 7, is taken, and is wrong." in said
    assert "majority 47.0 %" in page.inner_text("body")
    assert page.evaluate("document.documentElement.scrollWidth") <= wide
    page.close()


def test_a_sample_opens_by_keys_and_shows_its_whole_text(browser, data):
    page = visit(browser, data)
    summary = page.locator("summary").nth(7)
    summary.focus()
    summary.press("Enter")
    assert "I think </script> < 9." in page.locator("details[open]").inner_text()
    page.close()


def test_another_problem_keeps_the_votes(browser, data):
    page = visit(browser, data)
    page.get_by_role("slider", name="Votes").fill("3")
    page.get_by_role("combobox", name="Problem").select_option("1")
    assert shown(page) == [3, ["1"], False]
    assert "No right answer is among them." in page.get_by_role("status").inner_text()
    page.close()


def test_problems_that_did_not_come_are_told(browser):
    page = visit(browser, {"problems": [], "curves": {}})
    assert "cannot be shown here: no problem came" in page.inner_text("body")
    page.close()
