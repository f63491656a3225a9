"""The hash in the page: the buckets of the script are Python's; keys, touch, 360 pixels."""

import pytest

from . import spec
from .buckets import SIZES, Buckets

COUNTS = {
    "US>CA>807": 512,
    "GB": 73,
    "FR>Île-de-France>très long": 2,
    "日本>東京": 3,
    "</script>": 1,
}
COUNTS |= {f"US>{a}{b}>{500 + 7 * n}": n for n, a in enumerate("ACFGIKMNOT") for b in "AEKLY"}


@pytest.fixture(scope="module")
def page(browser):
    """The output in a narrow window of a browser, and what went wrong there."""
    made, wrong = browser.new_page(viewport={"width": 360, "height": 640}), []
    made.on("pageerror", lambda error: wrong.append(str(error)))
    made.set_content(f"<body>{Buckets(COUNTS, 'GB')._repr_html_()}</body>")
    yield made
    made.close()
    assert not wrong


def test_the_scripts_buckets_are_those_of_the_engines(page):
    texts = [*COUNTS, "", "x", "𝔘𝔫𝔦>code", "US>CA>80712345678", "ÿ" * 30]
    found = page.evaluate(
        "([texts, sizes]) => texts.map((text) => sizes.map((size) => "
        "document.getElementById('bucket-touch').bucketOf(text, size)))",
        [texts, SIZES],
    )
    keys = [spec.hash32(spec.text_key(text)) for text in texts]
    assert found == [[key % size for size in SIZES] for key in keys]


def test_typing_and_keys_move_the_bucket_and_its_company(page):
    place, many = page.locator("[data-part=text]"), page.locator("[data-part=size]")
    place.fill("US>CA>807")
    for _ in SIZES:
        many.press("ArrowLeft")
    key = spec.hash32(spec.text_key("US>CA>807"))
    buckets = [spec.hash32(spec.text_key(text)) for text in COUNTS]
    assert page.locator("[data-part=many]").text_content() == "4"
    for at, size in enumerate(SIZES):
        root = page.locator("#bucket-touch")
        assert root.get_attribute("data-bucket") == str(key % size)
        company = sum(one % size == key % size for one in buckets) - 1
        assert root.get_attribute("data-shared") == str(company)
        assert many.get_attribute("aria-valuetext") == f"{size} buckets"
        if at + 1 < len(SIZES):
            many.press("ArrowRight")
    place.fill("a place that no log has")
    assert "not in the log" in page.locator("[data-part=told]").text_content()


def test_nothing_is_cut_off_at_360_pixels_and_a_finger_hits_the_controls(page):
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for part in ("text", "size"):
        assert page.locator(f"[data-part={part}]").bounding_box()["height"] >= 32
