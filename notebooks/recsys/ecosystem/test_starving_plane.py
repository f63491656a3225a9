"""The plane of providers in a browser: its sliders by keys, on a phone, and its failure."""

import json
from pathlib import Path

SCRIPT = Path(__file__).with_name("starving_plane.js").read_text(encoding="utf-8")
PLANE = {"places": [[0, 0], [5, -3], [-8, 8]], "caps": [0, 1.2], "steps": [1, 50]}
PLANE |= {"window": 50}  # −1: none in the last fifty steps; 0: none now
PLANE["documents"] = {"0": [[5, 5, 5], [15, -1, -1]], "1.2": [[5, 5, 5], [15, 0, -1]]}
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


def drawn(page):
    """What stands at each provider's place: a disc is blue, a cross is not."""
    return page.evaluate(
        """(places) => {
          const canvas = document.querySelector("canvas");
          const [wide, high] = [canvas.width, canvas.height];
          const reach = 1.08 * Math.max(...places.flat().map(Math.abs));
          const far = (Math.min(wide, high) / 2 - 4) / reach;
          return places.map(([x, y]) => {
            const at = [wide / 2 + x * far, high / 2 - y * far].map(Math.round);
            const [red, , blue] = canvas.getContext("2d").getImageData(...at, 1, 1).data;
            return blue > red ? "disc" : red > blue ? "cross" : "nothing";
          });
        }""",
        PLANE["places"],
    )


def test_who_had_documents_lately_is_a_disc_and_who_had_none_a_cross(browser):
    page = visit(browser, PLANE)
    assert drawn(page) == ["disc", "cross", "cross"]
    page.get_by_role("slider", name="Cap of the boost").press("ArrowRight")
    assert drawn(page) == ["disc", "disc", "cross"]  # the second has none just now
    page.close()


def test_the_sliders_change_cap_and_step_by_keys(browser):
    page = visit(browser, PLANE)
    assert shown(page) == "0 50 1"
    page.get_by_role("slider", name="Cap of the boost").press("ArrowRight")
    assert shown(page) == "1.2 50 2"
    page.get_by_role("slider", name="Step").press("ArrowLeft")
    assert shown(page) == "1.2 1 3"
    said = page.get_by_role("status")
    said.filter(has_text="3 of 3 providers had documents in the last 50 steps").wait_for()
    page.get_by_role("slider", name="Step").press("ArrowRight")
    said.filter(has_text="2 of 3").filter(
        has_text="1 have some now, the largest 15 of 15"
    ).wait_for()
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
