"""The sliders' queue in a browser is the module's, by pointer and by keys."""

import pytest

import waiting

from . import wait_page


def visit(browser, wide=1000, **options):
    page = browser.new_page(viewport={"width": wide, "height": 900})
    page.set_content(wait_page.sliders("words", **options))
    page.wait_for_selector(".wait-sliders[data-state]")
    return page


def shown(page):
    told = page.locator(".wait-sliders").get_attribute("data-shown").split()
    return [float(one) for one in told]


def wanted(clerks, load, patience, answered=0.3, wrong=0.0):
    left = waiting.after_answers(load, answered, wrong)
    before, after = (waiting.erlang_a(clerks, one, patience).wait for one in (load, left))
    return pytest.approx([5 * before, 5 * after, 1 - after / before], rel=1e-9)


def test_the_words_stand_until_a_browser_runs_the_script():
    assert "<p>words</p>" in wait_page.sliders("words")


def test_the_browser_s_queue_is_the_module_s(browser):
    page = visit(browser)
    assert shown(page) == wanted(10, 9.5, 2.0)
    page.get_by_role("slider", name="Wrong answers").fill("50")
    assert shown(page) == wanted(10, 9.5, 2.0, wrong=0.5)
    page.get_by_role("slider", name="Load").fill("200")
    page.get_by_role("slider", name="Clerks").fill("30")
    page.get_by_role("slider", name="Patience").fill("30")
    assert shown(page) == wanted(30, 60, 6.0, wrong=0.5)
    page.close()


@pytest.mark.parametrize("wide", [320, 1000])
def test_keys_move_a_slider_and_the_words_follow(browser, wide):
    page = visit(browser, wide)
    page.get_by_role("slider", name="Answered by text").press("Home")
    assert shown(page)[2] == 0 and "0 % of the wait" in page.get_by_role("status").inner_text()
    page.get_by_role("slider", name="Load").press("ArrowLeft")
    assert shown(page) == wanted(10, 9.0, 2.0, answered=0)
    label = page.get_by_role("img").get_attribute("aria-label")
    assert "0 % at a load of 90 %" in label
    assert page.evaluate("document.documentElement.scrollWidth") <= wide
    page.close()


def test_a_queue_that_did_not_come_is_told(browser):
    page = visit(browser, call_min=0)
    assert "cannot be shown here: no length of a call" in page.inner_text("body")
    page.close()
