"""The map of work groups in a browser: five guesses, then all; by pointer and by keys."""

import json
import re
from pathlib import Path

SCRIPT = Path(__file__).with_name("group_map.js").read_text(encoding="utf-8")
TIMES = [
    [x, y, z, 100.0 + x + 10 * y + 50 * z] for z in (1, 2) for y in (1, 2, 4) for x in (1, 7)
]


def visit(browser, wide=1000, times=TIMES):
    page = browser.new_page(viewport={"width": wide, "height": 900})
    given = json.dumps({"grid": [7, 4, 2], "fast": [7, 2, 2], "guesses": 5, "times": times})
    page.set_content(
        f"<div class='group-map' data-groups='{given}'>words</div><script>{SCRIPT}</script>"
    )
    page.wait_for_selector(".group-map[data-state]")
    return page


def told(page):
    return page.get_by_role("status").inner_text()


def test_a_guess_shows_its_time_and_five_are_all(browser):
    page = visit(browser)
    squares = page.locator("table button")
    assert squares.count() == 12 and "5 guesses left" in told(page)
    squares.nth(1).click()
    assert "7 × 1 × 1 takes 167 µs" in told(page) and "4 guesses left" in told(page)
    for at in range(2, 8):
        squares.nth(at).click()
    assert page.locator(".group-map").get_attribute("data-shown").startswith("5 some")
    assert squares.nth(7).get_attribute("aria-label").endswith("not timed yet")
    page.close()


def test_the_tuner_shows_the_best_and_what_yours_costs(browser):
    page = visit(browser)
    page.locator("table button").nth(1).click()
    page.get_by_role("button", name="Let the tuner try all").click()
    assert "1 × 1 × 1 takes 161 µs" in told(page)
    assert f"Your best is {167 / 161:.2f} times the tuner's" in told(page)
    squares = page.locator("table button")
    marks = [squares.nth(at).inner_text() for at in (0, 1, 9)]
    assert marks == ["★", f"{167 / 161:.2f}", "f"] and "times over the best" in told(page)
    light = [
        squares.nth(at).evaluate("e => getComputedStyle(e).backgroundColor") for at in (0, 11)
    ]
    best, worst = (sum(map(int, re.findall(r"\d+", one)[:3])) for one in light)
    assert best > worst, "lighter is faster"
    page.get_by_role("button", name="Begin again").click()
    assert "5 guesses left" in told(page)
    page.close()


def test_arrow_keys_move_and_enter_guesses_on_a_narrow_screen(browser):
    page = visit(browser, wide=320)
    page.locator("table button").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert "7 × 2 × 1 takes 177 µs" in told(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.close()


def test_without_times_it_says_so(browser):
    page = visit(browser, times=[])
    assert "cannot be shown here: no times came" in page.inner_text("body")
    page.close()
