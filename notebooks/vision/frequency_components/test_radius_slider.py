"""The radius slider in a browser: parts as the module's, answers as the table's, by keys."""

import base64
import json
import shutil
from pathlib import Path

import pytest
import torch
from frequency_split import split, stretch

SCRIPT = Path(__file__).with_name("radius_slider.js").read_text(encoding="utf-8")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytest.importorskip("playwright")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium")
CLASSES, LABELS, RADII = ["bag", "boot", "coat"], [0, 2], 21
IMAGES = torch.randint(256, (2, 1, 28, 28), generator=torch.Generator().manual_seed(0))
TABLE = torch.randint(256, (2, 2, RADII, 2, 2, 3), generator=torch.Generator().manual_seed(1))
PIXELS = (
    "canvas => [...canvas.getContext('2d').getImageData(0, 0, 28, 28).data]"
    ".filter((_, i) => i % 4 == 0)"
)


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


def visit(browser, table=TABLE, wide=1000, **more):
    """A page with the script and these answers, once it has begun or failed."""
    packed = lambda values: base64.b64encode(bytes(values.flatten().tolist())).decode()  # noqa: E731
    given = {"images": packed(IMAGES), "table": packed(table), "side": 28, "begin": 8}
    given |= {"labels": json.dumps(LABELS), "classes": json.dumps(CLASSES)}
    given |= {"modes": json.dumps(["plain", "batch norm"])} | more
    about = " ".join(f"data-{name}='{value}'" for name, value in given.items())
    page = browser.new_page(viewport={"width": wide, "height": 900})
    page.set_content(f'<div class="radius-slider" {about}>words</div><script>{SCRIPT}</script>')
    page.wait_for_selector(".radius-slider[data-state]")
    return page


def shown(page):
    """The low and the high part as painted, (2, 28, 28) bytes."""
    painted = [page.locator("figure canvas").nth(i).evaluate(PIXELS) for i in (1, 2)]
    return torch.tensor(painted).view(2, 28, 28)


def wanted(which, radius, change=lambda part: part):
    """The same by the module."""
    pair = split(IMAGES[which : which + 1].double() / 255, radius)
    return torch.cat([change(part)[0] for part in pair]).clamp(0, 1) * 255


def answered(page):
    return [*map(int, page.locator(".radius-slider").get_attribute("data-answers").split())]


@pytest.mark.parametrize("radius", [0, 1, 8, 14, 20])
def test_the_parts_are_those_of_the_module(browser, radius):
    page = visit(browser)
    page.locator("input[type=range]").fill(str(radius))
    assert (shown(page) - wanted(0, radius)).abs().max() <= 0.51  # rounded to bytes
    page.locator("input[type=checkbox]").check()
    assert (shown(page) - wanted(0, radius, stretch)).abs().max() <= 0.51
    page.close()


def test_the_answers_are_those_of_the_table_for_each_control(browser):
    page = visit(browser)
    assert answered(page) == TABLE[0, 0, 8, :, 0].argmax(-1).tolist()
    page.locator("button").nth(1).click()
    assert answered(page) == TABLE[0, 0, 8, :, 1].argmax(-1).tolist()
    page.locator("select").select_option("1")
    page.locator("input[type=checkbox]").check()
    page.locator("input[type=range]").press("ArrowRight")
    assert answered(page) == TABLE[1, 1, 9, :, 1].argmax(-1).tolist()
    page.get_by_role("status").filter(has_text="At radius 9").wait_for()
    page.close()


def test_begins_with_the_network_that_is_named(browser):
    page = visit(browser, mode=1)
    assert page.locator("select").input_value() == "1"
    assert answered(page) == TABLE[1, 0, 8, :, 0].argmax(-1).tolist()
    page.close()


def test_controls_and_parts_share_a_phone_s_screen(browser):
    page = visit(browser, wide=360)
    page.add_style_tag(content="body { font: 18px/1.65 sans-serif }")  # about the book's
    top = page.locator("button").first.bounding_box()["y"]
    last = page.locator("label").last.bounding_box()
    assert last["y"] + last["height"] - top < 800 - 56 - 100  # the book's bar, the browser's
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()


def test_what_goes_wrong_is_told(browser):
    page = visit(browser, TABLE.flatten()[:50])
    assert "the images or the answers did not come whole" in page.inner_text("body")
    page.close()
