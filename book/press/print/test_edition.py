"""A book of some chapters, and the letters that every book brings."""

import re
import shutil

import pytest

from press.print import build as build_module
from press.print.build import book_of
from press.print.conftest import executed
from press.print.edition import Edition, elsewhere, is_current
from press.repository import HOME, Repository
from press.teach.workshop import paper

FONTS = HOME / "book" / "_static" / "fonts"
FIRST = ("book/welcome", "book/part_signals", "notebooks/signals/moving_mean/moving_mean")


@pytest.fixture
def two(small):
    """The small repository with a second chapter, `other`, that the pages link to."""
    shutil.copytree(small.home, small.home.with_name("other"))
    for path in small.home.with_name("other").glob("moving_mean.*"):
        path.rename(path.with_name(path.name.replace("moving_mean", "other")))
    toc = (small.root / "_toc.yml").read_text()
    row = "      - file: notebooks/signals/moving_mean/moving_mean\n"
    (small.root / "_toc.yml").write_text(toc.replace(row, row + "      - file: notebooks/signals/other/other\n"))
    executed(small)
    return small


def test_an_edition_holds_its_chapters_and_every_page_of_prose(two):
    edition = Edition(two.repository, two.repository.select(["moving_mean"]))
    assert [chapter.stem for chapter in edition.chapters] == ["moving_mean"]
    assert edition.toc_files == [*FIRST, "book/claims", "book/status"]
    assert edition.build != two.repository.build and edition.chapters[0].executed.is_file()


def test_links_to_what_an_edition_leaves_out_lead_to_the_published_book(two):
    edition = Edition(two.repository, two.repository.select(["moving_mean"]))
    text = "[a](../notebooks/signals/other/other.ipynb#x) [b](../notebooks/signals/moving_mean/moving_mean.ipynb)\n"
    card = ":link: ../notebooks/signals/other/other\n:link-type: doc\n"
    said = elsewhere(edition, text + card, "book/welcome.md")
    base = "https://github.com/example/small/notebooks/signals/other/other.html"
    assert said == (
        f"[a]({base}#x) [b](../notebooks/signals/moving_mean/moving_mean.ipynb)\n:link: {base}\n:link-type: url\n"
    )
    assert elsewhere(two.repository, text, "book/welcome.md") == text


def test_what_is_built_and_current_is_taken_and_only_the_chosen_chapters_are_built(two, built, monkeypatch):
    printed = []

    def copied(repository, source, side):
        printed.append(sorted(path.stem for path in source.glob("notebooks/*/*/*.ipynb")))
        shutil.copytree(built[1], side / "_build" / "html", ignore=shutil.ignore_patterns("_data", "_live", "*.pdf"))

    monkeypatch.setattr(build_module, "_jupyter_book", copied)
    monkeypatch.setenv("REBUILT_CHROMIUM", "")
    chosen = two.repository.select(["moving_mean"])
    html = book_of(two.repository, chosen)
    assert "editions" in html.parts and printed == [["moving_mean"]]
    assert book_of(two.repository, chosen) == html and len(printed) == 1, "nothing has changed since"
    (two.root / "book/welcome.md").write_text("# Welcome again\n")
    assert book_of(two.repository, chosen) == html and len(printed) == 2


def test_a_whole_book_that_is_current_is_taken(built, tmp_path):
    small, html = built
    repository = small.repository
    assert is_current(repository) and book_of(repository, repository.chapters) == html


def test_the_fonts_are_small_have_their_licence_and_are_all_that_the_styles_name():
    files = {path.name: path.stat().st_size for path in FONTS.glob("*.woff2")}
    assert len(files) >= 4 and sum(files.values()) <= 350_000
    styles = (FONTS / "fonts.css").read_text(encoding="utf-8")
    assert set(re.findall(r'url\("([^"]+)"\)', styles)) == set(files)
    assert styles.count("font-display: swap") == len(files) and "size-adjust" in styles
    assert "SIL OPEN FONT LICENSE Version 1.1" in (FONTS / "LICENSE").read_text(encoding="utf-8")
    assert "fonts/fonts.css" in Repository(HOME).config["sphinx"]["config"]["html_css_files"]


def test_a_page_that_lies_alone_holds_the_fonts_itself():
    held = paper.letters()
    assert held.count("data:font/woff2;base64,") == 9 and ".woff2" not in held
