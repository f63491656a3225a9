"""Moving tables in a browser: by pointer, by tapping, by keys."""

import json
from pathlib import Path

SCRIPT = Path(__file__).with_name("drag_tables.js").read_text(encoding="utf-8")
PLAN = {
    "limit": 10.0,
    "devices": 3,
    "pieces": [["C1", 8.0, 10.0], ["C2", 6.0, 20.0], ["C3", 1.0, 30.0]],
    "starts": {"basic": [0, 0, 1], "even": [0, 1, 2]},
}


def visit(browser, plan, wide=1000):
    page = browser.new_page(viewport={"width": wide, "height": 900})
    about = json.dumps(plan).replace("'", "&#39;")
    page.set_content(
        f"<div class=\"drag-tables\" data-plan='{about}'>words</div><script>{SCRIPT}</script>"
    )
    page.wait_for_selector(".drag-tables[data-state]")
    return page


def shown(page):
    return [*map(float, page.locator(".drag-tables").get_attribute("data-shown").split())]


def test_it_begins_with_the_plan_and_says_what_does_not_fit(browser):
    page = visit(browser, PLAN)
    assert shown(page) == [14.0, 30.0, 1.0]
    assert "too much" in page.get_by_role("group", name="Device 0").inner_text()
    page.locator("select").select_option("even")
    assert shown(page) == [8.0, 30.0, 0.0]
    page.close()


def test_two_taps_move_a_table_on_a_phone(browser):
    page = visit(browser, PLAN, wide=320)
    page.get_by_role("button", name="C2: 6.0 GiB").click()
    page.get_by_role("button", name="Put C2 here. Device 2").click()
    assert shown(page) == [8.0, 30.0, 0.0]
    assert "1 moved" in page.get_by_role("status").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.close()


def test_keys_move_a_table_and_escape_lets_it_go(browser):
    page = visit(browser, PLAN)
    chip = page.get_by_role("button", name="C1: 8.0 GiB")
    chip.press("Enter")
    assert chip.get_attribute("aria-pressed") == "true"
    chip.press("Escape")
    assert chip.get_attribute("aria-pressed") == "false"
    chip.press("Enter")
    page.keyboard.press("2")
    assert shown(page) == [8.0, 30.0, 0.0]
    page.close()


def test_dragging_moves_a_table(browser):
    page = visit(browser, PLAN)
    page.get_by_role("button", name="C2: 6.0 GiB").drag_to(
        page.get_by_role("group", name="Device 2")
    )
    assert shown(page) == [8.0, 30.0, 0.0]
    page.close()


def test_what_goes_wrong_is_told(browser):
    page = visit(browser, PLAN | {"starts": {"basic": [0]}})
    assert "cannot be moved here: the plan did not come" in page.inner_text("body")
    page.close()
