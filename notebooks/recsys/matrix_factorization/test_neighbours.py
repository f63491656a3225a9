"""Neighbours of a page in a browser: by typing, by the keyboard, by a finger on a phone, and
without values.
"""

import html
import json
from pathlib import Path

SCRIPT = Path(__file__).with_name("neighbours.js").read_text(encoding="utf-8")
TITLES = [
    "Aragón & more",
    "Barcelona",
    "Zürich",
    'A "quoted" page with a very long title that has to wrap on a phone',
]
PAGES = {"titles": TITLES, "near": [[1, 2], [0, 3], [0, 1], [2, 1]], "first": 0}


def visit(browser, pages, wide=1000):
    """A page with the script and these values, once it has begun or failed."""
    page = browser.new_page(viewport={"width": wide, "height": 700})
    told = html.escape(json.dumps(pages), quote=True)
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
    page.get_by_label("Title of a page").focus()
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


def test_long_titles_fit_a_phone(browser):
    page = visit(browser, PAGES, wide=320)
    page.get_by_label("Title of a page").fill("Barcelona")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.close()


def test_values_that_did_not_come_are_told(browser):
    page = visit(browser, PAGES | {"near": []})
    assert "cannot be shown here: the pages did not come" in page.inner_text("body")
    page.close()
