"""The page's board: what is known is what living cameras told, and keys do all."""

import html
import json

import pytest
from event_scores import Event

from . import camera_kill

EVENTS = {
    "A": [Event("on block", 60, 66, "A"), Event("stairs start", 200, 210, "A")],
    "B": [Event("on block", 63, 70, "B"), Event("fuel start", 500, 512, "B")],
}


def predict(now, known, living):
    chance = 0.5 if "fuel start" in known else 0.495
    return now / 60 + len(known), 1.0, 90.0 - 10 * len(living), chance


@pytest.fixture(scope="module")
def given():
    return camera_kill.moments(EVENTS, 1000, predict)


def test_what_was_told_before_a_camera_died_stays_known():
    assert set(camera_kill.known(EVENTS, {}, 1000)) == {
        "on block",
        "stairs start",
        "fuel start",
    }
    assert set(camera_kill.known(EVENTS, {"B": 511}, 1000)) == {"on block", "stairs start"}
    assert set(camera_kill.known(EVENTS, {"B": 512}, 1000)) > {"fuel start"}
    assert set(camera_kill.known(EVENTS, {"A": 0}, 80)) == {"on block"}
    assert camera_kill.known(EVENTS, {"A": 0, "B": 0}, 1000) == {}
    assert camera_kill.known(EVENTS, {}, 65) == {}


def test_every_place_of_both_sliders_has_its_prediction(given):
    steps = given["steps"]
    assert steps == 6 and len(given["predicted"]) == sum((n + 2) ** 2 for n in range(steps))
    assert given["predicted"]["5 6 6"] == [18.0, 1.0, 70.0, 0.5]  # both live, three events
    assert given["predicted"]["5 6 1"] == [17.0, 1.0, 80.0, 0.495]  # B died at minute 3
    assert given["predicted"]["5 0 0"] == [15.0, 1.0, 90.0, 0.495]


@pytest.fixture
def page(browser, given):
    page = browser.new_page(viewport={"width": 320, "height": 900})
    page.set_content(camera_kill.board("words", given))
    page.wait_for_selector(".camera-kill[data-state=running]")
    yield page
    page.close()


def shown(page):
    return page.locator(".camera-kill").get_attribute("data-shown").split()


def test_keys_kill_a_camera_and_what_it_had_told_stays(page):
    now = page.get_by_role("slider")
    assert shown(page)[:4] == ["9", "none", "3", "0"]
    now.press("Home")
    page.get_by_role("button", name="Kill camera B").press("Enter")
    assert shown(page)[:4] == ["0", "B", "0", "0"]
    now.press("End")
    assert shown(page)[:4] == ["15", "B", "2", "1"] and shown(page)[4] == "17"
    assert "Alert" not in page.get_by_role("status").inner_text()
    assert "nobody: the camera was dead" in page.locator("tbody").inner_text()
    page.get_by_role("button", name="Camera B: dead from minute 0; revive").press("Space")
    assert shown(page)[:4] == ["15", "none", "3", "0"]
    assert "Alert: more likely than not" in page.get_by_role("status").inner_text()
    page.get_by_role("button", name="Kill camera B").press("Enter")
    assert shown(page)[:4] == ["15", "B", "3", "0"]  # all was told before
    assert "Camera B is dead. 3 events are known" in page.get_by_role("status").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_words_stand_without_a_script_and_missing_events_are_told(browser):
    assert "<p>words</p>" in camera_kill.board("words", {})
    page = browser.new_page()
    about = html.escape(json.dumps({"step": 3, "steps": 6, "events": {}, "predicted": {}}))
    script = camera_kill.SCRIPT.read_text(encoding="utf-8")
    page.set_content(
        f'<div class="camera-kill" data-board="{about}"></div><script>{script}</script>'
    )
    assert "cannot be shown here: no events came" in page.inner_text("body")
    page.close()
