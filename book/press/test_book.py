"""The built book in a real browser, with the outside network cut: what a reader would meet."""

import functools
import http.server
import re
import shutil
import threading
from urllib.parse import unquote, urldefrag, urljoin

import pytest

from press.model import HOME, Repository

HTML = HOME / "_build" / "html"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PAGES = sorted(path.relative_to(HTML).as_posix() for path in HTML.rglob("*.html")) if HTML.is_dir() else []
READ = [page for page in PAGES if page.startswith(("book/", "notebooks/"))]

pytestmark = [
    pytest.mark.skipif(not PAGES, reason="the book is not built: make book"),
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium: on Debian and Ubuntu, apt-get install chromium"),
]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def site():
    """The address of a server of the built book."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=HTML)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield made
        made.close()


@pytest.fixture
def visit(browser, site):
    """A function that opens a page in a window of a size and mode; the page, and what went wrong on it."""
    contexts = []

    def opened(name, width=1400, height=900, mode="light"):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=mode)
        contexts.append(context)
        context.add_init_script(f"localStorage.setItem('mode', '{mode}'); localStorage.setItem('theme', '{mode}')")
        page, wrong = context.new_page(), []
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("requestfailed", lambda request: wrong.append(f"failed: {request.url}"))
        page.on(
            "response", lambda answer: wrong.append(f"{answer.status} {answer.url}") if answer.status > 399 else None
        )
        page.route(lambda url: not url.startswith((site, "data:")), lambda route: route.abort())
        page.goto(site + name, wait_until="load")
        page.wait_for_timeout(300)
        return page, wrong

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", READ)
def test_a_page_loads_without_error_and_asks_nobody_else(visit, name):
    _, wrong = visit(name)
    assert wrong == []


@pytest.mark.parametrize("width, mode", [(390, "light"), (390, "dark"), (1400, "dark")])
@pytest.mark.parametrize("name", READ)
def test_nothing_overflows_the_window(visit, name, width, mode):
    page, _ = visit(name, width=width, mode=mode)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.dataset.theme") == mode
    wide = (
        "[...document.querySelectorAll('figure.rebuilt img')].filter(i => i.getBoundingClientRect().right > innerWidth)"
    )
    assert page.evaluate(f"{wide}.length") == 0


def test_every_link_and_anchor_inside_the_book_resolves(site):
    ids, missing = {}, []
    texts = {page: (HTML / page).read_text(encoding="utf-8") for page in PAGES}
    for page, text in texts.items():
        ids[page] = set(re.findall(r'\b(?:id|name)="([^"]+)"', text))
    for page in READ:
        for target in re.findall(r'<a\b[^>]*\bhref="([^"]+)"', texts[page]):
            address, anchor = urldefrag(urljoin(site + page, target.replace("&amp;", "&")))
            if not address.startswith(site):
                continue
            name = unquote(address.removeprefix(site)) or "index.html"
            if not (HTML / name).is_file():
                missing.append(f"{page}: {target}")
            elif anchor and name in ids and unquote(anchor) not in ids[name]:
                missing.append(f"{page}: {target} (no such anchor)")
    assert missing == []


def test_search_finds_a_word_of_a_chapter(visit):
    page, _ = visit("search.html?q=heartbeat")
    page.wait_for_selector("#search-results li a", timeout=10_000)
    found = page.eval_on_selector_all("#search-results li a", "links => links.map(a => a.getAttribute('href'))")
    assert any("rolling_distance" in href for href in found)


def test_the_keyboard_reaches_the_text_and_shows_where_it_is(visit):
    page, _ = visit(READ[-1])
    page.keyboard.press("Tab")
    first = page.evaluate("document.activeElement.textContent.trim()")
    assert "Skip to main content" in first
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.tagName"))
    outline = "const s = getComputedStyle(document.activeElement); s.outlineStyle !== 'none' || s.boxShadow !== 'none'"
    assert {"A", "BUTTON"} & seen and page.evaluate(f"(() => {{ {outline.replace('; s.', '; return s.')} }})()")


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("name", READ)
def test_axe_finds_nothing_serious(visit, name, mode):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page, _ = visit(name, mode=mode)
    found = axe.Axe().run(page).response["violations"]
    bad = [(one["id"], one["nodes"][0]["html"][:120]) for one in found if one["impact"] in ("serious", "critical")]
    assert bad == []


def test_launch_buttons_point_at_files_of_the_repository():
    repository = Repository(HOME)
    for chapter in repository.chapters:
        text = (HTML / f"{chapter.document}.html").read_text(encoding="utf-8")
        paths = re.findall(rf"/blob/{repository.branch}/([^\"?#]+\.ipynb)", text)
        assert paths and all((HOME / path).is_file() for path in paths)
