"""The one document that Chromium prints, and what is added to its file: facts, whole titles, page numbers."""

import pytest
from pypdf import PdfReader

from press import PressError
from press.print import pdf
from press.server import site

BREAK = '<div style="break-after: page"></div>'
LONG = "A title so long that the line in which it stands ends in the midst of it, and then goes on for a while"


@pytest.fixture
def printed(small, browser, tmp_path):
    """A function: the path of the pages of the small book's part, printed as a sheet of contents and a page each."""

    def printed(title="Smooth a stream"):
        anchors = [*map(pdf.anchor, pdf.pages(small.repository, "Signals")), pdf.ANSWERS["anchor"]]
        titles = [LONG, title, pdf.ANSWERS["title"]]
        rows = "".join(f'<li><a href="#{one}">{said}</a></li>' for one, said in zip(anchors, titles, strict=True))
        pages = (f'<section id="{one}"><h1>{said}</h1></section>' for one, said in zip(anchors, titles, strict=True))
        page = browser.new_page()
        page.set_content(f'<html lang="en"><ol>{rows}</ol>{BREAK}{BREAK.join(pages)}</html>')
        path = tmp_path / "book.pdf"
        page.pdf(path=path, **pdf.LAYOUT | {"footer_template": "<span></span>"})
        page.close()
        return path

    return printed


def test_each_entry_of_the_contents_has_the_page_to_which_it_leads(small, printed):
    path = printed()
    before = path.read_bytes()
    pdf.finish(small.repository, path, [], "Signals")
    assert path.read_bytes().startswith(before), "what Chromium wrote stays, what changes is added"
    made = PdfReader(path)
    lines = made.pages[0].extract_text().splitlines()
    assert [int(line) for line in lines if line.isdigit()] == [2, 3, 4]
    assert sorted(pdf.targets(made).values()) == [2, 3, 4]
    assert "Smooth a stream" in made.pages[0].extract_text() and "Smooth a stream" in made.pages[2].extract_text()
    assert "/StructTreeRoot" in made.root_object and len(made.pages[0]["/Annots"]) >= 3


def test_a_title_that_goes_over_two_lines_keeps_its_space_in_the_outline(small, printed):
    path = printed()
    pdf.finish(small.repository, path, [f" {LONG}\n"], "Signals")
    made = PdfReader(path)
    assert pdf.outline(made) == [LONG, "Smooth a stream", pdf.ANSWERS["title"]]
    assert made.metadata.title == "A small book: Signals" and made.metadata.subject == small.repository.url


def test_a_file_without_a_chapter_in_its_outline_is_refused(small, printed):
    with pytest.raises(PressError, match="its outline lacks .*moving_mean"):
        pdf.finish(small.repository, printed("Another title"), [], "Signals")


PAGES = {
    "book/a": """<h1>A &amp; B<a class="headerlink" href="#a">#</a></h1><p id="x">a</p>
<a href="../notebooks/c.html#x">in</a><a href="../_data/c.csv">data</a><a href="https://example.org/">out</a>
<details class="hide above-input"><summary>Setup</summary><p>code</p></details><script>1</script>""",
    "notebooks/c": """<h1>C</h1><section><h2>The idea</h2><div class="rebuilt-act">
<div class="rebuilt-act-question" id="q"><p>Which?</p></div><ol><li>this</li></ol>
<details class="rebuilt-act-answer"><summary>Answer</summary>because</details></div></section>
<section><h2>Exercises</h2><section><h3>Take the median</h3><p id="x">task</p>
<details><summary>Hint 1</summary>sort</details><details><summary>Aside</summary>kept</details>
<div class="cell tag_stub">stub</div><div class="cell tag_solution">sorted(values)</div></section></section>""",
}


@pytest.fixture
def document(small, browser, tmp_path):
    """A page of the browser with the one document of two pages, and the headings that come back."""
    for name, text in PAGES.items():
        path = tmp_path / "site" / f"{name}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'<html lang="en"><nav>menu</nav><article class="bd-article">{text}</article></html>')
    book = {"title": "T", "author": "A", "release": "R", "pages": [*PAGES], "answers": pdf.ANSWERS}
    book["site"] = "https://book.org/b/"
    book["parts"] = [["", ["book/a"]], ["Signals", ["notebooks/c"]], ["Empty", ["no"]], ["", [pdf.ANSWERS["anchor"]]]]
    with site(tmp_path / "site") as address:
        page = browser.new_page()
        page.goto(f"{address}book/a.html")
        yield page, page.evaluate(pdf.SCRIPT.read_text(), book)
        page.close()


def test_hints_and_solutions_leave_their_exercise_and_a_link_leads_to_them(document):
    page, _ = document
    own, end = page.locator("#notebooks-c"), page.locator(f"#{pdf.ANSWERS['anchor']}")
    assert own.text_content().count("kept") == own.text_content().count("stub") == 1
    assert "sort" not in own.text_content() and "code" in page.locator("#book-a").text_content()
    assert own.get_by_role("link").last.get_attribute("href") == "#notebooks-c--answers-2"
    assert end.locator("#notebooks-c--answers-2").text_content() == "Take the median"
    assert end.inner_html().index("Hint 1") < end.inner_html().index("sorted(values)")
    assert end.locator("h2").all_text_contents() == ["C"], "a page without exercises adds nothing"


def test_the_answer_of_an_act_stands_at_the_end_below_its_question(document):
    page, _ = document
    own, end = page.locator("#notebooks-c"), page.locator(f"#{pdf.ANSWERS['anchor']}")
    assert "Which?" in own.inner_text() and "this" in own.inner_text() and "because" not in own.inner_text()
    assert own.get_by_role("link").first.get_attribute("href") == "#notebooks-c--answers-1"
    assert "C The idea Which? Answer because Take the median" in " ".join(end.inner_text().split())


def test_the_document_has_its_contents_its_links_inside_and_everything_open(document):
    page, headings = document
    assert headings == ["Contents", "A & B", "C", "The idea", "Exercises", "Take the median"] + [
        pdf.ANSWERS["title"],
        "C",
        "The idea",
        "Take the median",
    ]
    links = page.eval_on_selector_all("nav a, #book-a a", "all => all.map((one) => one.getAttribute('href'))")
    inside = ["#book-a", "#notebooks-c", f"#{pdf.ANSWERS['anchor']}", "#notebooks-c--x"]
    assert links == [*inside, "https://book.org/b/_data/c.csv", "https://example.org/"]
    assert page.locator("nav .part").all_text_contents() == ["Signals"] and page.locator("script").count() == 0
    assert page.locator("details:not([open]), summary:text('Setup')").count() == 0
