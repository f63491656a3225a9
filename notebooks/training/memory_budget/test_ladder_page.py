"""The lines of the ladder are the timeline's peaks, and the sliders follow them."""

import json

import ladder_page
import pytest
from memory_ladder import predicted

SCRIPT = ladder_page.SCRIPT.read_text(encoding="utf-8")
LADDER = {
    "sides": [64, 180],
    "rungs": {
        "plain": [[[1e8, 1e6]], [[1e9, 5e7]]],
        "4 parts": [[[1e8, 2e5]], [[1.1e9, 1e7], [1.5e9, 0]]],
    },
}


@pytest.mark.parametrize("name", ["plain", "4 parts", "checkpointing", "mixed precision"])
@pytest.mark.parametrize("batch", [4, 32, 400])
def test_the_largest_line_is_the_peak(name, batch):
    lines = ladder_page.lines(name, 64)
    peak = max(moment.held for moment in predicted(name, batch, 64))
    assert max(fixed + each * batch for fixed, each in lines) == peak


def test_the_page_holds_every_rung_at_every_side():
    text = ladder_page.sliders("words", sides=(16, 32), rungs=("plain", "8-bit Adam"))
    data = json.loads(text.split("data-ladder='")[1].split("'")[0])
    assert {n: len(one) for n, one in data["rungs"].items()} == {"plain": 2, "8-bit Adam": 2}
    assert "<p>words</p>" in text


def visit(browser, ladder, wide=1000):
    page = browser.new_page(viewport={"width": wide, "height": 900})
    about = json.dumps(ladder).replace("'", "&#39;")
    page.set_content(
        f"<div class=\"ladder-sliders\" data-ladder='{about}'>words</div>"
        f"<script>{SCRIPT}</script>"
    )
    page.wait_for_selector(".ladder-sliders[data-state]")
    return page


def shown(page):
    told = page.locator(".ladder-sliders").get_attribute("data-shown").split()
    return [float(one) for one in told]


def test_rungs_light_up_by_their_bytes(browser):
    page = visit(browser, LADDER)
    # 2 GB, 32 images, 180 pixels: 1e9 + 32 * 5e7 is too much, 1.5e9 fits
    assert shown(page) == [1, 2.6e9, 20]
    told = page.get_by_role("list", name="Rungs of the ladder").inner_text()
    assert "2.60 GB, too much" in told and "1.50 GB, fits" in told
    page.close()


@pytest.mark.parametrize("wide", [320, 1000])
def test_keys_move_each_slider(browser, wide):
    page = visit(browser, LADDER, wide)
    page.get_by_label("Batch").press("ArrowLeft")
    assert shown(page) == [2, 1.8e9, 20]
    page.get_by_label("Room on the card").press("ArrowLeft")
    assert shown(page) == [0, 1.8e9, 0]
    assert "No rung fits" in page.get_by_role("status").inner_text()
    page.get_by_label("Resolution").press("ArrowLeft")
    assert shown(page) == [2, 1.16e8, 900]
    assert page.evaluate("document.documentElement.scrollWidth") <= wide
    page.close()


def test_a_ladder_that_did_not_come_is_told(browser):
    page = visit(browser, LADDER | {"rungs": {"plain": [[[1, 1]]]}})
    assert "cannot be shown here: the ladder did not come" in page.inner_text("body")
    page.close()
