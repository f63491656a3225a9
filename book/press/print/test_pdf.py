"""What is added to the file that Chromium has printed: facts, whole titles, page numbers in the contents."""

import pytest
from pypdf import PdfReader

from press import PressError
from press.print import answers, page_numbers, pdf

BREAK = '<div style="break-after: page"></div>'
LONG = "A title so long that the line in which it stands ends in the midst of it, and then goes on for a while"


@pytest.fixture
def printed(small, browser, tmp_path):
    """A function: the path of the small book's pages printed as a sheet of contents and a page each."""

    def printed(title="Smooth a stream"):
        anchors = [*map(pdf._id, small.repository.toc_files), answers.ANCHOR]
        titles = [LONG, "Signals", title, "Claims", "Status", answers.TITLE]
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
    pdf._finish(small.repository, path, [])
    assert path.read_bytes().startswith(before), "what Chromium wrote stays, what changes is added"
    made = PdfReader(path)
    lines = made.pages[0].extract_text().splitlines()
    assert [int(line) for line in lines if line.isdigit()] == [2, 3, 4, 5, 6, 7]
    assert sorted(page_numbers.targets(made).values()) == [2, 3, 4, 5, 6, 7]
    assert "Smooth a stream" in made.pages[0].extract_text() and "Claims" in made.pages[4].extract_text()
    assert "/StructTreeRoot" in made.root_object and len(made.pages[0]["/Annots"]) >= 6


def test_a_title_that_goes_over_two_lines_keeps_its_space_in_the_outline(small, printed):
    path = printed()
    pdf._finish(small.repository, path, [f" {LONG}\n"])
    made = PdfReader(path)
    assert pdf.outline(made) == [LONG, "Signals", "Smooth a stream", "Claims", "Status", answers.TITLE]
    assert made.metadata.title == "A small book" and made.metadata.subject == small.repository.url


def test_a_file_without_a_chapter_in_its_outline_is_refused(small, printed):
    with pytest.raises(PressError, match="its outline lacks .*moving_mean"):
        pdf._finish(small.repository, printed("Another title"), [])
