"""Menus, first screens, labels of folded cells and the search, from HTML and cells written by hand."""

import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from press.conftest import code, markdown
from press.face import opening, pages
from press.ledger import gather
from press.print import generated
from press.print.conftest import executed
from press.repository import HOME

THEME = '<nav class="bd-links bd-docs-nav" aria-label="Main"><div>the theme\'s</div></nav><p>after</p>'
CHAPTER = "notebooks/signals/moving_mean/moving_mean"


def test_the_menu_folds_its_parts_and_opens_the_one_of_the_page(small):
    written = pages.menu(small.repository)
    text = written(CHAPTER, THEME)
    assert "the theme's" not in text and text.endswith("</nav><p>after</p>")
    opened = re.findall(r'<details class="rebuilt-part"( open="")?><summary>(.*?)</summary>', text)
    assert opened == [(' open=""', "Signals"), ("", "Ledger")]
    assert '<a class="current reference internal" href="#" aria-current="page">Moving mean</a>' in text
    assert (
        'href="../../../book/part_signals.html">Overview<' in text
        and 'href="../../../book/claims.html">Claims<' in text
    )
    assert "open=" not in written("search", THEME) and 'href="book/welcome.html">Welcome<' in written("search", THEME)


ENTRY = '<li class="toc-h2 nav-item"><a class="nav-link" href="#a">The idea</a></li>'


def test_a_chapter_s_contents_are_numbered_with_minutes(small):
    (chapter,) = small.repository.chapters
    shown = pages.sections(chapter, ENTRY + ENTRY.replace("The idea", "Exercises"))
    plain = re.sub(r"<[^>]+>", "", shown)
    assert plain == "1 The idea 5 min2 Exercises 10 min"
    assert pages.sections(chapter, ENTRY) == ENTRY, "a page with other sections stays as it is"


PAGE = (
    '<h2>The idea<a class="headerlink" href="#a">#</a></h2><h2>Exercises<a class="headerlink" href="#b">#</a></h2>'
    '<i class="fa-list"></i> Contents\n'
)


def test_what_lies_beyond_the_core_path_is_marked_in_contents_headings_and_the_fit_card(small):
    sections = [{"title": "The idea", "minutes": 5, "further": True}, {"title": "Exercises", "minutes": 10}]
    small.write_card(sections=sections)
    (chapter,) = small.repository.chapters
    shown = pages.sections(chapter, PAGE + ENTRY + ENTRY.replace("The idea", "Exercises"))
    mark = pages.FURTHER
    assert shown.count(mark) == 2 and f"The idea {mark}<a class" in shown
    assert f"5 min</span> {mark}" in shown and "core 0 of 15 min" in shown
    executed(small)
    fit = generated.fit(gather(small.repository).entries[0], [])
    assert "0 on the core path, 5 further, 10 exercises" in fit


def test_a_further_section_is_found_under_its_own_heading():
    article = f'<h2>More {pages.FURTHER}<a class="headerlink" href="#m">#</a></h2>words'
    assert pages.indexed(article) == [["m", "More", "words"]]


def test_the_search_shows_prose_before_code():
    heading = '<h2>Idea<a class="headerlink" href="#i">#</a></h2>'
    term = '<dt>A beat<a class="headerlink" href="#b" title="Link">#</a></dt><dd>is found.</dd>'
    article = f"{heading}<div><pre><span>beat</span> = <span>1</span></pre></div>{term}"
    assert pages.indexed(article) == [["i", "Idea", "A beat is found. beat = 1"]]


@pytest.mark.parametrize(
    ("source", "tags", "wanted"),
    [
        ("a = 1\n\nb = 2", ("setup",), "Setup, 2 lines"),
        ("def check_a(fn):\n    assert fn", ("checker",), "Checker, 2 lines"),
        ("a = 1", ("solution",), "Solution, 1 line"),
        ("import a\nimport b\n\nfrom c import (\n    d,\n)", (), "Imports, 5 lines"),
        ("receipt.record('a', 1)\nreceipt.sizes(a=1)\nreceipt.write()", (), "Recording, 3 lines"),
        ("fig, ax = plot.figure()\nax.plot(x)\nplot.show(fig, alt='a')", (), "Figure, 3 lines"),
        (
            "found = search(stream, query)\nbest = found.argmin()\nfig, ax = plot.figure()\nplot.show(fig, alt='a')",
            (),
            "",
        ),
        ("show.source(f)", (), "Source, 1 line"),
        ("show.source(f)\nx = f(3)", (), ""),
        ("a = median(x)\nshow.md(\n    'It takes {a}.',\n    a=a,\n)", (), "Words, 5 lines"),
        ("a = median(x)\nb = median(y)\nshow.md('{a}, {b}', a=a, b=b)", (), ""),
        ("import a\nx = f(a)\ny = g(x)\nz = h(y)", (), ""),
        ("def median(values):\n    return None", ("stub",), ""),
        ('TIER = "auto"', ("parameters",), ""),
        ("%pip list\nimport a", (), ""),
    ],
)
def test_what_is_not_the_idea_is_folded_under_a_label(source, tags, wanted):
    assert opening.label(code(source, *tags)) == wanted


def test_a_cell_may_name_what_is_folded_in_it():
    cell = code("rows = table()\nshow(rows)")
    cell["metadata"]["fold"] = "The files as a table"
    assert opening.label(cell) == "The files as a table, 2 lines"


@pytest.mark.parametrize(
    ("source", "tag", "hidden"),
    [
        ("show.source(f)", "x", True),
        ("show.source(f)", "solution", False),
        ("a = 1", "checker", False),
        ("a", "x", False),
    ],
)
def test_the_switch_hides_plumbing_and_no_exercise(source, tag, hidden):
    assert opening.plumbing(code(source, tag)) is hidden


def test_text_is_never_folded():
    assert opening.label(markdown("import a", "setup")) == ""


def test_a_first_screen_has_article_question_and_what_to_touch_alone(small):
    small.write_card(touch="turn the knob")
    repository = executed(small)
    shown = opening.first_screen(repository, repository.chapters[0])
    assert shown.startswith('<p class="source">After <a href="https://example.org/means">On means</a>, P, 2020</p>')
    words = " ".join(re.sub(r"<[^>]+>", " ", shown.partition('<div class="rebuilt-first">')[2]).split())
    assert words == "What is left of a stream without its noise? Touch it: turn the knob"
    assert "<figure>" not in shown, "this one drew nothing"


ARTICLE = """<h1>Title<a class="headerlink" href="#title" title="Link">#</a></h1><p>A <em>heart</em>beat.</p>
<details class="admonition hide above-input"><summary>Setup, 2 lines</summary>secret</details>
<h2>A <code>wer</code> &amp; more<a class="headerlink" href="#more" title="Link">#</a></h2><td>one</td><td>two</td>"""


def test_what_the_machine_says_of_a_page_is_not_in_the_index():
    first = '<p class="source">After X</p>\n<div class="rebuilt-first"><div class="told"><p>Q?</p></div></div>'
    end = '<div class="rebuilt-about"><details><div>Colab</div></details></div></section>'
    article = f'<h1>T<a class="headerlink" href="#t">#</a></h1>{first}<p>words</p>{end}'
    assert pages.indexed(article) == [["t", "T", "words"]]


SECTIONS = [
    [0, "a", "Exchange", "Each process sends rows: an all-reduce, then two all-to-alls."],
    [0, "b", "All of it", "All the words to say, and all that we reduce."],
    [0, "c", "Caches", "An LRU cache keeps what was asked for last."],
    [0, "d", "Others", "Here stands: cache; LRU."],
]


@pytest.fixture(scope="module")
def searched(browser, tmp_path_factory):
    """A function that opens a small page of the search with some words, in the book's own style."""
    folder = tmp_path_factory.mktemp("search")
    static = Path(pages.__file__).resolve().parents[2] / "_static"
    script = Path(pages.__file__).with_name("search.js").read_text()
    index = f"rebuiltSearch({json.dumps({'pages': [['p.html', 'Page']], 'sections': SECTIONS})});"
    styles = "".join((static / name).read_text() for name in ("custom.css", "face.css"))
    body = f'<div id="search-results"></div><script>{script}{index}</script>'
    (folder / "search.html").write_text(f"<!doctype html><style>{styles}</style><body>{body}")
    page = browser.new_page()

    def found(words):
        page.goto(f"{(folder / 'search.html').as_uri()}?q={quote(words)}")
        marks = page.eval_on_selector_all("#search-results mark", "all => all.map(one => one.textContent)")
        links = page.eval_on_selector_all("#search-results a", "all => all.map(one => one.hash.slice(1))")
        return links, marks, page.locator("[role=status]").inner_text()

    yield found
    page.close()


@pytest.mark.parametrize("width", [1400, 360])
def test_the_button_that_loads_a_model_stands_clear_of_the_words_before_it(browser, width):
    page = browser.new_page(viewport={"width": width, "height": 400})
    page.set_content("<p class='still'><span>Type here.</span><button class='rebuilt-touch'>Touch it</button></p>")
    page.add_style_tag(path=HOME / "book/_static/face.css")
    words, button = (page.locator(one).bounding_box() for one in ("span", "button"))
    assert button["x"] >= words["x"] + words["width"] + 8 or button["y"] >= words["y"] + words["height"]
    assert button["x"] + button["width"] <= width
    page.close()


def test_the_search_keeps_hyphens_and_finds_a_word_with_and_without_them(searched):
    assert searched("allreduce")[:2] == (["a"], ["all-reduce"])
    assert searched("all-reduce")[:2] == (["a"], ["all-reduce"])
    assert searched("all-to-all")[:2] == (["a"], ["all-to-alls"]), "not each section that has all and to"


def test_the_search_finds_a_phrase_before_its_words_apart(searched):
    links, marks, said = searched("LRU cache")
    assert links == ["c", "d"] and marks[0] == "LRU cache"
    assert said == "1 section has the phrase “LRU cache”, 1 section has all of its words apart."
    assert searched("cache LRU")[0] == ["d", "c"], "words in this order"
    assert searched('"LRU cache"') == (links, marks, said), "who puts it into quotation marks means no others"
    assert searched("xyzzy")[2] == "No sections have the word “xyzzy”."


def test_the_index_holds_sections_without_what_is_folded():
    assert pages.indexed(ARTICLE) == [["title", "Title", "A heartbeat."], ["more", "A wer & more", "one two"]]
