"""The page's gates are those of `passes`, and the page shows them."""

import html
import json
import re

import gate_page
import pytest
import torch
from gate_curves import passes


@pytest.fixture(scope="module")
def made():
    generator = torch.Generator().manual_seed(0)
    scores = {"one": torch.rand(3, 40, generator=generator), "two": torch.zeros(3, 40)}
    truth = torch.zeros(3, 40).bool()
    truth[:, 10:13] = True
    seen = torch.ones(3, 40).bool()
    scores["two"][0, 11] = 1
    return gate_page.player("words", scores, seen, truth, {"first": 0, "last": 2}), scores


def test_a_frame_passes_from_the_step_that_lets_it(made):
    given = json.loads(html.unescape(re.search(r'data-gates="([^"]*)"', made[0])[1]))
    assert given["clips"] == ["first", "last"] and given["plate"][0][10:13] == [1, 1, 1]
    assert (
        given["seen"] == given["plate"]
    )  # it fires everywhere; beside the event that finds nothing
    for name, scores in made[1].items():
        for step in gate_page.STEPS:
            got = [[one <= step for one in row] for row in given["gates"][name]]
            assert got == passes(scores, step / 1000)[[0, 2]].tolist()


@pytest.fixture
def page(browser, made):
    page = browser.new_page(viewport={"width": 320, "height": 900})
    page.set_content(made[0])
    page.wait_for_selector(".gate-page[data-state=running]")
    yield page
    page.close()


def shown(page):
    return page.locator(".gate-page").get_attribute("data-shown")


def test_keys_move_the_share_and_the_choice_takes_another_gate(page):
    share = page.get_by_label("Share of frames that pass")
    for _ in range(4):
        share.press("ArrowLeft")
    assert shown(page) == "two 5 found missed"
    share.press("End")
    assert shown(page) == "two 1000 found found"
    assert "100 % of all frames pass; 0 of 2" in page.get_by_role("status").inner_text()
    page.get_by_role("combobox").select_option("one")
    assert shown(page).startswith("one 1000")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_scores_that_did_not_come_are_told(browser):
    page = browser.new_page()
    given = html.escape(
        json.dumps({"steps": [1], "clips": [], "plate": [], "seen": [], "gates": {}})
    )
    script = gate_page.SCRIPT.read_text(encoding="utf-8")
    page.set_content(
        f'<div class="gate-page" data-gates="{given}"></div><script>{script}</script>'
    )
    assert "cannot be shown here: the scores did not come" in page.inner_text("body")
    page.close()
