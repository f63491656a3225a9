"""The page's two sliders in a browser: who is explored, keys, a phone, bad values."""

import json
from pathlib import Path

SCRIPT = Path(__file__).with_name("campaign_sliders.js").read_text(encoding="utf-8")


def film(name, mean, days, sd=1.0, draws=(2.0, -2.0)):
    return {
        "name": name,
        "genres": "g1",
        "days": days,
        "mean": mean,
        "sd": sd,
        "draws": [*draws],
    }


TOLD = {"places": 2, "weight": 0, "cutoff": 30, "most": 30}
TOLD["items"] = [
    film("a", 1.0, 300),
    film("b", 0.5, 300),
    film("c", 0.0, 2.0, sd=2.0, draws=(1.0, -1.0)),
    film("d", -9, 1),
]


def visit(browser, told, wide=900):
    page = browser.new_page(viewport={"width": wide, "height": 800})
    values = json.dumps(told).replace("'", "&#39;")
    div = f"<div class=\"campaign-sliders\" data-campaign='{values}'>words</div>"
    page.set_content(f"{div}<script>{SCRIPT}</script>")
    page.wait_for_selector(".campaign-sliders[data-state]")
    return page


def shown(page):
    return page.locator(".campaign-sliders").get_attribute("data-shown")


def test_weight_and_cut_off_move_the_list(browser):
    page = visit(browser, TOLD)
    assert shown(page) == "a b"
    page.get_by_label("Exploration weight").fill("1")
    assert shown(page) == "c a"  # 0 + 1 x 2 x 1
    page.get_by_label("Cut-off age").fill("2")
    assert shown(page) == "a b"  # c is exactly at the cut-off
    page.get_by_label("Cut-off age").fill("2.5")
    assert shown(page) == "c a"
    page.get_by_role("button", name="Draw again").click()
    assert shown(page) == "a b"
    page.get_by_role("status").filter(has_text="0 of 2 places").wait_for()
    page.close()


def test_keys_work_on_a_phone_and_nothing_is_cut_off(browser):
    page = visit(browser, TOLD, wide=320)
    page.get_by_label("Exploration weight").press("End")
    assert shown(page) == "c a"
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.close()


def test_missing_values_are_told(browser):
    page = visit(browser, TOLD | {"items": []})
    assert page.locator(".campaign-sliders").get_attribute("data-state") == "failed"
    assert "cannot be moved" in page.locator(".campaign-sliders").inner_text()
    page.close()
