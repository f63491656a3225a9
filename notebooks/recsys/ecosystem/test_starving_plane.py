"""The plane of providers in a browser: its sliders by keys, on a phone, and its failure."""

import json
from pathlib import Path

SCRIPT = Path(__file__).with_name("starving_plane.js").read_text(encoding="utf-8")
PLANE = {"places": [[0, 0], [5, -3], [-8, 8]], "caps": [0, 1.2], "steps": [1, 50]}
PLANE["documents"] = {"0": [[5, 5, 5], [15, 0, 0]], "1.2": [[5, 5, 5], [8, 7, 0]]}
PLANE["utility"] = {"0": [0.0, 31.25], "1.2": [0.0, 42.0]}


def visit(browser, plane, wide=1000):
    page = browser.new_page(viewport={"width": wide, "height": 800})
    about = json.dumps(plane).replace("'", "&#39;")
    shown = f"<div class=\"starving-plane\" data-plane='{about}'>words</div>"
    page.set_content(f"{shown}<script>{SCRIPT}</script>")
    page.wait_for_selector(".starving-plane[data-state]")
    return page


def shown(page):
    return page.locator(".starving-plane").get_attribute("data-shown")


def test_the_sliders_change_cap_and_step_by_keys(browser):
    page = visit(browser, PLANE)
    assert shown(page) == "0 50 1"
    page.get_by_role("slider", name="Cap of the boost").press("ArrowRight")
    assert shown(page) == "1.2 50 2"
    page.get_by_role("slider", name="Step").press("ArrowLeft")
    assert shown(page) == "1.2 1 3"
    page.get_by_role("status").filter(has_text="3 of 3 providers have documents").wait_for()
    page.close()


def test_all_of_it_fits_a_small_phone(browser):
    page = visit(browser, PLANE, wide=320)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    top = page.locator("label").first.bounding_box()["y"]
    canvas = page.locator("canvas").bounding_box()
    assert canvas["y"] + canvas["height"] - top < 560  # what is moved and what it moves
    page.close()


def test_what_goes_wrong_is_told(browser):
    page = visit(browser, PLANE | {"documents": {"0": [[1, 2]]}})
    assert "cannot run here: the values did not come" in page.inner_text("body")
    page.close()
