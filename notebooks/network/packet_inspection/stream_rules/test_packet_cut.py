"""The verdicts of the slider are those of the matcher, and the slider shows them."""

import html
import json

import pytest

from . import compile, packet_cut

RULE = 'rule mark { strings: $a = "marked" condition: $a }'
FILE = b"..marked..."


@pytest.fixture(scope="module")
def matcher():
    return compile(RULE)[0]


@pytest.fixture(scope="module")
def cuts(matcher):
    return packet_cut.every_cut(matcher, FILE)


def test_alone_misses_inside_the_signature_and_nowhere_else(cuts):
    assert len(cuts) == len(FILE) - 1
    hidden = [cut for cut, one in enumerate(cuts, 1) if not one["alone"]]
    assert hidden == list(range(3, 8))


def test_carried_state_speaks_with_the_signatures_last_byte(cuts):
    assert {one["at"] for one in cuts} == {8}
    assert all(0 < one["state"] < 100 for one in cuts)


def test_a_file_without_the_signature_is_never_found(matcher):
    found = packet_cut.every_cut(matcher, b"markedd"[1:])
    assert not any(one["alone"] or one["at"] for one in found)


@pytest.fixture
def page(browser, matcher):
    page = browser.new_page(viewport={"width": 320, "height": 900})
    page.set_content(packet_cut.slider("words", matcher, FILE, b"marked"))
    page.wait_for_selector(".packet-cut[data-state=running]")
    yield page
    page.close()


def shown(page):
    return page.locator(".packet-cut").get_attribute("data-shown")


def test_keys_move_the_cut_out_of_the_signature_and_the_box_finds_it(page):
    cut = page.get_by_label("Bytes in the first packet")
    assert shown(page) == "5 alone Missed"
    for _ in range(3):
        cut.press("ArrowRight")
    assert shown(page) == "8 alone Found"
    cut.press("ArrowLeft")
    assert shown(page) == "7 alone Missed"
    assert "ends with 5 of the signature's 6 bytes" in page.get_by_role("status").inner_text()
    page.get_by_label("Carry the state").press("Space")
    assert shown(page) == "7 carried Found"
    assert "the verdict comes with byte 8" in page.get_by_role("status").inner_text()


def test_a_press_on_a_byte_cuts_before_it_on_a_narrow_screen(page):
    page.locator(".packet-cut [role=img] span").nth(9).click()
    assert shown(page) == "9 alone Found"
    page.locator(".packet-cut [role=img] span").first.click()
    assert shown(page) == "1 alone Found"  # no packet is empty
    told = page.get_by_role("img").get_attribute("aria-label")
    assert told == "11 bytes in two packets of 1 and 10; the signature is found"
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_verdicts_that_did_not_come_are_told(browser):
    page = browser.new_page()
    given = {"text": "abc", "signature": [0, 1], "cuts": []}
    about = html.escape(json.dumps(given))
    script = packet_cut.SCRIPT.read_text(encoding="utf-8")
    page.set_content(
        f'<div class="packet-cut" data-cuts="{about}"></div><script>{script}</script>'
    )
    assert "cannot be shown here: the verdicts did not come" in page.inner_text("body")
    page.close()
