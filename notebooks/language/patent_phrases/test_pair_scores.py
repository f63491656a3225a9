"""The page's tokeniser, in a browser: equal to the library's on every phrase of the data."""

from pathlib import Path

import patent_pairs as pp
import phrase_encoder as pe
import pytest
from helpers import data

SCRIPT = Path(__file__).with_name("pair_scores.js").read_text(encoding="utf-8")
ODD = [
    "Gehäuse",
    "AC motor",
    "a\u00a0b",
    "1,2-dichloro (x)$y",
    "мяч",
    "球形x",
    "x" * 101,
    "\u200bzero",
]
ODD += [
    "İstanbul",
    "naïve Café",
    "ﬁber",
    "½ inch",
    "a_b",
    "ⅷ",
    "한국어",
    "e\u0301t\u00e9",
    "don't",
    "",
]


@pytest.fixture(scope="module")
def page(browser):
    words = sorted(pe.tokeniser().get_vocab().items(), key=lambda item: item[1])
    made = browser.new_page()
    made.set_content(f"<script>{SCRIPT}</script>")
    made.evaluate("lines => { globalThis.tokens = wordPieces(lines); }", [w for w, _ in words])
    yield made
    made.close()


def same(page, phrases):
    found = page.evaluate("phrases => phrases.map(tokens.encode)", phrases)
    wanted = [one.ids[1:-1] for one in pe.tokeniser().encode_batch(phrases)]
    return [phrase for phrase, a, b in zip(phrases, found, wanted, strict=True) if a != b]


def test_the_pages_tokeniser_is_the_librarys_on_odd_texts(page):
    assert same(page, ODD) == []


def test_the_pages_tokeniser_is_the_librarys_on_every_phrase_of_the_data(page):
    try:
        pairs = pp.read(data.fetch("patent_phrases", ["train.csv"]) / "train.csv")
    except data.DataError as error:
        pytest.skip(f"the data set cannot be had: {error}")
    phrases = sorted({*pairs.target.tolist(), *pairs.anchor.tolist(), *pp.titles().values()})
    assert len(phrases) > 29_000
    assert same(page, phrases) == []
