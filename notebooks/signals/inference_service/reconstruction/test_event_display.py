"""The event to move over, in a browser: the nearest hit is found, drawn and said."""

import base64
import json
from pathlib import Path

import numpy as np

SCRIPT = Path(__file__).with_name("event_display.js").read_text(encoding="utf-8")
HITS = [[10, 20, 0], [60, 70, 1], [61, 140, 2]]
SAID = [[90, 8, 2, 1], [10, 85, 5, 3], [10, 60, 30, 80]]


def visit(browser, image, wide=1000):
    told = {"wires": 100, "pixels": 160, "hits": json.dumps(HITS), "said": json.dumps(SAID)}
    begins = np.flatnonzero(np.diff(image, prepend=image[:, :1] ^ 1))
    for name, values in (
        ("lengths", np.diff(begins, append=image.size).astype("<u2")),
        ("levels", image.ravel()[begins]),
    ):
        told[name] = base64.b64encode(values.tobytes()).decode()
    about = " ".join(f"data-{name}='{value}'" for name, value in told.items())
    page = browser.new_page(viewport={"width": wide, "height": 900})
    page.set_content(f'<div class="event-display" {about}>words</div><script>{SCRIPT}</script>')
    page.wait_for_selector(".event-display[data-state]")
    return page


def hit(page):
    return int(page.locator(".event-display").get_attribute("data-hit"))


def test_sliders_and_pointer_find_the_nearest_hit_on_a_phone(browser):
    page = visit(browser, np.zeros((100, 160), np.uint8), wide=360)
    assert hit(page) == 1
    wire, time = page.locator("input").all()
    wire.fill("8"), time.fill("25")
    assert hit(page) == 0
    said = "Hit at wire 10, tick 120: the network says a track. It was a track."
    page.get_by_role("status").filter(has_text=said).wait_for()
    box = page.locator("canvas").first.bounding_box()
    page.mouse.move(
        box["x"] + 0.6 * box["width"], box["y"] + 0.1 * box["height"]
    )  # late: above
    assert hit(page) == 2
    page.get_by_role("status").filter(has_text="says a Michel electron").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()


def test_the_patch_shows_the_pixels_around_its_hit(browser):
    image = np.zeros((100, 160), np.uint8)
    image[60, 70] = image[61, 0] = 255
    page = visit(browser, image)
    bright = page.evaluate(
        """() => { const canvas = document.querySelectorAll("canvas")[1];
        const data = canvas.getContext("2d").getImageData(0, 0, 48, 48).data;
        const found = []; for (let i = 0; i < 48 * 48; i += 1) if (data[4 * i] > 200)
        found.push([i % 48, 47 - Math.floor(i / 48)]); return found; }"""
    )
    assert bright == [[24, 24]]
    page.close()


def test_what_goes_wrong_is_told(browser):
    page = visit(browser, np.zeros((3, 3), np.uint8))
    assert "cannot run here: the event did not come" in page.inner_text("body")
    page.close()
