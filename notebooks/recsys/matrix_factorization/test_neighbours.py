"""Neighbours of a page in a browser: by typing, by the keyboard, by turning a knob, on a phone,
and without values.
"""

import base64
import gzip
import json
from pathlib import Path

SCRIPT = Path(__file__).with_name("neighbours.js").read_text(encoding="utf-8")
TITLES = [
    "Aragón & more",
    "Barcelona",
    "Zürich",
    'A "quoted" page with a very long title that has to wrap on a phone',
]
NEAR = [[[1, 2], [3, 1]], [[0, 3], [2, 3]], [[0, 1], [3, 1]], [[2, 1], [0, 2]]]
PAGES = {"titles": TITLES, "near": NEAR, "first": 0}
PAGES |= {"kinds": [["as chosen", 0.375], ["λ tenfold", 0.25]]}


def visit(browser, pages, wide=1000):
    """A page with the script and these values, once it has begun or failed."""
    page = browser.new_page(viewport={"width": wide, "height": 700})
    told = base64.b64encode(gzip.compress(json.dumps(pages).encode())).decode()
    page.set_content(
        f'<div class="page-neighbours" data-pages="{told}">words</div><script>{SCRIPT}</script>'
    )
    page.wait_for_selector(".page-neighbours[data-state]")
    return page


def shown(page):
    return page.locator(".page-neighbours li").all_inner_texts()


def test_a_title_without_its_accents_finds_its_neighbours(browser):
    page = visit(browser, PAGES)
    assert shown(page) == [TITLES[1], TITLES[2]]
    page.get_by_label("Title of a page").fill("zurich")
    assert shown(page) == [TITLES[0], TITLES[1]]
    page.get_by_label("Title of a page").fill("quoted")
    assert "1 titles hold this" in page.get_by_role("status").inner_text()
    assert shown(page) == [TITLES[0], TITLES[1]]  # nothing moves while one types
    page.keyboard.press("Enter")
    assert shown(page) == [TITLES[2], TITLES[1]]
    page.close()


def test_a_neighbour_is_walked_to_by_the_keyboard(browser):
    page = visit(browser, PAGES)
    page.get_by_label("Knobs").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.get_by_label("Title of a page").input_value() == "Barcelona"
    assert shown(page) == [TITLES[0], TITLES[3]]
    page.close()


def test_a_title_that_is_not_there_is_told(browser):
    page = visit(browser, PAGES)
    page.get_by_label("Title of a page").fill("<b>x</b>")
    assert "No page here has “<b>x</b>”" in page.get_by_role("status").inner_text()
    assert shown(page) == []
    page.close()


def test_a_turned_knob_shows_its_neighbours_its_recall_and_which_are_new(browser):
    page = visit(browser, PAGES)
    page.get_by_label("Title of a page").fill("zurich")
    page.get_by_label("Knobs").select_option("λ tenfold")
    assert shown(page) == [f"{TITLES[3]} not with the chosen knobs", TITLES[1]]
    assert "Zürich”, recall@20 0.25:" in page.get_by_role("status").inner_text()
    page.locator(".page-neighbours li button").last.click()  # the knob stays turned
    assert shown(page) == [
        f"{TITLES[2]} not with the chosen knobs",
        TITLES[3],
    ]
    page.get_by_label("Knobs").select_option("as chosen")
    assert shown(page) == [TITLES[0], TITLES[3]]
    page.close()


def test_long_titles_fit_a_phone(browser):
    page = visit(browser, PAGES, wide=320)
    page.get_by_label("Title of a page").fill("Barcelona")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.close()


def test_values_that_did_not_come_are_told(browser):
    for near in ([], NEAR[:3], [lists[:1] for lists in NEAR]):
        page = visit(browser, PAGES | {"near": near})
        assert "cannot be shown here: the pages did not come" in page.inner_text("body")
        page.close()
    page = browser.new_page()
    page.set_content(
        f'<div class="page-neighbours" data-pages="H4s">x</div><script>{SCRIPT}</script>'
    )
    page.wait_for_selector(".page-neighbours[data-state=failed]")
    page.close()
