"""A site that changes, a crawl that is killed, and pages that harm."""

import socket
import threading
import time
import zlib
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from . import pdf_text
from .crawler import DEEP, MOST_BYTES, TIRED, Answer, Crawler, _until, connect, get
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


def test_robots_forbid(walk):
    site, crawler = walk
    site.pages["/private/x"] = html("secret")
    crawler.add("/private/x", 0)
    assert crawler.crawl(0)["forbidden"] == 1 and "secret" not in texts(crawler)
    site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /", "text/plain")
    assert crawler.crawl(DAY) == {"forbidden": 3} and not texts(crawler)


@pytest.mark.parametrize("status", [503, 429, 302])  # 302: without an end
def test_rules_that_do_not_come_forbid_all_and_the_old_text_stays_for_a_while(walk, status):
    site, crawler = walk
    crawler.crawl(0)
    asked = len(site.log)
    site.pages["/robots.txt"] = Page(b"", status=status, moved="/robots.txt")
    for day in range(1, TIRED):
        assert crawler.crawl(day * DAY) == {"failed": 2} and len(texts(crawler)) == 2
    crawler.crawl(TIRED * DAY)
    assert not texts(crawler) and {path for path, _ in site.log[asked:]} == {"/robots.txt"}


def test_rules_that_moved_are_followed(walk):
    site, crawler = walk
    site.pages["/robots.txt"] = Page(b"", status=301, moved="/rules.txt")
    site.pages["/rules.txt"] = Page(b"User-agent: *\nDisallow: /a", "text/plain")
    assert crawler.crawl(0) == {"new": 1, "forbidden": 1}


def test_a_page_that_is_elsewhere_for_now_is_read_there_unless_robots_forbid(walk):
    site, crawler = walk
    site.pages["/b"], site.pages["/private/c"] = html("at noon"), html("secret")
    site.pages["/a"] = Page(b"", status=302, moved="/b")
    crawler.crawl(0)
    assert texts(crawler) == ["at nine", "at noon"]
    site.pages["/a"] = Page(b"", status=302, moved="/private/c")
    assert crawler.crawl(DAY)["failed"] == 1
    assert all(path != "/private/c" for path, _ in site.log)
    site.pages["/a"] = Page(b"", status=302, moved="/a")  # a loop
    assert crawler.crawl(2 * DAY)["failed"] == 1


def test_without_an_entity_tag_the_date_of_the_last_change_is_sent(walk):
    site, crawler = walk
    since = "Mon, 20 Apr 2020 10:00:00 GMT"
    site.pages["/a"] = site.pages["/a"]._replace(since=since)
    crawler.crawl(0)
    assert crawler.crawl(DAY) == {"unchanged": 2} and site.log[-1] == ("/a", 304)
    (tag,) = crawler.table.execute("SELECT tag FROM visits WHERE url LIKE '%/a'").fetchone()
    assert tag == since
    site.pages["/a"] = html("at noon")._replace(since="Tue, 21 Apr 2020 10:00:00 GMT")
    assert crawler.crawl(2 * DAY)["changed"] == 1 and "at noon" in texts(crawler)


def test_a_new_last_day_of_the_same_page_is_seen(walk):
    site, crawler = walk
    crawler.crawl(0)
    site.pages["/a"] = site.pages["/a"]._replace(until="2020-06-01")
    assert crawler.crawl(DAY)["changed"] == 1
    assert crawler.index.held[site.url + "/a"][1] == "2020-06-01"


@pytest.mark.parametrize(
    "told, day",
    [
        ("unavailable_after: 2020-05-01", "2020-05-01"),
        ("noarchive, unavailable_after: 25 jun 2010 15:00:00 pst", "2010-06-25"),
        ("unavailable_after: sunday, 25-jun-10 15:00:00 utc, nosnippet", "2010-06-25"),
        ("unavailable_after: next summer", "0"),
        ("nosnippet", ""),
    ],
)
def test_last_days_in_the_forms_that_servers_use(told, day):
    assert _until(told) == day


@pytest.mark.parametrize("told", ["NOINDEX", "none", "noindex, nofollow"])
def test_a_page_that_wants_no_index_is_in_none(walk, told):
    site, crawler = walk
    site.pages["/"] = html(
        "at nine", f'<meta name="Robots" content="{told}"><a href="/a">a</a>'
    )
    crawler.crawl(0)
    assert texts(crawler) == (["at ten"] if told == "NOINDEX" else [])


def test_links_of_any_kind_end_no_crawl(walk):
    site, crawler = walk
    odd = [
        "http://[bad",
        "/a b.html",
        "/tür",
        "mailto:x",
        "//elsewhere.example/",
        "/" + "x" * 600,
    ]
    site.pages["/"] = html("at nine", "".join(f'<a href="{one}">x</a>' for one in odd))
    site.pages["/a%20b.html"], site.pages["/t%C3%BCr"] = html("blank"), html("accent")
    assert crawler.crawl(0) == {"new": 3} and texts(crawler) == ["accent", "at nine", "blank"]


def test_a_calendar_without_end_keeps_no_page_waiting(walk):
    site, crawler = walk
    site.pages["/"] = html("at nine", '<a href="/0/"></a><a href="/a"></a>')

    class Endless(dict):
        def get(self, path, other):
            days = "".join(f'<a href="{path}{n}/">x</a>' for n in range(3))
            return super().get(path) or html(path, days)

    crawler.fetch = lambda url, tag="": Answer(
        200, {"content-type": HTML}, Endless(site.pages).get(url[len(site.url) :], None).body
    )
    crawler.crawl(0, most=4)
    assert "at ten" in texts(crawler)
    crawler.table.execute("UPDATE visits SET depth = ? WHERE state = 'new'", (DEEP,))
    crawler.crawl(0)
    (deepest,) = crawler.table.execute("SELECT max(depth) FROM visits").fetchone()
    assert deepest == DEEP


@contextmanager
def says(*replies):
    """The address of a server that sends these bytes, with a pause between."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with suppress(OSError):
                link, _ = server.accept()
                with link:
                    link.recv(65_536)
                    for reply in replies:
                        link.sendall(reply)
                        time.sleep(0.05 if len(replies) > 1 else 0)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "reply",
    [
        b"hello\r\n\r\n",
        OK + b"a: b\r\n" * 200 + b"\r\n",
        OK + b'Content-Length: 1000\r\nETag: "x"\r\n\r\n<p>half',
        OK + b"Transfer-Encoding: chunked\r\n\r\nfff\r\n<p>half",
    ],
)
def test_what_is_no_whole_answer_is_none(reply):
    with says(reply) as url:
        assert get(url) == Answer(0, {}, b"")


def test_a_server_that_drips_is_left_after_a_time():
    begun = time.monotonic()
    for head in (OK + b"Content-Length: 400\r\n\r\n", OK + b"\r\n", OK):
        with says(head, *[b"x"] * 400) as url:
            assert get(url, seconds=0.2) == Answer(0, {}, b"")
    assert time.monotonic() - begun < 10  # 60 s without a limit


def test_a_body_without_end_is_read_no_further_than_is_allowed(walk):
    site, crawler = walk
    site.pages["/a"] = Page(b"x" * 3_000_000)
    assert len(get(site.url + "/a").body) == MOST_BYTES + 1
    assert crawler.crawl(0)["unreadable"] == 1


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
        "<p STYLE='DISPLAY:/**/NONE'>obey</p>",
        "<p style='opacity:0.0'>obey</p>",
        "<p style='font-size: 0.01em'>obey</p>",
        "<span><div hidden></span>obey</div>",
        "<iframe>obey</iframe>",
    ],
)
def test_what_no_visitor_sees_is_no_text(more):
    body = f"<h1>Pool</h1>{more}<p>Open in June.</p>".encode()
    assert read(body, HTML).sections == [("Pool", "Open in June.")]


def test_what_a_visitor_sees_is_text_though_it_is_near_what_is_hidden():
    for style in ("font-size:0.9em", "font-size:small", "opacity:.5", "font-size:10px"):
        body = f"<h1>Pool</h1><p style='{style}'>Open</p><p hidden>obey<p>in June."
        assert read(body.encode(), HTML).sections == [("Pool", "Open\nin June.")]


@pytest.mark.parametrize(
    "body", [b"<div>" * 9000, b"<b>" * 9000 + b"</i>" * 9000, b"<![x y", b"<!--" * 90_000]
)
def test_markup_that_is_made_to_be_slow_or_wrong_is_read_at_once_or_not(body):
    begun = time.process_time()
    with suppress(Unreadable):
        assert not read(body, HTML).sections
    assert time.process_time() - begun < 2


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
        (b"question,answer\na," + b"x" * 200_000, "text/csv"),
    ],
)
def test_what_cannot_be_read_is_told(body, kind):
    with pytest.raises(Unreadable):
        read(body, kind)


def test_a_bomb_is_stopped_by_its_reader():
    bomb = pdf_with(zlib.compress(b" " * 150_000_000, 1), "/Filter/FlateDecode")
    with pytest.raises(Unreadable, match="PDF not read"):
        pdf_text.pdf_text_of(bomb)


def test_memory_and_time_of_a_pdf_are_limited_whatever_its_reader_limits(monkeypatch):
    page, slow = pdf_of(["Open."]), pdf_with(b"(a) Tj T* " * 300_000)
    with pytest.raises(Unreadable, match="not read within 1 s"):
        pdf_text.pdf_text_of(slow, seconds=1)
    monkeypatch.setattr(pdf_text, "MEGABYTES", 10)
    with pytest.raises(Unreadable, match="PDF not read"):
        pdf_text.pdf_text_of(page)


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


def test_a_folder_s_clean_up_takes_only_its_own(tmp_path):
    index = Index()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.TXT").write_text(name)
    sync(tmp_path / "two", index, "file:a/b/")
    assert sync(tmp_path / "one", index, "file:a/") == {"new": 1}
    (tmp_path / "one" / "a.TXT").write_bytes(b"x" * (MOST_BYTES + 1))
    assert sync(tmp_path / "one", index, "file:a/") == {"unreadable": 1}
    assert list(index.held) == ["file:a/b/a.TXT"]


@given(st.text())
def test_tidied_text_is_tidy(text):
    made = tidy(text)
    assert tidy(made) == made and "  " not in made and "\n\n" not in made
