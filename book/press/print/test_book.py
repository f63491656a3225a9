"""The built book in a real browser, with the outside network cut: what a reader would meet."""

import csv
import html
import io
import json
import re
import unicodedata
from urllib.parse import unquote, urldefrag, urljoin

import pytest

from helpers.show import number
from press import chromium
from press.conftest import comes
from press.files import read_json
from press.lean.slim import SHEET
from press.ledger.ledger import gather
from press.ledger.tables import pdf_name, volumes
from press.print import pdf
from press.print.generated import addresses
from press.repository import HOME, Repository, tags
from press.server import site
from press.teach import acts

HTML = HOME / "_build" / "html"
PAGES = sorted(path.relative_to(HTML).as_posix() for path in HTML.rglob("*.html")) if HTML.is_dir() else []
READ = [page for page in PAGES if page.startswith(("book/", "notebooks/"))]

pytestmark = [
    pytest.mark.skipif(not PAGES, reason="the book is not built: make book"),
    pytest.mark.skipif(not chromium.find(), reason="no Chromium: on Debian and Ubuntu, apt-get install chromium"),
]


@pytest.fixture(scope="module")
def address():
    """Where a server shows the built book."""
    with site(HTML) as found:
        yield found


@pytest.fixture
def visit(browser, address):
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
        page.route(lambda url: not url.startswith((address, "data:", "blob:")), lambda route: route.abort())
        page.goto(address + name, wait_until="load")
        page.wait_for_timeout(200)
        return page, wrong

    yield opened
    for context in contexts:
        context.close()


CUT_OFF = """() => {
  const limit = document.documentElement.clientWidth + 1;
  const inside = (one) => { // what scrolls in a box of its own is not cut off
    for (let box = one.parentElement; box; box = box.parentElement)
      if (["auto", "scroll"].includes(getComputedStyle(box).overflowX)) return true;
    return false;
  };
  return [...document.querySelectorAll("article *")].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.width > 0 && (box.right > limit || box.left < -1) && !inside(one);
  }).map((one) => `${one.tagName} ${one.textContent.slice(0, 40)}`);
}"""


DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))))"


def too_wide(page, width):
    """What reaches out of a window of this width."""
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function("width => window.innerWidth === width", arg=width)
    page.evaluate(DRAWN)
    over = page.evaluate("document.documentElement.scrollWidth") - width
    return [f"{width}: {over} pixels too wide"] * (over > 0) + [f"{width}: {one}" for one in page.evaluate(CUT_OFF)]


PLAIN_CODE = """() => {
  const seen = new Set();
  for (const part of document.querySelectorAll("div.highlight pre span[class]"))
    if (seen.has(part.className)) part.replaceWith(...part.childNodes);
    else seen.add(part.className);
  for (const code of document.querySelectorAll("div.highlight pre")) code.normalize();
}"""


def inaccessible(page, **options):
    """What axe finds that is serious. Of the thousands of coloured parts of code it looks at one of each colour."""
    page.evaluate(PLAIN_CODE)
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(page, **options).response["violations"]
    return [(one["id"], one["nodes"][0]["html"][:120]) for one in found if one["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("name", READ)
def test_a_page_loads_alone_fits_every_window_and_is_accessible(visit, name):
    page, wrong = visit(name)
    wrong = list(wrong)  # axe itself asks for styles that are not there
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    wrong += inaccessible(page)
    assert wrong + [one for width in (1400, 360, 320) for one in too_wide(page, width)] == []


DEEP = ["book/claims.html", next((page for page in READ if page.startswith("notebooks/")), "")]


@pytest.mark.parametrize("name", DEEP)
def test_a_page_in_the_dark_is_whole_and_accessible_wide_and_on_a_phone(visit, name):
    page, wrong = visit(name, mode="dark")
    wrong = list(wrong)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    wrong += inaccessible(page)
    phone, _ = visit(name, width=360, mode="dark")
    assert wrong + too_wide(phone, 360) + inaccessible(phone) == []


CHAPTERS = [chapter for chapter in Repository(HOME).chapters if READ]
TOUCHED = ("slider", "textbox", "searchbox", "combobox", "spinbutton", "checkbox", "radio", "button", "switch")


@pytest.mark.parametrize("chapter", CHAPTERS, ids=str)
def test_all_that_can_be_touched_has_a_name_for_who_does_not_see_it(visit, chapter):
    page, _ = visit(f"{chapter.document}.html")
    for element in page.locator(".rebuilt-live").all():
        come_near(element)
        page.wait_for_selector(".rebuilt-live[data-state='running']", timeout=90_000)
    nodes = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    nodes = [one for one in nodes if not one["ignored"] and one["role"]["value"].lower() in TOUCHED]
    names = [(one["role"]["value"], one.get("name", {}).get("value", "").strip()) for one in nodes]
    assert [role for role, name in names if not name] == [] and len(names) > 5


FOCI = """() => [...document.querySelectorAll("a, button, input, select, summary, [tabindex='0']")].map((one) => {
  one.focus();
  const look = getComputedStyle(one);
  if (document.activeElement !== one || !one.matches(":focus-visible")) return "";
  const shadow = look.boxShadow.match(/^rgba?\\([^)]*\\)(?= 0px 0px 0px)/)?.[0] ?? "";
  return look.outlineStyle === "none" ? shadow : look.outlineColor;
}).filter(Boolean)"""


@pytest.mark.parametrize("mode, colour", [("light", "rgb(168, 72, 10)"), ("dark", "rgb(255, 176, 112)")])
@pytest.mark.parametrize("name", ["book/welcome.html", *DEEP])
def test_what_has_the_focus_is_framed_in_one_colour(visit, name, mode, colour):
    page, _ = visit(name, mode=mode)
    page.add_style_tag(content="* { transition: none !important }")
    page.keyboard.press("Tab")
    colours = page.evaluate(FOCI)
    assert set(colours) == {colour} and len(colours) > 20


def test_figures_and_the_first_picture_follow_a_dark_page(visit):
    from PIL import Image

    most = max(READ, key=lambda name: (HTML / name).read_text(encoding="utf-8").count('<figure class="rebuilt">'))
    page, _ = visit(most, mode="dark")
    figures = page.locator("img[data-ink]").all()
    assert len(figures) > 2
    for drawn in figures[:3]:
        drawn.scroll_into_view_if_needed()
        page.wait_for_function("one => one.complete", arg=drawn.element_handle())
        shot = Image.open(io.BytesIO(drawn.screenshot())).convert("L").histogram()
        assert sum(shot[:64]) > 0.6 * sum(shot), "the paper is dark"


def test_a_first_visit_meets_no_error(browser, address):
    context = browser.new_context()
    page, wrong = chromium.page(context, address), []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.goto(f"{address}{DEEP[1]}", wait_until="load")
    context.close()
    assert wrong == []


SHIFTS = """window.shifts = 0; new PerformanceObserver((list) => {
  for (const one of list.getEntries()) if (!one.hadRecentInput) window.shifts += one.value;
}).observe({ type: "layout-shift", buffered: true })"""


def heaviest(many=3):
    """The heaviest pages as the build weighed them, and two others."""
    found = (read_json(HTML.parent / "page-weight.json") or {}).get("pages", {})
    return [
        *(name.removesuffix(".html") for name in DEEP),
        *sorted(found, key=lambda name: -found[name]["bytes"])[:many],
    ]


@pytest.mark.parametrize("name", heaviest())
def test_on_a_slow_phone_the_lines_keep_their_places(browser, address, name):
    context = browser.new_context(viewport={"width": 390, "height": 800}, is_mobile=True, device_scale_factor=2)
    page = chromium.page(context, address)
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    slow = {"offline": False, "latency": 150, "downloadThroughput": 1.6e6 / 8, "uploadThroughput": 0.75e6 / 8}
    session.send("Network.emulateNetworkConditions", slow)
    session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    page.add_init_script(SHIFTS)
    page.goto(f"{address}{name}.html", wait_until="load", timeout=120_000)
    page.wait_for_load_state("networkidle")
    found = page.evaluate("window.shifts")
    context.close()
    assert found < 0.1


def test_the_404_page_is_whole_at_any_address(browser):
    page = browser.new_page()
    page.goto((HTML / "404.html").as_uri(), wait_until="domcontentloaded")
    assert page.locator("article h1").inner_text().startswith("This page is not here")
    assert page.evaluate("getComputedStyle(document.querySelector('.bd-sidebar')).position") == "sticky"
    links = page.eval_on_selector_all("a[href]", "all => all.map((one) => one.href)")
    page.close()
    assert all(link.startswith("https://") or "#" in link for link in links) and len(links) > 10


def letters(page, selector):
    """The families that Chromium drew the first such element in, each with whether it came with the page."""
    session = page.context.new_cdp_session(page)
    session.send("DOM.enable")
    session.send("CSS.enable")
    root = session.send("DOM.getDocument")["root"]["nodeId"]
    node = session.send("DOM.querySelector", {"nodeId": root, "selector": selector})["nodeId"]
    fonts = session.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]
    return {(font["familyName"], font["isCustomFont"]) for font in fonts}


def test_a_chapter_is_set_in_the_letters_that_the_book_brings(visit):
    page, _ = visit(DEEP[1])
    sheet = (HTML / SHEET).read_text(encoding="utf-8").replace("optional", "block")  # however late they come
    page.route(f"**/{SHEET}*", lambda route: route.fulfill(body=sheet, content_type="text/css"))
    page.reload()
    page.evaluate("document.fonts.ready.then(() => true)")
    places = {
        "article section > p:not([class])": "Serif",
        "article h1": "Sans",
        "article .cell_output caption": "Sans",
        "article div.cell:not(.tag_hide-input) div.highlight pre": "Code",
        "nav.bd-links a": "Sans",
    }
    assert {place: letters(page, place) for place in places} == {
        place: {(f"Rebuilt {kind}", True)} for place, kind in places.items()
    }


def test_every_link_and_anchor_inside_the_book_resolves():
    site = "http://book/"
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


def found_by(page):
    """The sections that a search shows: address, heading, and the words around."""
    page.wait_for_selector("#search-results [role=status]", timeout=10_000)
    rows = "all => all.map(one => [one.querySelector('a').getAttribute('href'), one.textContent])"
    return page.eval_on_selector_all("#search-results li", rows)


def test_search_finds_sections_by_whole_words(visit):
    page, wrong = visit("search.html?q=heartbeat")
    found = found_by(page)
    assert any("rolling_distance.html#" in href for href, _ in found) and wrong == []
    assert inaccessible(page) == []
    page, _ = visit("search.html?q=WER")
    assert all(re.search(r"(?<!\w)wers?(?!\w)", text, re.IGNORECASE) for _, text in found_by(page))
    page, _ = visit("search.html?q=REBUILT_HOME")  # a word of every setup cell
    assert not any(href.startswith("notebooks/") for href, _ in found_by(page))
    page, _ = visit("search.html?q=%3Cb%3Exyzzy")
    assert found_by(page) == [] and "No sections have" in page.get_by_role("status").inner_text()


@pytest.mark.parametrize("words", ["allreduce", "LRU cache", "all-to-all"])
def test_a_phrase_is_found_as_one_and_the_search_fits_a_small_phone(visit, words):
    page, wrong = visit(f"search.html?q={words}", width=320)
    found = found_by(page)
    meant = re.compile("[- ]?".join(words.replace("allreduce", "all-reduce").replace("-", " ").split()), re.IGNORECASE)
    assert found and meant.search(found[0][1]) and wrong == []
    assert len(found) < 40 and page.evaluate("document.documentElement.scrollWidth") <= 320


def test_the_search_works_from_a_folder(browser):
    page = browser.new_page()
    page.goto(f"{(HTML / 'search.html').as_uri()}?q=heartbeat")
    assert found_by(page)
    page.close()


CHAPTERS = [chapter for chapter in Repository(HOME).chapters if f"{chapter.document}.html" in READ]
FIRST = "article section > h1 ~ p:not([class])"  # the first sentence of the chapter's own prose


@pytest.mark.parametrize("chapter", CHAPTERS, ids=str)
def test_a_chapter_s_first_screen_has_article_picture_question_prose_and_what_to_touch(visit, chapter):
    page, _ = visit(f"{chapter.document}.html")
    for what in (".source a", ".rebuilt-first img", ".question", FIRST, ".rebuilt-first .touch a"):
        box = page.locator(what).first.bounding_box()
        assert box["y"] + min(box["height"], 60) <= 900 and box["width"] > 60, what
    assert (
        page.locator(".source a").first.get_attribute("href")
        == Repository(HOME).references[chapter.card["article"]["key"]]
    )
    phone, _ = visit(f"{chapter.document}.html", width=360, height=800)
    assert phone.locator(FIRST).first.bounding_box()["y"] <= 600
    assert phone.locator(".rebuilt-about > details:not([open])").count() == 1
    phone.locator(".rebuilt-first .touch a").click()
    place = phone.locator("#touch-it")
    assert comes(lambda: -1 <= place.evaluate("one => one.getBoundingClientRect().top") < 800)


def test_code_at_a_page_s_end_is_no_larger_than_the_words_beside_it(visit):
    page, _ = visit(next(name for name in READ if 'class="rebuilt-counted"' in (HTML / name).read_text()))
    size = "all => all.map((one) => parseFloat(getComputedStyle(one).fontSize))"
    code, words = (page.locator(f".rebuilt-about {what}").evaluate_all(size) for what in (":is(code, pre)", "p"))
    assert len(code) > 1 and max(code) < max(words)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=str)
def test_one_switch_shows_the_plumbing_and_without_a_script_it_is_folded(visit, browser, address, chapter):
    hidden = "all => all.filter((one) => one.offsetParent === null).length"
    page, _ = visit(f"{chapter.document}.html")
    plumbing = page.locator(".tag_plumbing > .above-input")
    others = page.locator(".tag_hide-input:not(.tag_plumbing) > .above-input")
    count = plumbing.count()
    assert count > 3 and plumbing.evaluate_all(hidden) == count and others.evaluate_all(hidden) == 0
    page.locator(".bd-sidebar-secondary").get_by_label("Show plumbing").check()
    assert plumbing.evaluate_all(hidden) == 0
    assert page.locator(".rebuilt-about input").is_checked(), "the switch at the end is the same"
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(f"{address}{chapter.document}.html")
    assert plain.locator(".tag_plumbing > .above-input").evaluate_all(hidden) == 0
    context.close()


def test_the_menu_is_short_and_opens_the_part_of_the_page(visit):
    chapter = Repository(HOME).chapters[0]
    page, _ = visit(f"{chapter.document}.html")
    menu = page.locator("nav.bd-docs-nav")
    assert menu.locator("details[open]").count() == 1
    assert menu.locator("[aria-current=page]").inner_text() == chapter.card["short"]
    assert menu.locator("li a:visible").count() <= 8
    menu.locator("summary", has_text="Reference").press("Enter")
    assert menu.get_by_role("link", name="Glossary").is_visible()
    total = sum(section["minutes"] for section in chapter.card["sections"])
    contents = page.locator(".bd-sidebar-secondary")
    assert f"{total} min" in contents.inner_text() and "1 " in contents.locator("a").first.inner_text()


def test_what_moves_on_the_welcome_page_moves_at_once_and_loads_nothing(visit):
    page, wrong = visit("book/welcome.html")
    asked = "performance.getEntriesByType('resource').map((one) => one.name).filter((one) => !one.includes('favicon'))"
    before = page.evaluate(asked)
    element = page.locator(".rebuilt-hero [data-state='running']")
    slider = element.locator("input").first
    slider.focus()
    was = element.get_attribute("data-clients")
    page.keyboard.press("ArrowLeft")
    assert comes(lambda: element.get_attribute("data-clients") != was)
    assert page.evaluate(asked) == before and not [name for name in before if "_live" in name] and wrong == []
    entries = [
        one for one in gather(Repository(HOME)).entries if not any(found.metric(found.run) for found in one.findings)
    ]
    said = page.locator(".rebuilt-gallery li", has_text="No claim is measured").locator(".name").all_inner_texts()
    assert sorted(said) == sorted(one.chapter.card["title"] for one in entries), "said where it is so, and only there"
    assert page.locator(".rebuilt-numbers li").count() == 3
    assert page.locator(".rebuilt-gallery li").count() == len(Repository(HOME).chapters)


def test_the_keyboard_reaches_the_text_and_shows_where_it_is(visit):
    page, _ = visit(READ[-1])
    page.keyboard.press("Tab")
    first = page.evaluate("document.activeElement.textContent.trim()")
    assert "Skip to main content" in first
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.tagName"))
    for _ in range(20):
        if page.evaluate("document.activeElement.matches(':focus')"):
            break
        page.keyboard.press("Tab")  # a player's buttons are the browser's
    outline = "const s = getComputedStyle(document.activeElement); s.outlineStyle !== 'none' || s.boxShadow !== 'none'"
    assert {"A", "BUTTON"} & seen and page.evaluate(f"(() => {{ {outline.replace('; s.', '; return s.')} }})()")


def test_launch_buttons_point_at_files_of_the_repository():
    repository = Repository(HOME)
    for chapter in repository.chapters:
        text = (HTML / f"{chapter.document}.html").read_text(encoding="utf-8")
        paths = re.findall(rf"/blob/(?:learn-)?{repository.release}/([^\"?#]+\.ipynb)", text)
        assert paths and all((HOME / path).is_file() for path in paths)
        assert not re.search(rf'colab[^"]*/blob/{repository.release}/', text), "the theme's button opens the source"
        original = f"{repository.url}/blob/{repository.release}/{chapter.document}.ipynb"
        for address in (original, *addresses(repository, chapter).values()):
            assert re.search(rf'href="{re.escape(address)}["?]', text), f"{chapter} has no link to {address}"


LIVE = [chapter for chapter in Repository(HOME).chapters if chapter.card.get("live") and READ]


def come_near(element):
    """Scroll to a live model, as a reader does, and touch it."""
    element.scroll_into_view_if_needed()
    for button in element.locator(".rebuilt-touch").all():
        button.click()


@pytest.mark.parametrize("mode, width", [("light", 1400), ("dark", 390)])
@pytest.mark.parametrize("chapter", LIVE, ids=str)
def test_a_live_model_runs_equals_pytorch_and_can_be_used_by_all(visit, chapter, mode, width):
    page, wrong = visit(f"{chapter.document}.html", width=width, mode=mode)
    element = page.locator(".rebuilt-live")
    assert element.get_attribute("data-state") is None, "nothing is loaded before a reader touches it"
    element.scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    assert element.get_attribute("data-state") is None, "nor because a reader comes near"
    come_near(element)
    page.wait_for_selector(".rebuilt-live[data-state='running']", timeout=90_000)
    bound = float(element.get_attribute("data-bound") or 1e-4)  # an int8 model states its own
    assert wrong == [] and float(element.get_attribute("data-worst")) < bound <= 0.1
    for words in element.locator("> .rebuilt-live-fallback").all():
        assert not words.is_visible(), "what stands there for readers without scripts goes"
    assert inaccessible(page, context=".rebuilt-live") == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("chapter", LIVE, ids=str)
def test_a_live_model_runs_from_a_folder(browser, chapter):
    page = browser.new_page()
    page.route(lambda url: not url.startswith(("file:", "data:", "blob:")), lambda route: route.abort())
    page.goto((HTML / f"{chapter.document}.html").as_uri())
    come_near(page.locator(".rebuilt-live"))
    page.wait_for_selector(".rebuilt-live[data-state='running']", timeout=90_000)
    page.close()


def shown_rows(page):
    """The data attributes of the rows that a reader sees."""
    return page.eval_on_selector_all(
        "[data-part]", "rows => rows.filter(r => r.offsetParent !== null).map(r => ({...r.dataset}))"
    )


@pytest.mark.parametrize("name, noun", [("book/claims.html", "claim"), ("book/status.html", "run")])
def test_without_a_script_the_whole_table_stands(browser, address, name, noun):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address + name)
    assert page.locator(".rebuilt-filter").count() == 0
    rows = page.locator("[data-part]")
    assert rows.count() == (HTML / name).read_text(encoding="utf-8").count(" data-part=")
    assert rows.count() and all(row.is_visible() for row in rows.all())
    context.close()


@pytest.mark.parametrize("mode, width", [("light", 1400), ("dark", 390)])
def test_the_ledger_is_filtered_by_what_was_found_and_the_address_keeps_it(visit, mode, width):
    page, wrong = visit("book/claims.html", mode=mode, width=width)
    everything = shown_rows(page)
    finding = everything[0]["finding"]
    page.get_by_role("combobox", name="Found").select_option(finding)
    wanted = [row for row in everything if row["finding"] == finding]
    assert 0 < len(wanted) < len(everything) and comes(lambda: shown_rows(page), wanted) == wanted
    claims = page.locator(".rebuilt-claim").count()  # one with several runs has several lines
    assert f" of {claims} claims shown" in page.get_by_role("status").inner_text()
    assert comes(lambda: page.url.endswith(f"#finding={finding.replace(' ', '+')}"))
    assert wrong == []  # axe itself asks for styles that are not there
    assert inaccessible(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.reload()
    assert (
        comes(lambda: shown_rows(page), wanted) == wanted
        and page.get_by_role("combobox", name="Found").input_value() == finding
    )
    page.get_by_role("button", name="Show all").press("Enter")
    assert comes(lambda: shown_rows(page), everything) == everything and comes(lambda: "#" not in page.url)


def test_a_number_in_the_totals_leads_to_its_claims(visit):
    page, wrong = visit("book/claims.html")
    button = page.locator("td[data-count] button").last
    count, finding = int(button.inner_text()), button.locator("..").get_attribute("data-count").split("|")[1]
    button.click()
    assert comes(lambda: page.get_by_role("status").inner_text().startswith(f"{count} of "))
    assert {row["finding"] for row in shown_rows(page)} == {finding} and wrong == []


BEYOND = """() => [...document.querySelectorAll(".rebuilt-claim .finding, .rebuilt-claim .claimed")].filter((one) => {
  const own = one.getBoundingClientRect(), card = one.closest(".rebuilt-claim").getBoundingClientRect();
  const page = document.querySelector("article").getBoundingClientRect();
  return own.width === 0 || own.right > Math.min(card.right, page.right) + 0.5 || own.left < card.left - 0.5;
}).map((one) => one.textContent)"""


@pytest.mark.parametrize("name", [name for name in READ if name.startswith("notebooks/")])
def test_no_finding_of_a_chapter_is_cut_off_wide_on_a_phone_or_in_print(visit, name):
    page, _ = visit(name)
    cards = page.locator(".cell_output .rebuilt-claim")
    assert cards.count() == len(page.locator(".cell_output .rebuilt-claim > p.judged > .finding:first-child").all()) > 0
    for width, media in [(1400, "screen"), (320, "screen"), (700, "print")]:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(media=media)
        page.evaluate(DRAWN)
        assert page.evaluate(BEYOND) == [], (width, media)


def test_the_front_page_s_chart_is_reached_by_keyboard_and_its_table_has_all_its_marks(visit):
    page, wrong = visit("book/welcome.html")
    marks = page.locator(".rebuilt-chart svg a")
    assert marks.count() > 5 and wrong == []
    marks.first.focus()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == marks.first.get_attribute("aria-label")
    rows = page.locator(".rebuilt-chart tbody tr")
    assert rows.count() == marks.count() + page.locator(".rebuilt-chart .signs a").count()
    assert page.locator(".rebuilt-chart circle").count() >= 1


def test_a_filter_that_nothing_meets_says_so_and_a_strange_one_is_ignored(visit):
    page, _ = visit("book/claims.html#since=2999-01-01")
    assert comes(lambda: shown_rows(page), []) == [] and page.get_by_role("status").inner_text().startswith("0 of ")
    page, wrong = visit("book/claims.html#finding=nonsense&x=%3Cb%3E")
    assert shown_rows(page) and wrong == []


def test_the_runs_can_be_filtered_and_sorted(visit):
    page, _ = visit("book/status.html")
    page.get_by_label("Order").select_option("date")
    assert comes(lambda: "sort=date" in page.url)
    dates = [row.get("date", "") for row in shown_rows(page)]
    assert dates == sorted(dates, reverse=True)
    page.get_by_label("Tier").select_option(index=1)
    assert comes(lambda: len({row["tier"] for row in shown_rows(page)}), 1) == 1


def test_every_figure_has_its_data_beside_it():
    for chapter in Repository(HOME).chapters:
        text = (HTML / f"{chapter.document}.html").read_text(encoding="utf-8")
        links = re.findall(r'class="rebuilt-figure-data"><a href="([^"]+)" download', text)
        assert len(links) == text.count('<figure class="rebuilt">') > 0
        for link in links:
            with (HTML / chapter.document).parent.joinpath(link).resolve().open(encoding="utf-8", newline="") as file:
                head, *rows = csv.reader(file)
            assert 1 <= len(rows) <= 10_000 and all(head) and {len(row) for row in rows} == {len(head)}
    assert "application/vnd.rebuilt" not in text


@pytest.fixture(scope="module", params=list(volumes(Repository(HOME))))
def volume(request):
    """The name of one of the book's PDFs."""
    return request.param


@pytest.fixture(scope="module")
def printed(volume):
    pypdf = pytest.importorskip("pypdf")
    return pypdf.PdfReader(HTML / pdf_name(Repository(HOME), volume))


@pytest.fixture(scope="module")
def texts(printed):
    """The text of each page."""
    return [page.extract_text() for page in printed.pages]


@pytest.fixture(scope="module")
def own(volume):
    """The pages of the PDF, and the chapters among them."""
    repository = Repository(HOME)
    pages = pdf.pages(repository, volume)
    return pages, [chapter for chapter in repository.chapters if chapter.document in pages]


def test_no_pdf_is_larger_than_15_megabytes(volume):
    assert (HTML / pdf_name(Repository(HOME), volume)).stat().st_size <= 15e6


def test_a_pdf_holds_no_picture_of_a_shadow(printed):
    """Chromium paints each as a grey JPEG as wide as the page: they were half of the file."""
    images = [one.get_object() for page in printed.pages for one in page["/Resources"].get("/XObject", {}).values()]
    assert [one["/Width"] for one in images if one.get("/Filter") == "/DCTDecode" and one["/Width"] > 2000] == []


def test_the_pdf_is_tagged_has_its_title_and_every_page_in_its_outline(printed, volume, own):
    repository = Repository(HOME)
    assert printed.root_object["/MarkInfo"]["/Marked"] and "/StructTreeRoot" in printed.root_object
    title = repository.config["title"] + (f": {volume}" if volume else "")
    assert printed.metadata.title == title and printed.root_object["/Lang"].startswith("en")
    titles = pdf.outline(printed)
    for chapter in own[1]:
        assert pdf.plain(chapter.card["title"]) in titles
        assert [s["title"] for s in chapter.card["sections"] if pdf.plain(s["title"]) not in titles] == []
    assert volume or {"Claims ledger", "Run status", "Glossary"} <= set(titles)


def test_the_pdf_s_outline_is_the_book_s_headings_each_as_often_as_it_stands_there(printed, own):
    """Chromium once wrote 18 of 143 twice into one entry: "RecapRecap"."""
    from bs4 import BeautifulSoup

    wanted = ["Contents"]
    for name in own[0]:
        article = BeautifulSoup((HTML / f"{name}.html").read_text(encoding="utf-8"), "html.parser").article
        for mark in article.select(".headerlink, :is(h1, h2, h3) .rebuilt-further"):
            mark.decompose()
        wanted += [pdf.plain(one.get_text()) for one in article.find_all(re.compile("^h[1-6]$"))]
    wanted += [pdf.ANSWERS["title"]] * bool(own[1])
    for chapter in own[1]:
        wanted += [pdf.plain(one["title"]) for one in (chapter.card, *chapter.card["exercises"])]
        wanted += [pdf.plain(title) for title, _ in with_acts(chapter)]  # their answers stand at the end
    assert sorted(pdf.outline(printed)) == sorted(wanted)


def with_acts(chapter):
    """(title, its acts) of each section, or part of a section, in which learners answer."""
    asked = []
    for title, cells in acts.sections(chapter.cells):
        for cell in cells:
            shown = cell.cell_type == "markdown" and "talk" not in tags(cell)  # slides have headings, too
            parts = re.findall("^### (.*)", cell.source, re.MULTILINE) if shown else []
            if parts or cell is cells[0]:
                asked.append((parts[-1].replace("`", "") if parts else title, []))
            asked[-1][1].append(cell)
    found = [(title, acts.of(cells)) for title, cells in asked]
    return [(title, found) for title, found in found if found]


def test_the_pdf_s_contents_have_parts_and_right_page_numbers_and_the_cover_a_date(printed, volume, own):
    names, answers = own[0], [pdf.ANSWERS["anchor"]] * bool(own[1])
    version = re.escape(Repository(HOME).version)
    assert re.search(rf"Release {version}, 20\d\d-\d\d-\d\d", printed.pages[0].extract_text())
    starts = pdf.targets(printed)
    first = min(starts[pdf.anchor(name)] for name in names) - 1
    lines = [line for page in printed.pages[1:first] for line in page.extract_text().splitlines()]
    assert {caption for caption, _ in volumes(Repository(HOME))[volume] if caption} <= set(lines)
    wanted = [starts[anchor] for anchor in (*map(pdf.anchor, names), *answers)]
    assert [int(line) for line in lines if line.isdigit()] == wanted == sorted(wanted)
    for name in (names[0], names[-1]):
        start, title = starts[pdf.anchor(name)], outline_title(name)
        assert title in " ".join(printed.pages[start - 1].extract_text().split())


def outline_title(name):
    """The first heading of a built page."""
    text = re.search(r"<h1>([^<]*)<a class=.headerlink", (HTML / f"{name}.html").read_text(encoding="utf-8"))[1]
    return html.unescape(re.sub(r"<[^>]+>", "", text)).strip()


def test_no_hint_and_no_solution_stands_before_the_end_of_the_pdf(printed, texts, own):
    if not own[1]:
        return
    last = pdf.targets(printed)[pdf.ANSWERS["anchor"]] - 1
    texts = [" ".join(one.split()) for one in texts]
    before, after = " ".join(texts[:last]), " ".join(texts[last:])
    exercises = sum(len(chapter.card["exercises"]) for chapter in own[1])
    assert "Hint 1" not in before and after.count("Hint 1") == exercises
    asked = sum(len(found) for chapter in own[1] for _, found in with_acts(chapter))
    assert before.count("Two hints and a solution stand at the end of the book") == exercises
    assert before.count("The answer stands at the end of the book") == asked
    assert before.count("at the end of the book") == exercises + asked


def test_the_pdf_is_set_in_the_letters_that_the_book_brings(printed):
    """As fonts, not as drawings of letters, which is what Chromium makes of a variable font."""
    fonts = [font.get_object() for page in printed.pages[:60] for font in page["/Resources"]["/Font"].values()]
    names = {str(font.get("/BaseFont", "")).partition("+")[2] for font in fonts}
    assert {"RebuiltSerif-Regular", "RebuiltSans-Regular", "RebuiltSans-SemiBold", "RebuiltCode-Regular"} <= names


def test_the_pdf_keeps_alt_texts_and_solutions_and_leaves_the_buttons_out(printed, texts, own):
    if not own[1]:
        return
    text = unicodedata.normalize("NFKC", " ".join(" ".join(texts).split()))
    alts = {str(one.get_object().get("/Alt")) for one in printed_objects(printed) if "/Alt" in one.get_object()}
    for chapter in own[1]:
        page = (HTML / f"{chapter.document}.html").read_text(encoding="utf-8")
        figures = re.findall(r'<figure class="rebuilt"><img [^>]*?alt="([^"]+)"', page)
        assert figures and {html.unescape(alt) for alt in figures} <= alts
    assert "Data (CSV" not in text and "mybinder" not in text and "Show all" not in text
    assert "This run: " in text and "def check_" in text


def printed_objects(reader):
    """Every element of the structure tree that is a mapping."""
    found, left = [], [reader.root_object["/StructTreeRoot"]]
    while left:
        one = left.pop().get_object()
        found.append(one)
        kids = one.get("/K", [])
        kids = kids if isinstance(kids, list) else [kids]
        left += [kid for kid in kids if hasattr(kid.get_object(), "get") and "/S" in kid.get_object()]
    return found


def test_the_welcome_page_links_the_pdfs():
    text, repository = (HTML / "book/welcome.html").read_text(encoding="utf-8"), Repository(HOME)
    assert all(f'href="../{pdf_name(repository, name)}"' in text for name in volumes(repository))


def test_the_status_page_shows_every_page_s_weight_and_first_paint():
    found = json.loads((HTML.parent / "page-weight.json").read_text(encoding="utf-8"))
    text = (HTML / "book/status.html").read_text(encoding="utf-8")
    assert set(found["pages"]) == set(Repository(HOME).toc_files)
    for name, page in found["pages"].items():
        own = (HTML / f"{name}.html").stat().st_size
        assert page["bytes"] > own * 0.9 and page["paint_ms"] > 0
        assert f"<td>{number(float(page['bytes']), 'B')}</td>" in text
    assert found["machine"]["cpu"] in text and found["date"][:10] in text
