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


META = {
    "titles": {"A01": "acid", "B02": "gear", "C03": "lens"},
    "bound": 0.02,
    "examples": [
        {"anchor": "acid", "target": "lens", "ratings": {"A01": 0.5, "B02": 1, "C03": 0.5},
         "scores": {"A01": 0.3, "B02": 0.4, "C03": 0.31}},
    ],
}  # fmt: skip
LINES = ["[PAD]\t0", "[UNK]", "[CLS]\t1", "[SEP]\t2", "acid\t3", "gear\t4", "lens\t5"]
BEGIN = """async ([meta, lines, scores]) => {
    const worker = { postMessage: ({ id, rows }) => queueMicrotask(() =>
        worker.onmessage({ data: { id, score: rows && scores[rows.at(-2)] } })) };
    const files = { "meta.json": JSON.stringify(meta), "vocabulary.txt": lines.join("\\n") };
    const text = (model, name) => files[name];
    const bytes = () => new Uint8Array(8);
    const element = document.querySelector("main");
    await begin(element, { text, bytes, onnxWorker: async () => worker, status: {} });
    return Number(element.dataset.worst);
}"""


@pytest.mark.parametrize(
    ("scores", "worst"),
    [
        ((0.3, 0.4, 0.31), 0),
        ((0.31, 0.4, 0.31), 0.01),
        ((0.31, 0.39, 0.31), 0.02),  # a move is off by both
        ((0.4, 0.5, 0.41), 0.1),  # every score is, and no move
    ],
)
def test_the_live_page_tells_moves_from_rounding(browser, scores, worst):
    page = browser.new_page()
    catch = "globalThis.rebuiltLive = { start: (name, run) => { globalThis.begin = run; } };"
    page.set_content(f"<main></main><script>{catch}</script><script>{SCRIPT}</script>")
    made = dict(zip("345", scores, strict=True))
    assert page.evaluate(BEGIN, [META, LINES, made]) == pytest.approx(worst)
    told = page.locator(".pairs-told")
    assert "From" not in told.inner_text()
    page.get_by_role("button", name="B02").click()
    page.wait_for_function("document.querySelector('main').dataset.rests === 'yes'")
    by = scores[1] - scores[0]
    assert f"From A01 it moves up by {by:.2f}." in told.inner_text()
    page.select_option("#pairs-context", "A01")
    page.wait_for_function("document.querySelector('main').dataset.rests === 'yes'")
    assert f"From B02 it moves down by {by:.2f}." in told.inner_text()
    page.select_option("#pairs-context", "C03")
    page.wait_for_function("document.querySelector('main').dataset.rests === 'yes'")
    assert "From A01 it moves not more than rounding does." in told.inner_text()
    page.close()
