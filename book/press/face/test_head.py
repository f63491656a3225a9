"""What machines read of pages: JSON-LD that says what the card says, a picture of the page's own, titles said once."""

import base64
import io
import json
import re

import nbformat
import pytest
from PIL import Image

from press.face import pages
from press.print.conftest import executed
from press.repository import HOME, Repository
from press.teach import length

BOOK, SCRIPT = HOME / "_build" / "html", re.compile(r'<script type="application/ld\+json">(.*?)</script>', re.DOTALL)
REAL = Repository(HOME)
BUILT = [chapter for chapter in REAL.chapters if (BOOK / f"{chapter.document}.html").is_file()]
needs_book = pytest.mark.skipif(not BUILT, reason="the book is not built: make book")


def read(page):
    """The one thing that a page says of itself to machines."""
    (told,) = SCRIPT.findall(page)
    return json.loads(told)


def agrees(told, repository, chapter):
    """Whether what is told is what the card says."""
    card, cited = chapter.card, told["citation"]
    assert (told["@context"], told["@type"]) == ("https://schema.org", "LearningResource")
    names = {"name": "title", "teaches": "objectives", "competencyRequired": "prerequisites", "keywords": "interests"}
    assert {name: told[name] for name in names} == {name: card[own] for name, own in names.items()}
    assert told["timeRequired"] == f"PT{length.of(chapter).whole:g}M"
    assert told.get("educationalLevel") == card.get("level")
    assert told["version"] == repository.version and told["inLanguage"] == "en"
    assert told["license"] == "https://creativecommons.org/licenses/by/4.0/"
    assert told["hasPart"]["license"].endswith("BSD-3-Clause"), "text and code have licences of their own"
    assert [one["name"] for one in cited["author"]] == card["article"]["authors"]
    assert (cited["name"], cited["datePublished"]) == (card["article"]["title"], str(card["article"]["year"]))
    assert cited["url"] == repository.references[card["article"]["key"]]
    assert told["url"] == f"{repository.site}{chapter.document}.html"


@pytest.mark.parametrize("chapter", REAL.chapters, ids=str)
def test_each_chapter_is_described_as_its_card_says(chapter):
    agrees(read(pages.described(REAL, chapter)), REAL, chapter)


def test_an_author_is_an_organisation_where_the_references_say_so_and_not_by_its_spaces(small):
    small.write_card(article={**small.card["article"], "authors": ["Plato", "Max Planck Society"]})
    small.write(
        "book/references.bib",
        (small.root / "book/references.bib").read_text().replace("}\n}", "},\n  author = {{Max Planck Society}}\n}", 1),
    )
    told = read(pages.described(executed(small), small.repository.chapters[0]))
    assert [one["@type"] for one in told["citation"]["author"]] == ["Person", "Organization"]


@needs_book
@pytest.mark.parametrize("chapter", BUILT, ids=str)
def test_the_built_book_s_pages_say_what_their_cards_say(chapter):
    page = (BOOK / f"{chapter.document}.html").read_text(encoding="utf-8")
    told = read(page)
    agrees(told, REAL, chapter)
    assert f'property="og:image" content="{told["image"]}"' in page and 'property="og:type" content="article"' in page
    assert (BOOK / told["image"].removeprefix(REAL.site)).is_file()


@needs_book
def test_no_page_of_the_built_book_says_its_title_twice():
    for path in [BOOK / f"{name}.html" for name in REAL.toc_files]:
        (title,) = re.findall(r"<title>(.*?)</title>", path.read_text(encoding="utf-8"), re.DOTALL)[:1]
        parts = re.split(" (?:—|&#8212;) ", title)
        assert len(set(parts)) == len(parts), title


@pytest.mark.parametrize("dash", ["—", "&#8212;"])
def test_a_title_is_said_once(small, tmp_path, dash):
    written = pages.heading(small.repository, None, f"<title>A book {dash} A book</title>", tmp_path)
    assert written == "<title>A book</title>"
    other = f"<title>Claims {dash} A book</title>"
    assert pages.heading(small.repository, None, other, tmp_path) == other


HEAD = """<head><title>Smooth</title>
<meta property="og:type" content="website" />
<meta property="og:image" content="https://example.org/social.png" />
<meta property="og:image:alt" content="all" />
</head>"""


def test_a_chapter_is_shared_with_its_own_picture(small, tmp_path):
    repository = executed(small)
    (chapter,) = repository.chapters
    file = io.BytesIO()
    Image.new("RGBA", (1500, 300), (0, 0, 0, 0)).save(file, "PNG")
    png = base64.b64encode(file.getvalue()).decode()
    ran = nbformat.read(chapter.executed, as_version=4)
    shown = f'<figure class="rebuilt"><img src="data:image/png;base64,{png}" alt="means &amp; &quot;noise&quot;">'
    ran.cells[6].outputs = [nbformat.v4.new_output("display_data", {"text/html": shown})]
    nbformat.write(ran, chapter.executed)
    page = pages.heading(repository, chapter, HEAD, tmp_path)
    image = "https://github.com/example/small/_data/signals/moving_mean/moving_mean.png"
    assert f'<meta property="og:image" content="{image}" />' in page and 'og:type" content="article"' in page
    assert 'og:image:alt" content="means &amp; &quot;noise&quot;" />' in page and read(page)["image"] == image
    with Image.open(tmp_path / "_data/signals/moving_mean/moving_mean.png") as drawn:
        assert drawn.size == (1200, 240) and drawn.getpixel((0, 0)) == (255, 255, 255)


def test_words_of_a_card_cannot_end_the_script(small, tmp_path):
    small.write_card(summary="</script><b>")
    repository = executed(small)
    assert read(pages.heading(repository, repository.chapters[0], HEAD, tmp_path))["description"] == "</script><b>"
