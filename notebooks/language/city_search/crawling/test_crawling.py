"""A site that changes, a crawl that is killed, and pages that harm."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from . import pdf_text
from .crawler import TIRED, Answer, Crawler, connect, get
from .folder_sync import sync
from .page_text import read, tidy
from .pdf_text import Unreadable, pdf_of, pdf_with
from .served_site import HTML, Page, served

DAY = 86_400
ROBOTS = Page(b"User-agent: *\nDisallow: /private", "text/plain")


class Index:
    """What was put and not dropped, by address."""

    def __init__(self, path=":memory:"):
        self.table, self.held = connect(path), {}

    def put(self, url, page, until=""):
        self.held[url] = page, until

    def drop(self, url):
        self.held.pop(url, None)


def html(text, more=""):
    return Page(f"<html>{more}<h2>Hours</h2><p>{text}</p></html>".encode())


@pytest.fixture
def walk():
    with served({"/": html("at nine", '<a href="/a">a</a>'), "/a": html("at ten")}) as site:
        site.pages["/robots.txt"] = ROBOTS
        crawler = Crawler(Index(), site.url, every_s=DAY)
        crawler.add("/", 0)
        yield site, crawler


def texts(crawler):
    return sorted(page.sections[-1][1] for page, _ in crawler.index.held.values())


def test_links_are_followed_and_a_second_visit_brings_no_page(walk):
    site, crawler = walk
    assert crawler.crawl(0) == {"new": 2} and texts(crawler) == ["at nine", "at ten"]
    assert crawler.crawl(1) == {} and crawler.crawl(DAY) == {"unchanged": 2}
    assert [status for path, status in site.log if path == "/a"] == [200, 304]


def test_a_change_is_seen_and_a_page_that_went_is_dropped(walk):
    site, crawler = walk
    crawler.crawl(0)
    site.pages["/a"] = html("at noon")
    assert crawler.crawl(DAY)["changed"] == 1 and texts(crawler) == ["at nine", "at noon"]
    for status in (404, 410):
        site.pages["/a"] = Page(b"", status=status)
        assert crawler.crawl(3 * DAY if status == 404 else 5 * DAY)["gone"] == 1
    assert texts(crawler) == ["at nine"]


def test_a_page_that_comes_back_is_indexed_again(walk):
    site, crawler = walk
    crawler.crawl(0)
    page = site.pages.pop("/a")
    crawler.crawl(DAY)
    site.pages["/a"] = page
    assert crawler.crawl(2 * DAY)["new"] == 1 and texts(crawler) == ["at nine", "at ten"]


def test_a_page_that_moved_is_found_under_its_new_address_alone(walk):
    site, crawler = walk
    crawler.crawl(0)
    site.pages["/b"], site.pages["/a"] = site.pages["/a"], Page(b"", status=301, moved="/b")
    assert crawler.crawl(DAY) == {"unchanged": 1, "moved": 1, "new": 1}
    assert {url.removeprefix(site.url) for url in crawler.index.held} == {"/", "/b"}


def test_a_move_to_another_host_is_not_followed(walk):
    site, crawler = walk
    site.pages["/a"] = Page(b"", status=301, moved="http://elsewhere.example/a")
    crawler.crawl(0)
    addresses = [url for (url,) in crawler.table.execute("SELECT url FROM visits")]
    assert all(url.startswith(site.url) for url in addresses)


def test_robots_forbid_and_an_unreachable_rule_forbids_all(walk):
    site, crawler = walk
    site.pages["/private/x"] = html("secret")
    crawler.add("/private/x", 0)
    assert crawler.crawl(0)["forbidden"] == 1 and "secret" not in texts(crawler)
    site.pages["/robots.txt"] = Page(b"", status=503)
    assert crawler.crawl(DAY) == {"forbidden": 3} and not texts(crawler)


def test_a_server_that_fails_keeps_its_text_for_a_while_and_returns(walk):
    site, crawler = walk
    crawler.crawl(0)
    kept, site.pages["/a"] = site.pages["/a"], Page(b"", status=500)
    for day in range(1, TIRED):
        crawler.crawl(day * DAY)
        assert "at ten" in texts(crawler)
    crawler.crawl(TIRED * DAY)
    assert "at ten" not in texts(crawler)
    site.pages["/a"] = kept
    crawler.crawl((TIRED + 1) * DAY)
    assert "at ten" in texts(crawler)


def test_the_last_day_comes_with_the_header_or_in_the_page(walk):
    site, crawler = walk
    meta = '<meta name="robots" content="unavailable_after: 2020-05-01">'
    site.pages["/"] = html("at nine", meta + '<a href="/a">a</a>')
    site.pages["/a"] = site.pages["/a"]._replace(until="2020-06-01")
    crawler.crawl(0)
    last_days = {url[len(site.url) :]: until for url, (_, until) in crawler.index.held.items()}
    assert last_days == {"/": "2020-05-01", "/a": "2020-06-01"}


def test_a_crawl_that_dies_in_the_index_leaves_the_page_due(walk):
    _, crawler = walk
    put, crawler.index.put = crawler.index.put, None
    with pytest.raises(TypeError):
        crawler.crawl(0)
    crawler.index.put = put
    assert crawler.crawl(0) == {"new": 2}


def test_no_server_is_no_answer():
    assert get("http://127.0.0.1:9/") == Answer(0, {}, b"")


@pytest.mark.parametrize(
    "more",
    [
        "<p hidden>obey</p>",
        "<p style='display: none'>obey</p>",
        "<p style='font-size:0'>obey</p>",
        "<div aria-hidden='true'>obey</div>",
        "<script>obey</script>",
        "<!-- obey -->",
        "<template><p>obey</p></template>",
        "<div hidden><p>obey<p>obey</div>",
    ],
)
def test_what_no_visitor_sees_is_no_text(more):
    body = f"<h1>Pool</h1>{more}<p>Open in June.</p>".encode()
    assert read(body, HTML).sections == [("Pool", "Open in June.")]


def test_a_page_s_sections_title_language_and_attributes():
    body = b"""<html lang="en-US"><head><title>Pool</title><meta name="State" content="Ohio">
    <link rel="canonical" href="https://x.example"></head><h1>Open?</h1>Yes &amp; no<br>now
    <h2>When</h2><ul><li>June<li>July</ul><a href="/b">b</a></html>"""
    page = read(body, HTML)
    assert page.sections == [("Open?", "Yes & no\nnow"), ("When", "June\nJuly\nb")]
    assert (page.title, page.language, page.links) == ("Pool", "en", ["/b"])
    assert page.attributes["state"] == "Ohio" and page.attributes["canonical"].endswith(
        ".example"
    )


def test_csv_and_pdf_are_read():
    csv = b'question,answer\nOpen?,"Yes, daily"\nEmpty?,\n'
    assert read(csv, "text/csv").sections == [("Open?", "Yes, daily")]
    assert read(pdf_of(["Open (daily)."]), "application/pdf").sections == [
        ("", "Open (daily).")
    ]


@pytest.mark.parametrize(
    "body, kind",
    [
        (b"x", "image/png"),
        (b"\xff\xfe", HTML),
        (b"a,b\n1,2\n", "text/csv"),
        (b"%PDF-1.4 no", "application/pdf"),
        (b"a" * 400_001, "text/plain"),
    ],
)
def test_what_cannot_be_read_is_told(body, kind):
    with pytest.raises(Unreadable):
        read(body, kind)


def test_a_bomb_is_stopped_by_the_limits_of_its_process():
    bomb = pdf_with(zlib.compress(b" " * 400_000_000, 1), "/Filter/FlateDecode")
    with pytest.raises(Unreadable, match="PDF not read"):
        pdf_text.pdf_text_of(bomb, seconds=2)


def test_a_folder_is_kept_in_step(tmp_path):
    index, secret = Index(), tmp_path / "secret.txt"
    folder = tmp_path / "store"
    folder.mkdir()
    secret.write_text("secret")
    (folder / "link.txt").symlink_to(secret)
    (folder / "a.txt").write_text("one")
    (folder / "b.pdf").write_bytes(b"no")
    assert sync(folder, index, "file:") == {"new": 1, "unreadable": 1}
    (folder / "a.txt").write_text("two")
    assert sync(folder, index, "file:") == {"changed": 1, "unchanged": 1}
    (folder / "a.txt").unlink()
    assert sync(folder, index, "file:") == {"unchanged": 1, "gone": 1} and not index.held


@given(st.text())
def test_tidied_text_is_tidy(text):
    made = tidy(text)
    assert tidy(made) == made and "  " not in made and "\n\n" not in made
