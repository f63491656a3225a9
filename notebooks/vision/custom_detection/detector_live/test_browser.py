"""The live detector in the built page, in a browser with no network: faults, mends, an own
photo, the keyboard.
"""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

HTML = Path(__file__).resolve().parents[4] / "_build" / "html"
PAGE = "notebooks/vision/custom_detection/custom_detection.html"
pytestmark = pytest.mark.skipif(
    not (HTML / PAGE).is_file(), reason="the page is not built: make book"
)


@pytest.fixture(scope="module")
def visited(browser, site):
    """(page, what it asked other servers for) of one visit, once the first photo is
    searched.
    """
    with site(HTML) as home:
        page, asked = browser.new_page(viewport={"width": 1400, "height": 900}), []
        page.add_init_script("localStorage.setItem('mode', 'light')")
        page.on("request", lambda one: asked.append((one.method, one.url)))
        page.route(
            lambda url: not url.startswith((home, "data:", "blob:")), lambda r: r.abort()
        )
        page.goto(home + PAGE)
        page.locator(".rebuilt-live .rebuilt-touch").click()
        page.wait_for_selector(".rebuilt-live[data-state='running']", timeout=90_000)
        yield page, asked


def rest(page):
    """(cells found, boxes drawn, what is said) once the page rests."""
    page.wait_for_selector(".rebuilt-live[data-rests='yes']")
    live = page.locator(".rebuilt-live")
    told = page.locator(".cells-summary").inner_text()
    right, boxes = (int(live.get_attribute(name) or 0) for name in ("data-right", "data-boxes"))
    return right, boxes, told


@pytest.fixture
def page(visited):
    """The page with its controls put back."""
    found, _ = visited
    found.evaluate("document.querySelector('.rebuilt-live').dataset.rests = 'no'")
    found.locator(".rebuilt-live").get_by_role("button", name="Reset").click()
    rest(found)
    return found


def press(page, label, key):
    page.evaluate("document.querySelector('.rebuilt-live').dataset.rests = 'no'")
    page.get_by_label(label).press(key)
    return rest(page)


def test_the_network_gives_pytorch_s_numbers(page):
    assert float(page.locator(".rebuilt-live").get_attribute("data-worst")) < 1e-3


def test_a_turned_photo_fails_and_the_tag_mends_it_by_keys(page):
    whole, _, _ = rest(page)
    turned, _, told = press(page, "The camera was held", "ArrowDown")
    mended, _, after = press(page, "Turn the pixels as the tag says", " ")
    assert whole >= 5 and turned <= whole / 3 and mended == whole
    assert "tag says" in told and "tag says" not in after


def test_a_shrunk_photo_fails_and_enlarging_gives_some_back(page):
    whole, _, _ = rest(page)
    shrunk, _, told = press(page, "Longer side resized to", "Home")
    mended, _, _ = press(page, "Enlarge to the size that the network knows", " ")
    assert shrunk < mended <= whole + 1 and "smaller" in told


def test_an_own_photo_is_searched_and_goes_nowhere(visited, page):
    _, asked = visited
    before = len(asked)
    noise = np.random.default_rng(0).integers(0, 255, (300, 400, 3), dtype=np.uint8)
    kept, exif = io.BytesIO(), Image.Exif()
    exif[274] = 6
    Image.fromarray(noise).save(kept, "JPEG", exif=exif)
    page.evaluate("document.querySelector('.rebuilt-live').dataset.rests = 'no'")
    files = {"name": "mine.jpg", "mimeType": "image/jpeg", "buffer": kept.getvalue()}
    page.get_by_label("Or your own photo").set_input_files(files)
    _, _, told = rest(page)
    assert "tag says" in told and "Boxes" in told
    assert [one for one in asked[before:] if not one[1].startswith("blob:")] == []


def test_what_is_no_photo_is_told(page):
    page.evaluate("document.querySelector('.rebuilt-live').dataset.rests = 'no'")
    files = {"name": "mine.jpg", "mimeType": "image/jpeg", "buffer": b"no photo"}
    page.get_by_label("Or your own photo").set_input_files(files)
    assert "mine.jpg is no picture" in rest(page)[2]


@pytest.mark.parametrize("width", [320, 360, 1400])
def test_nothing_is_cut_off(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    out = page.evaluate("""() => [...document.querySelectorAll(".cells-app *")]
      .filter((one) => one.getBoundingClientRect().right > innerWidth + 1).length""")
    page.set_viewport_size({"width": 1400, "height": 900})
    assert out == 0
