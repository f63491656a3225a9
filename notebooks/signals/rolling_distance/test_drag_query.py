"""The ECG to drag over, in a browser: the distances of the module, by pointer and by keys."""

import base64
import json
from pathlib import Path

import numpy as np
import rolling_distance as rd

SCRIPT = Path(__file__).with_name("drag_query.js").read_text(encoding="utf-8")
COUNTS = (np.random.default_rng(0).standard_normal(2700).cumsum() * 60).round().astype("<i2")
LENGTH = 108  # 0.6 s at 180 points in a second


def visit(browser, counts, wide=1000):
    """A page with the script and these counts, once it has begun or failed."""
    ecg = base64.b64encode(counts.tobytes()).decode()
    given = {"ecg": ecg, "per-mv": 1000, "rate": 180, "begin": 500}
    given |= {"beats": json.dumps([[554, "V"], [2000, "N"]])}
    about = " ".join(f"data-{name}='{value}'" for name, value in given.items())
    page = browser.new_page(viewport={"width": wide, "height": 900})
    page.set_content(f'<div class="drag-query" {about}>words</div><script>{SCRIPT}</script>')
    page.wait_for_selector(".drag-query[data-state]")
    return page


def found(page):
    """The positions that the page marks, set within the event that asks for them."""
    return [*map(int, page.locator(".drag-query").get_attribute("data-found").split())]


def wanted(measure, begin):
    """The same by the module."""
    stream = COUNTS / 1000
    distances = getattr(rd, measure)(stream[begin : begin + LENGTH], stream)
    distances[max(0, begin - LENGTH + 1) : begin + LENGTH] = np.inf
    return rd.top_matches(distances, 5, LENGTH).positions.tolist()


def test_each_distance_finds_what_the_module_finds(browser):
    page = visit(browser, COUNTS)
    for measure in ("zdist", "mdist", "sdist"):
        page.locator("select").select_option(measure)
        assert found(page) == wanted(measure, 500)
        words = page.get_by_role("status").filter(has_text=f"Nearest by {measure}")
        words.wait_for()  # spoken once the query rests
    page.close()


def test_keys_and_a_finger_s_drag_move_the_query_on_a_phone(browser):
    page = visit(browser, COUNTS, wide=360)
    slider = page.locator("input")
    slider.press("ArrowRight")
    begin = int(slider.input_value())
    assert begin > 500 and found(page) == wanted("zdist", begin)
    box = page.locator("canvas").first.bounding_box()
    page.mouse.move(box["x"] + 50, box["y"] + 45)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.9)  # third row
    page.mouse.up()
    begin = int(slider.input_value())
    assert abs(begin - (2.5 * 900 - LENGTH / 2)) < 10 and found(page) == wanted("zdist", begin)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()


def test_the_controls_and_the_matches_share_a_phone_s_screen(browser):
    page = visit(browser, COUNTS, wide=360)
    page.add_style_tag(content="body { font: 18px/1.65 sans-serif }")  # about the book's
    page.get_by_role("status").filter(has_text="Nearest by zdist").wait_for()
    top = page.locator("label").first.bounding_box()["y"]
    matches = page.locator("canvas").last.bounding_box()
    # of 800 pixels the book's bar at the top takes 56; 100 more are the browser's own bar
    assert matches["y"] + matches["height"] - top < 800 - 56 - 100
    page.close()


def test_each_beat_wears_the_cardiologists_letter(browser):
    page = visit(browser, COUNTS)
    page.evaluate(
        """() => {
          window.letters = [];
          CanvasRenderingContext2D.prototype.fillText = (text) => window.letters.push(text);
        }"""
    )
    page.locator("input").press("ArrowRight")
    letters = page.evaluate("window.letters")
    assert [one for one in letters if one in ("N", "V")] == ["V", "N"]  # in the rows' order
    page.close()


def test_what_goes_wrong_is_told(browser):
    page = visit(browser, COUNTS[:50])
    assert "cannot run here: the recording did not come" in page.inner_text("body")
    page.close()
    page = visit(browser, COUNTS)
    page.evaluate(
        "() => { HTMLCanvasElement.prototype.getContext = () => { throw new Error('none'); }; }"
    )
    page.locator("select").select_option("sdist")
    page.get_by_text("cannot run here: none").wait_for()
    page.close()
