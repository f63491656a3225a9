"""The gallery and the welcome page's numbers: of the small book, and of made-up cards as many as a full book has."""

import base64
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from helpers.show import Markup
from press import PressError
from press.conftest import code, comes
from press.face import gallery
from press.face.gallery import decided, numbers, picture, tile
from press.ledger import FINDINGS, Finding, Ledger, gather
from press.print import generated
from press.print.conftest import exact, executed, receipt
from press.repository import HOME, Repository
from press.server import site

STATIC = Path(__file__).resolve().parents[2] / "_static"


def drawn(alt):
    """A code cell whose run has drawn a figure."""
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGBA", (900, 450), (200, 0, 0, 255)).save(file, "PNG")
    source = base64.b64encode(file.getvalue()).decode()
    cell = code("plot.show(fig)")
    text = f'<figure class="rebuilt"><img src="data:image/png;base64,{source}" style="a" alt="{alt}"></figure>'
    cell.outputs = [nbformat.v4.new_output("display_data", data={"text/html": text})]
    return cell


def with_figures(small):
    """The small book whose notebook has drawn in two sections."""
    repository = executed(small)
    path = repository.chapters[0].executed
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[-9:-9] = [drawn("The first &quot;mean&quot;")]
    notebook.cells.append(drawn("The second"))
    nbformat.write(notebook, path)
    return repository


def test_the_picture_is_the_first_figure_of_the_section_that_the_card_names(small):
    repository = with_figures(small)
    assert 'alt="The first &quot;mean&quot;"' in picture(repository.chapters[0], "card")
    small.write_card(picture="Exercises")
    assert 'alt="The second"' in picture(small.repository.chapters[0], "card")
    small.write_card(picture="Nowhere")
    with pytest.raises(PressError, match="'Nowhere', which the card names as `picture`, has drawn no figure"):
        picture(small.repository.chapters[0], "card")


def test_a_card_s_picture_is_a_part_large_enough_to_read_and_lies_in_the_page(small):
    image = picture(with_figures(small).chapters[0], "card")
    assert 'src="data:image/webp;base64,' in image and len(image) < 20_000
    assert 'width="504" height="284"' in image, "of 900 × 450 pixels a part of 16 to 9, not all of it made small"
    assert 'width="720" height="360"' in picture(small.repository.chapters[0], "page")
    assert 'alt="The first &quot;mean&quot;"' in image


def test_a_card_shows_what_the_ledger_and_the_card_say(small):
    repository = with_figures(small)
    entry = gather(repository).entries[0]
    shown = gallery.written(
        "gallery", [tile(entry, "Signals", gallery.article(repository, entry.chapter), "https://colab")]
    )
    text = " ".join(re.sub(r"<[^>]+>", " ", shown).split())
    for words in ("P, 2020", "15 min", "beginner", "we measured 2,100 points/s . holds here"):
        assert words in text
    assert 'href="https://example.org/means"' in shown and "The article claims “more than 2 thousand" in text
    assert text.count("Smooth a stream") == 1 and "Moving mean" not in text.replace("Moving mean in Colab", "")
    assert 'aria-label="Claims: 1 holds here"' in shown and "Touch it" not in shown and "\n\n" not in shown


def test_a_card_s_line_is_a_sentence_with_the_noun_that_the_claim_gives(small):
    repository, claim = executed(small), small.card["claims"][0]
    small.write_card(claims=[claim | {"of": "{} for a mean of any width"}])
    sentence = gallery.claimed(gather(small.repository).findings[0])
    assert sentence == "The article claims 2,000 points/s for a mean of any width"
    goal = {**claim, "kind": "goal", "of": "{} on any machine"}
    goal.pop("slack")
    small.write_card(claims=[goal])
    executed(small)
    entry = gather(small.repository).entries[0]
    shown = tile(entry, "Signals", gallery.article(repository, entry.chapter))
    assert "Our goal: 2,000 points/s on any machine; we measured" in shown and "goal met" in shown
    assert "measured yet" not in shown, "a goal that was measured is not nothing"
    executed(small, busy_cores={"during": 1.2})
    shown = tile(gather(small.repository).entries[0], "Signals", gallery.article(repository, entry.chapter))
    assert "2,100 points/s</strong>, which decides nothing: the machine was disturbed. <span" in shown


def test_a_card_may_say_what_we_measured_in_words_of_its_own(small):
    small.write_card(claims=[small.card["claims"][0] | {"ours": "a rate of {} points"}])
    (entry,) = gather(executed(small)).entries
    shown = tile(entry, "Signals", gallery.article(small.repository, entry.chapter))
    assert "; we measured <strong>a rate of 2,100 points</strong>" in shown


def test_a_card_says_what_its_chapter_lets_a_reader_touch_and_leads_there(small):
    small.write_card(touch="turn the knob")
    repository = executed(small)
    entry = gather(repository).entries[0]
    shown = tile(entry, "Signals", gallery.article(repository, entry.chapter))
    assert 'moving_mean.html#touch-it">turn the knob</a>' in shown and 'data-touch="a figure that moves"' in shown


def test_a_card_tells_what_is_predicted_of_the_gpu_that_the_article_names(small, monkeypatch):
    repository = executed(small)
    entry = gather(repository).entries[0]
    monkeypatch.setattr(gallery, "of_the_named_card", lambda _: 2600.0)
    shown = tile(entry, "Signals", gallery.article(repository, entry.chapter))
    assert "Our formula predicts 2,600 points/s on the GPU that the article names." in shown


def test_a_gpu_s_number_is_measured_or_predicted_or_is_none(small, monkeypatch):
    (finding,) = gather(executed(small)).findings
    assert gallery.gpu_number([finding]) is None
    monkeypatch.setattr(gallery, "ledger_lines", lambda _: ["at most 3 points/s"])
    assert gallery.gpu_number([finding]) == "predicted"
    (finding,) = gather(executed(small, metrics={"mean_rate": exact(1.0) | {"device": "cuda:0"}})).findings
    assert gallery.gpu_number([finding]) == "measured"


def test_what_moves_on_the_front_page_comes_with_it(small):
    repository = executed(small)
    path = repository.chapters[0].executed
    notebook = nbformat.read(path, as_version=4)
    for name in ("first", "load-grid"):
        text = f"<div class='{name}'></div><script>1</script>"
        notebook.cells[6].outputs.append(nbformat.v4.new_output("display_data", data={"text/html": text}))
    nbformat.write(notebook, path)
    entries = gather(repository).entries
    shown = gallery.hero(entries, "moving_mean load-grid")
    assert "<div class='load-grid'></div><script>1</script>" in shown and "class='first'" not in shown
    assert "What is left of a stream" in shown and "rebuilt-live" not in shown
    assert gallery.hero(entries, "another load-grid") == "", "a book without it, whose first chapter drew nothing"


def test_every_card_of_the_book_has_level_touch_and_nouns_for_its_front_page_claims():
    lacking = []
    for chapter in Repository(HOME).chapters:
        nouns = {claim["id"] for claim in chapter.card["claims"] if "of" in claim}
        lacking += [(str(chapter), name) for name in chapter.card.get("hero", []) if name not in nouns]
        lacking += [(str(chapter), name) for name in ("level", "touch") if name not in chapter.card]
    assert lacking == []


def test_the_page_of_a_part_has_the_cards_of_its_chapters_alone(small):
    written = generated.markers(with_figures(small), gather(small.repository))
    assert "Smooth a stream" in written["gallery-signals"]() and "Smooth a stream" in written["gallery"]()


def claims(small, **metrics):
    """The entry of a small book whose run measured these; a claim of 2,000 stands for each, in this order."""
    found = {name: exact(value) for name, value in metrics.items()}
    repository = executed(small, metrics=found)
    entry = gather(repository).entries[0].chapter
    before = small.card["claims"][0]
    small.write_card(
        claims=[before | {"id": name, "metric": name} for name in metrics], hero=list(metrics)[:3] or ["rate"]
    )
    content = receipt(small, metrics=found)
    small.write("_build/receipts/moving_mean.cpu.json", json.dumps(content))
    entry.run_record.write_text(json.dumps({"receipts": {"moving_mean.cpu.json": content}, "cached": False}))
    return gather(small.repository)


def test_a_chapter_s_result_is_the_first_decided_claim_that_its_card_names(small):
    (entry,) = claims(small, bad=10.0, good=3000.0).entries
    assert decided(entry).found == "does not hold here"
    small.write_card(claims=entry.chapter.card["claims"], hero=["good"])
    assert decided(gather(small.repository).entries[0]).claim["id"] == "good"


def in_chapters(small, **metrics):
    """A ledger with each finding in a chapter of its own."""
    (entry,) = claims(small, **metrics).entries
    moved = [one._replace(chapter=replace(entry.chapter, stem=one.claim["id"])) for one in entry.findings]
    for one in moved:
        one.chapter.__dict__["card"] = {**entry.chapter.card, "hero": [one.claim["id"]]}
    return Ledger([entry._replace(findings=moved)])


def test_the_welcome_page_shows_what_did_not_come_true_first(small):
    ledger = in_chapters(small, good=3000.0, better=4000.0, bad=10.0, worse=1.0)
    assert [one.claim["id"] for one in numbers(ledger)] == ["bad", "good", "better"]
    shown = gallery.written("numbers", numbers(ledger))
    assert shown.count("<li>") == 3 and "does not hold here" in shown and "10 points/s" in shown


def test_one_of_a_chapter_and_only_what_its_card_names(small):
    assert len(numbers(claims(small, good=3000.0, better=4000.0, bad=10.0))) == 1
    assert gallery.written("numbers", numbers(claims(small))) == ""


def made_up(count):
    """Entries such as a book of that many chapters has: long words, all lengths, some live."""
    found, claim = [], {"metric": "rate", "value": 10, "unit": "multiplications/s", "better": "higher", "id": "c"}
    claim |= {"kind": "size", "of": "{}"}
    run = SimpleNamespace(content={"metrics": {"rate": {"value": 4.83e9, "unit": "multiplications/s"}}})
    for at in range(count):
        totals = {verdict: (at + number) % 4 for number, verdict in enumerate(FINDINGS)}
        title = "Replace an extraordinarily long-winded simulator with something" if at % 5 == 0 else "Find a heartbeat"
        card = {
            "short": f"Chapter of number {at}",
            "title": title,
            "sections": [{"title": "A", "minutes": 30 + 17 * (at % 7)}],
        }
        card |= {"level": ("beginner", "intermediate", "advanced")[at % 3], "live": at % 4 == 0, "touch": "turn it"}
        chapter = SimpleNamespace(card=card, document=f"#{at}", cells=[])
        finding = Finding(chapter, claim, "holds here", "same kind", ("supports", ""), run, "", [])
        found.append(SimpleNamespace(chapter=chapter, findings=[finding], totals=totals))
    return found


PARTS = ["Signals", "Speech", "Recommendation", "Vision", "Training", "Language", "Network"]
IMAGE = '<img width="480" height="270" alt="A made-up picture" src="data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22/%3E">'


def cards_of(count):
    """The gallery of so many made-up chapters."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gallery, "picture", lambda *_: Markup(IMAGE))
        found = enumerate(made_up(count))
        patch.setattr(gallery, "of_the_named_card", lambda _: None)
        patch.setattr(gallery, "ledger_lines", lambda finding: int(finding.chapter.document[1:]) % 5 == 0)
        source = {"url": "https://example.org/a", "publisher": "A Technical Blog", "year": 2021}
        return gallery.written(
            "gallery", [tile(entry, PARTS[at % 7], source, "https://example.org") for at, entry in found]
        )


@pytest.fixture(scope="module", params=[6, 30])
def page_of(request, browser, tmp_path_factory):
    """How many cards, and a function that opens a page of them in a window."""
    folder = tmp_path_factory.mktemp("gallery")
    for name in ("custom.css", "face.css", "gallery.js"):
        (folder / name).write_text((STATIC / name).read_text())
    styles = "".join(f'<link rel="stylesheet" href="{name}">' for name in ("custom.css", "face.css"))
    shown = f'<main class="bd-article"><h1>Book</h1>{cards_of(request.param)}</main>'
    head = f'<!doctype html><html lang="en" data-theme="light"><head><title>Book</title>{styles}'
    head += '<script src="gallery.js"></script>'
    (folder / "index.html").write_text(f'{head}<meta name="viewport" content="width=device-width"></head><body>{shown}')
    contexts = []
    with site(folder) as address:

        def opened(width=1400, anchor="", **how):
            contexts.append(browser.new_context(viewport={"width": width, "height": 900}, **how))
            page = contexts[-1].new_page()
            page.goto(f"{address}index.html{anchor}")
            return page

        yield request.param, opened
        for context in contexts:
            context.close()


def seen(page):
    """How many cards a reader sees."""
    return page.eval_on_selector_all("li", "all => all.filter(one => one.offsetParent !== null).length")


def test_a_gallery_looks_right_with_few_and_with_many_chapters(page_of):
    count, opened = page_of
    for width, most in ((1400, 6), (768, 3), (360, 1), (320, 1)):
        page = opened(width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width and seen(page) == count
        boxes = page.eval_on_selector_all(
            "li", "all => all.map(one => one.getBoundingClientRect()).map(b => [b.x, b.y, b.width, b.height])"
        )
        rows = {}
        for x, y, wide, high in boxes:
            rows.setdefault(round(y), []).append((x, wide, round(high)))
        assert max(len(row) for row in rows.values()) <= most and min(wide for _, _, wide, _ in boxes) >= 230
        assert all(len({high for *_, high in row}) == 1 for row in rows.values()), "cards of a row are equally high"
        inner = "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).length"
        assert page.eval_on_selector_all("li, li p", inner) == 0, "no word is cut off"


def test_chips_filter_and_the_address_keeps_them(page_of):
    count, opened = page_of
    page = opened()
    chip = page.get_by_role("button", name="Speech", exact=True)
    chip.click()
    assert comes(lambda: 0 < seen(page) < count and page.url.endswith("#part=Speech"))
    assert chip.get_attribute("aria-pressed") == "true"
    assert page.get_by_role("status").inner_text() == f"{seen(page)} of {count} chapters"
    again = opened(anchor="#part=Speech&strange=%3Cb%3E")
    assert comes(lambda: seen(again), seen(page)) == seen(page)
    chip.press("Enter")
    assert comes(lambda: seen(page), count) == count and comes(lambda: "#" not in page.url)
    page.get_by_role("button", name="a model in the page").click()
    page.get_by_role("button", name="advanced").click()
    cards = [one.chapter.card for one in made_up(count)]
    live = [card for card in cards if card["live"] and card["level"] == "advanced"]
    assert comes(lambda: seen(page), len(live)) == len(live)


def test_a_combination_that_no_chapter_meets_says_so_where_the_cards_would_be(page_of):
    _, opened = page_of
    page = opened(anchor="#level=beginner&touch=a model in the page&gpu=predicted&part=Speech")
    assert comes(lambda: seen(page), 0) == 0
    said = page.locator(".rebuilt-gallery > .none")
    assert said.is_visible() and "Topic Speech" in said.inner_text() and "Level beginner" in said.inner_text()
    assert page.locator(".rebuilt-gallery > :last-child").get_attribute("class") == "none"
    page.get_by_role("button", name="Speech", exact=True).click()
    assert comes(said.is_visible, False) is False


def test_without_a_script_the_gallery_is_a_plain_list(page_of):
    count, opened = page_of
    page = opened(java_script_enabled=False)
    assert page.locator(".rebuilt-chips").count() == 0 and page.locator("ul > li").count() == count
    assert all(one.is_visible() for one in page.locator("li").all())
