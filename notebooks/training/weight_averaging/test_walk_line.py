"""The walk between two networks in a browser: its values, by keys and by pointer."""

import json
import shutil
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("walk_line.js").read_text(encoding="utf-8")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytest.importorskip("playwright")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium")
T = [-0.25, 0, 0.25, 0.5, 0.75, 1, 1.25]
KINDS = {"last": "of the last model", "own": "recomputed"}
ROWS = {
    line: {
        kind: [
            [2.0 + place + one, 0.1 * one, 3.0 + one, 0.05 * one + place] for one in range(7)
        ]
        for place, kind in enumerate(KINDS)
    }
    for line in ("near", "far")
}
WALK = {"t": {"near": T, "far": T}, "kinds": KINDS, "rows": ROWS}
WALK["ends"] = {"near": ["SWA", "SGD"], "far": ["first", "second"]}


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


def visit(browser, walk, wide=1000):
    """A page with the script and these values, once it has begun or failed."""
    page = browser.new_page(viewport={"width": wide, "height": 900})
    about = json.dumps(walk).replace("'", "&#39;")
    page.set_content(
        f"<div class=\"walk-line\" data-walk='{about}'>words</div><script>{SCRIPT}</script>"
    )
    page.wait_for_selector(".walk-line[data-state]")
    return page


def shown(page):
    return [*map(float, page.locator(".walk-line").get_attribute("data-shown").split())]


def test_the_walk_begins_at_its_first_network_and_the_switch_changes_the_values(browser):
    page = visit(browser, WALK)
    assert shown(page) == ROWS["near"]["last"][1]
    page.locator("select").nth(1).select_option("own")
    assert shown(page) == ROWS["near"]["own"][1]
    page.get_by_role("status").filter(has_text="recomputed: training loss").wait_for()
    page.locator("select").first.select_option("far")
    page.get_by_role("status").filter(has_text="0 % of the way from first to second").wait_for()
    page.close()


def test_keys_and_a_finger_move_along_the_line_on_a_phone(browser):
    page = visit(browser, WALK, wide=360)
    page.locator("input").press("ArrowRight")
    assert shown(page) == ROWS["near"]["last"][2]
    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 45)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 12, box["y"] + 60)
    page.mouse.up()
    assert shown(page) == ROWS["near"]["last"][6]
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()


def test_the_controls_and_the_curves_share_a_phone_s_screen(browser):
    page = visit(browser, WALK, wide=360)
    page.add_style_tag(content="body { font: 18px/1.65 sans-serif }")  # about the book's
    page.get_by_role("status").filter(has_text="training loss").wait_for()
    top = page.locator("label").first.bounding_box()["y"]
    slider = page.locator("input").bounding_box()
    # of 800 pixels the book's bar at the top takes 56; 100 more are the browser's own bar
    assert slider["y"] + slider["height"] - top < 800 - 56 - 100
    page.close()


def test_what_goes_wrong_is_told(browser):
    page = visit(browser, WALK | {"rows": {"near": {"last": []}}})
    assert "cannot run here: the values did not come" in page.inner_text("body")
    page.close()
    page = visit(browser, WALK)
    page.evaluate(
        "() => { HTMLCanvasElement.prototype.getContext = () => { throw new Error('none'); }; }"
    )
    page.locator("input").press("ArrowRight")
    page.get_by_text("cannot run here: none").wait_for()
    page.close()
