"""Moving sequences between rows in a browser: by pointer, by tapping, by keys."""

import json
from pathlib import Path

SCRIPT = Path(__file__).with_name("drag_packs.js").read_text(encoding="utf-8")
PACKS = {
    "row": 8,
    "most": 3,
    "lengths": [5, 3, 2, 1],
    "starts": {"one a row": [0, 1, 2, 3], "packed": [0, 0, 1, 1]},
}


def visit(browser, packs, wide=1000):
    page = browser.new_page(viewport={"width": wide, "height": 900})
    about = json.dumps(packs).replace("'", "&#39;")
    page.set_content(
        f"<div class=\"drag-packs\" data-packs='{about}'>words</div><script>{SCRIPT}</script>"
    )
    page.wait_for_selector(".drag-packs[data-state]")
    return page


def shown(page):
    return [*map(float, page.locator(".drag-packs").get_attribute("data-shown").split())]


def painted(page, row):
    """The share of a row's mask that is painted."""
    return (
        page.locator("canvas")
        .nth(row)
        .evaluate(
            "c => { const d = c.getContext('2d').getImageData(0, 0, 64, 64).data;"
            " let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 128;"
            " return n / 4096; }"
        )
    )


def test_efficiency_and_mask_follow_the_packs(browser):
    page = visit(browser, PACKS)
    assert shown(page) == [4, 34.4, 1.0] and painted(page, 0) == 25 / 64
    page.locator("select").select_option("packed")
    assert shown(page) == [2, 68.8, 2.0] and painted(page, 0) == 34 / 64
    page.close()


def test_two_taps_move_a_sequence_on_a_phone(browser):
    page = visit(browser, PACKS, wide=320)
    page.get_by_role("button", name="sequence 2: 3 tokens").click()
    page.get_by_role("button", name="Put 3 tokens here. Row 1").click()
    assert shown(page) == [3, 45.8, 1.33]
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.close()


def test_a_pointer_drags_a_sequence(browser):
    page = visit(browser, PACKS)
    chip = page.get_by_role("button", name="sequence 4: 1 tokens")
    chip.drag_to(page.get_by_role("group", name="Row 1"))
    assert shown(page) == [3, 45.8, 1.33]
    page.close()


def test_keys_move_a_sequence_and_escape_lets_it_go(browser):
    page = visit(browser, PACKS)
    chip = page.get_by_role("button", name="sequence 3: 2 tokens")
    chip.press("Enter")
    assert chip.get_attribute("aria-pressed") == "true"
    chip.press("Escape")
    assert chip.get_attribute("aria-pressed") == "false"
    chip.press("Enter")
    page.keyboard.press("1")
    assert shown(page) == [3, 45.8, 1.33]
    page.close()


def test_what_does_not_fit_stays_and_the_reason_is_told(browser):
    page = visit(browser, PACKS | {"lengths": [5, 4, 2, 1], "most": 2})
    page.get_by_role("button", name="sequence 2: 4 tokens").press("Enter")
    page.keyboard.press("1")
    assert "9 tokens in a row of 8" in page.get_by_role("status").inner_text()
    page.locator("select").select_option("packed")
    assert "Does not fit" not in page.get_by_role("status").inner_text()
    page.get_by_role("button", name="sequence 1: 5 tokens").press("Enter")
    page.keyboard.press("2")
    assert "at most 2 sequences" in page.get_by_role("status").inner_text()
    page.close()


def test_values_that_did_not_come_are_told(browser):
    page = visit(browser, PACKS | {"lengths": []})
    assert "cannot be moved here: the sequences did not come" in page.inner_text("body")
    page.close()
