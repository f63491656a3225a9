"""The measured grid in a browser: it begins at the knee, and says what was measured."""

import json
from pathlib import Path

SCRIPT = Path(__file__).with_name("load_grid.js").read_text(encoding="utf-8")
RATES = {-1: [100, 110, 120], 0: [90, 300, 310], 2000: [50, 150, 305]}
GRID = [
    [clients, delay, rate, 10.0, 20.0, 1.5]
    for delay, rates in RATES.items()
    for clients, rate in zip((1, 4, 8), rates, strict=True)
]


def visit(browser, grid):
    page = browser.new_page(viewport={"width": 360, "height": 800})
    told = f"<div class='load-grid' data-grid='{json.dumps(grid)}'>words</div>"
    page.set_content(f"{told}<script>{SCRIPT}</script>")
    page.wait_for_selector(".load-grid[data-state]")
    return page


def test_it_begins_at_the_knee_and_follows_the_sliders_on_a_phone(browser):
    page = visit(browser, GRID)
    place = page.locator(".load-grid")
    assert (place.get_attribute("data-clients"), place.get_attribute("data-delay")) == (
        "4",
        "0",
    )
    told = page.get_by_role("status")
    told.filter(has_text="4 clients, batches without waiting: 300").wait_for()
    many, wait = page.locator("input").all()
    many.fill("2"), wait.fill("2")
    told.filter(has_text="8 clients, batches, up to 2 ms: 305").wait_for()
    wait.fill("0")
    told.filter(has_text="8 clients, no batching: 120 patches").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()


def test_it_is_drawn_anew_in_the_colours_of_another_theme(browser):
    page = visit(browser, GRID)
    page.add_style_tag(content="body { color: black } [data-theme=dark] body { color: white }")
    drawn = "document.querySelector('canvas').toDataURL()"
    before = page.evaluate(drawn)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.wait_for_function(f"before => {drawn} !== before", arg=before, timeout=5_000)
    page.close()


def test_a_grid_with_holes_is_told(browser):
    page = visit(browser, GRID[:-1])
    assert "cannot run here: the grid did not come" in page.inner_text("body")
    page.close()
