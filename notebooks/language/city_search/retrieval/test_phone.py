"""The phone's search in a browser is the module's, by pointer and by keys."""

import json
from itertools import accumulate

import bm25
import pytest
from helpers import data

from . import gov_faq, phone
from .confidence import Confidence
from .rankers import find, lexical

SURE = Confidence((4.0, 12.0, -2.0), 0.4)
ASKED = ["How does the virus spread?", "what about my dog", "zzz", "pregnant women at risk?"]


@pytest.fixture(scope="module")
def given():
    rows = [r for r in gov_faq.faqs(data.fetch("gov_faq")) if r.source in gov_faq.SHIPPED]
    return phone.packed(rows, SURE, ASKED)


def visit(browser, given, wide=1000):
    page = browser.new_page(viewport={"width": wide, "height": 900})
    page.set_content(phone.phone("words", given))
    page.wait_for_selector(".city-phone[data-state]")
    return page


def test_only_texts_that_may_be_passed_on_are_packed(given):
    assert {row[2] for row in given["rows"]} == {"CDC", "FDA", "ECDC"}
    row = gov_faq.Faq("q", "a", "", "Vermont", "", "Vermont", "")
    with pytest.raises(ValueError, match="Vermont"):
        phone.packed([row], SURE, [])
    assert "<p>words</p>" in phone.phone("words", given)
    assert len(phone.phone("words", given)) < 500_000


def test_the_browser_s_search_is_the_module_s(browser, given):
    page = visit(browser, given)
    questions = [row[0] for row in given["rows"]]
    scorer, owners = lexical(questions), [gov_faq.key(one) for one in questions]
    texts = [piece for row in given["rows"] for piece in row[1]]
    begins = [0, *accumulate(len(row[1]) for row in given["rows"])]
    chosen = []
    for text in ASKED:
        page.get_by_role("textbox").fill(text)
        page.get_by_role("textbox").press("Enter")
        shown = json.loads(page.locator(".city-phone").get_attribute("data-shown"))
        found = find(scorer(text), owners)
        assert shown[1] == pytest.approx(found.score, rel=1e-9)
        if found.score > 0:
            assert shown[0] == found.best and shown[2] == pytest.approx(found.lead, rel=1e-9)
            assert shown[3] == pytest.approx(SURE.of(found), rel=1e-6)
            own = bm25.scores(text, texts)[begins[found.best] : begins[found.best + 1]]
            chosen.append(int(own.argmax()))
            assert shown[4] == chosen[-1]
    assert any(chosen)
    page.close()


@pytest.mark.parametrize("wide", [320, 1000])
def test_an_answer_opens_its_page_by_keys_and_none_is_told(browser, given, wide):
    page = visit(browser, given, wide)
    see = page.get_by_role("button", name="See the page of CDC")
    see.focus()
    see.press("Enter")
    own = page.get_by_role("region", name="The page")
    assert (
        own.locator("mark").inner_text().strip() and "https://www.cdc.gov" in own.inner_text()
    )
    page.get_by_role("button", name="zzz").click()
    assert "I do not know that." in page.get_by_role("log").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= wide
    page.close()


def test_an_index_that_did_not_come_is_told(browser, given):
    page = visit(browser, {**given, "rows": []})
    assert "cannot be shown here: no index came" in page.inner_text("body")
    page.close()
