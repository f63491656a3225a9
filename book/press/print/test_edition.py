"""A book of some chapters, and the letters that every book brings."""

import re
import shutil

import pytest

from press import run
from press.cli import main
from press.print import build as build_module
from press.print.build import book_of
from press.print.conftest import executed
from press.print.edition import Edition, elsewhere
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
    said = elsewhere(edition, text, "book/welcome.md")
    base = "https://github.com/example/small/notebooks/signals/other/other.html"
    assert said == f"[a]({base}#x) [b](../notebooks/signals/moving_mean/moving_mean.ipynb)\n"
    assert elsewhere(two.repository, text, "book/welcome.md") == text


@pytest.fixture
def printed(built, monkeypatch):
    """The names of the chapters in each source that Jupyter Book is handed; it makes the pages of `built`."""
    handed = []

    def copied(repository, source, side):
        handed.append(sorted(path.stem for path in source.glob("notebooks/*/*/*.ipynb")))
        shutil.copytree(built[1], side / "_build" / "html", ignore=shutil.ignore_patterns("_data", "_live", "*.pdf"))

    monkeypatch.setattr(build_module, "_jupyter_book", copied)
    monkeypatch.setenv("REBUILT_CHROMIUM", "")
    return handed


def test_a_book_of_some_chapters_lies_apart_and_the_whole_book_stays(two, printed, capsys):
    two.write("_build/html/index.html", "the whole book")
    assert main(["--root", str(two.root), "build", "--no-run", "moving_mean"]) == 0
    assert printed == [["moving_mean"]] and "_build/editions/moving_mean/html/index.html" in capsys.readouterr().out
    assert (two.root / "_build/editions/moving_mean/html/book/welcome.html").is_file()
    assert (two.root / "_build/html/index.html").read_text() == "the whole book"


def test_only_the_chosen_chapters_run_before_their_book_is_printed(two, printed, monkeypatch):
    asked = []
    monkeypatch.setattr(run, "run", lambda repository, names, options: asked.append(names) or [])
    assert main(["--root", str(two.root), "build", "moving_mean"]) == 0
    assert asked == [["moving_mean"]] and printed == [["moving_mean"]]


def test_a_workshop_s_book_is_of_its_chapters_or_the_book_as_it_is(two, printed):
    chosen = two.repository.select(["moving_mean"])
    assert book_of(two.repository, chosen, as_built=True) == two.root / "_build/html" and printed == []
    assert book_of(two.repository, chosen) == two.root / "_build/editions/moving_mean/html"
    assert printed == [["moving_mean"]]


def test_the_fonts_are_small_have_their_licence_and_are_all_that_the_styles_name():
    files = {path.name: path.stat().st_size for path in FONTS.glob("*.woff2")}
    assert len(files) >= 4 and sum(files.values()) <= 350_000
    styles = (FONTS / "fonts.css").read_text(encoding="utf-8")
    assert set(re.findall(r'url\("([^"]+)"\)', styles)) == set(files)
    assert styles.count("font-display: optional") == len(files) and "size-adjust" in styles
    assert "SIL OPEN FONT LICENSE Version 1.1" in (FONTS / "LICENSE").read_text(encoding="utf-8")
    assert "fonts/fonts.css" in Repository(HOME).config["sphinx"]["config"]["html_css_files"]


def test_a_page_that_lies_alone_holds_the_fonts_itself():
    held = paper.letters()
    assert held.count("data:font/woff2;base64,") == 9 and ".woff2" not in held
