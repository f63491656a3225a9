"""What pages weigh: rules, icons and pictures cut from texts written by hand, then a small site, then the real book."""

import base64
import io
import shutil

import pytest
from PIL import Image

from press import chromium
from press.errors import PressError
from press.files import read_json
from press.lean import slim, styles
from press.repository import HOME, Repository
from press.server import site

BYTES, REQUESTS, PAINT_MS = 1_000_000, 15, 500
BOOK = HOME / "_build" / "html"
SHEET = """@charset "utf-8";
.kept, .gone > p { color: red } /* a comment */
.gone { color: blue }
p:not(.gone)::before { content: "a, b" }
@media print { .gone { top: 0 } .kept { top: 1px } }
@media (width < 9px) { .gone { top: 0 } }
nav a, .a\\:b { top: 2px }"""


def test_only_rules_that_can_apply_are_kept():
    names = styles.used(['<p class="kept a:b">'], [])
    made = styles.trimmed(SHEET, names)
    assert ".gone" not in made.replace(":not(.gone)", "") and "comment" not in made and "@charset" not in made
    assert ".kept{color: red}" in made and 'p:not(.gone)::before{content: "a, b"}' in made
    assert "@media print {.kept{top: 1px}" in made and "width < 9px" not in made
    assert ".a\\:b{top: 2px}" in made and "nav" not in made


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        (".a .b", {"a", "b"}),
        ("li.a > ul#b", {"li", "a", "ul", "b"}),
        (":is(.a, .b) p", {"p"}),
        ('a[href^=".x"]:hover', {"a"}),
        ("html[data-theme=dark] .a:not(.b:not(.c))", {"html", "a"}),
        ("p:nth-child(2n + 1)::after", {"p"}),
    ],
)
def test_a_selector_demands_its_classes_ids_and_elements(selector, wanted):
    rule = f"{selector}{{top:0}}"
    assert styles.trimmed(rule, wanted)
    assert not any(styles.trimmed(rule, wanted - {one}) for one in wanted)


def test_what_a_script_names_is_kept():
    assert {"shown", "fade"} <= styles.used([], ['box.classList.add("shown");', "x.className='fade in'"])


def test_unread_variables_go_with_those_that_only_they_read():
    sheet = "a{--a:1px;--b: var(--c);--c:2px;top:var(--a)}b{--d:#fff}"
    assert styles.without_unused_variables(sheet, ["style=--d"]) == "a{--a:1px;top:var(--a)}b{--d:#fff}"


def test_a_sheet_stands_in_the_place_of_its_import(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "a.css").write_text("a{background:url(a.svg)}")
    (tmp_path / "b" / "b.css").write_text('@import "../a.css";b{background:url("../c/b.svg"),url(data:b)}')
    assert styles.read(tmp_path / "b" / "b.css", tmp_path) == (
        'a{background:url(a.svg)}b{background:url("c/b.svg"),url(data:b)}'
    )


def font_folder(tmp_path):
    """A folder with one font of many letters, under a name of the theme's kind."""
    from matplotlib import get_data_path

    shutil.copyfile(f"{get_data_path()}/fonts/ttf/DejaVuSans.ttf", tmp_path / "icons.ttf")
    return tmp_path


def test_of_an_icon_font_only_drawn_letters_remain(tmp_path):
    from fontTools.ttLib import TTFont

    face = '@font-face {font-family:I;font-weight:900;src:url(icons.woff2) format("woff2")}'
    rule = 'a:before{font-family:I;content:"\\41"}'
    made = styles.with_letters(face + rule, font_folder(tmp_path))
    data = base64.b64decode(made.split("base64,")[1].split('"')[0])
    assert list(TTFont(io.BytesIO(data)).getBestCmap()) == [0x41] and "font-weight:900" in made and "icons" not in made
    other, unknown = rule.replace("41", "e0ff"), face.replace("icons", "other")
    assert styles.with_letters(face + other, tmp_path) == other, "a font that draws nothing goes"
    assert styles.with_letters(face + "b{top:0}", tmp_path) == "b{top:0}", "and one that no rule names"
    assert styles.with_letters(unknown + rule, tmp_path) == unknown + rule


def test_the_same_letters_are_the_same_bytes_at_any_time(tmp_path, monkeypatch):
    from fontTools.ttLib.tables import _h_e_a_d as head

    made = []
    for now in (4e9, 5e9):
        monkeypatch.setattr(head, "timestampNow", lambda now=now: int(now))
        made.append(styles.subset(font_folder(tmp_path) / "icons.ttf", "A"))
    assert made[0] == made[1] != b""


def png(width=20, height=10, colour="white"):
    """A PNG in base64."""
    file = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def test_a_picture_becomes_a_lazy_webp_file_of_the_same_size(tmp_path):
    page = slim.outside(f'<img src="data:image/png;base64,{png()}" alt="x"/>', tmp_path, "../")
    (file,) = (tmp_path / "_images").iterdir()
    size = 'width="20" height="10" data-ink'
    assert page == f'<img src="../_images/{file.name}" alt="x" {size} loading="lazy" decoding="async">'
    with Image.open(file) as made:
        assert made.format == "WEBP" and made.size == (20, 10) and made.getpixel((0, 0)) == (255, 255, 255)
    slim.outside(f'<img src="data:image/png;base64,{png()}">', tmp_path, "")
    assert len(list((tmp_path / "_images").iterdir())) == 1, "the same picture is one file"


@pytest.mark.parametrize("colour, ink", [("white", True), ((250, 250, 250), True), ("grey", False), ("navy", False)])
def test_what_is_drawn_on_white_is_marked_for_dark_pages(tmp_path, colour, ink):
    page = slim.outside(f'<img src="data:image/png;base64,{png(colour=colour)}">', tmp_path, "")
    assert ("data-ink" in page) is ink
    (file,) = (tmp_path / "_images").iterdir()
    small = f'src="data:image/webp;base64,{base64.b64encode(file.read_bytes()).decode()}">'
    assert slim.outside(f"<img {small}", tmp_path, "") == f"<img {'data-ink ' * ink}{small}"


def drawing(colours, mode="RGB", ground="white"):
    """A PNG of 100 × 100 pixels whose lower half has a column of each colour."""
    page, file = Image.new(mode, (100, 100), ground), io.BytesIO()
    for at, colour in enumerate(colours):
        page.paste(colour, (at, 50, at + 1, 100))
    page.save(file, "PNG")
    return file.getvalue()


BLUE, NAVY = (0, 114, 178), (0, 34, 78)
MANY = [(160 + 13 * at % 96, 7 * at % 256, 29 * at % 256) for at in range(100)]


@pytest.mark.parametrize(
    "what, ink",
    [
        (drawing([BLUE] * 70), True),
        (drawing([NAVY] * 70), False),  # the dark ground of a picture
        (drawing(MANY), False),
        (drawing([(0, 0, 0, 255)] * 10, "RGBA", (0, 0, 0, 0)), True),  # on no ground at all
    ],
)
def test_bars_are_ink_and_so_is_what_is_drawn_on_nothing(what, ink):
    assert slim._ink(what) is ink


def test_ink_stays_as_it_was_drawn_to_the_pixel():
    import numpy as np

    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    page = Image.new("RGB", (200, 200), "white")
    page.paste(Image.fromarray(noise), (0, 0))
    file = io.BytesIO()
    page.save(file, "PNG")
    made, _, _ = slim._webp(file.getvalue())
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(made)).convert("RGB")), np.asarray(page))


def test_a_sound_becomes_a_file_that_waits_for_its_listener(tmp_path):
    sound = base64.b64encode(b"RIFF").decode()
    page = f'<audio  controls="controls" ><source src="data:audio/wav;base64,{sound}" type="audio/wav" /></audio>'
    made = slim.outside(page, tmp_path, "")
    (file,) = (tmp_path / "_images").iterdir()
    assert file.read_bytes() == b"RIFF" and '<audio preload="none"' in made and f'src="_images/{file.name}"' in made


def test_a_card_s_picture_of_many_bytes_stays_inside(tmp_path):
    file = io.BytesIO()
    Image.effect_noise((200, 200), 90).save(file, "WEBP", lossless=True)
    page = f'<img src="data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}" alt="">'
    assert len(page) > 8000 and slim.outside(page, tmp_path, "") == page


def test_a_picture_that_a_script_shows_becomes_a_file_that_the_script_asks_for(tmp_path):
    picture = base64.b64encode(bytes(4000)).decode()
    made = slim.outside(f'<script>show({{"face": "data:image/jpeg;base64,{picture}"}})</script>', tmp_path, "../")
    (file,) = (tmp_path / "_images").iterdir()
    assert file.read_bytes() == bytes(4000) and made == f'<script>show({{"face": "../_images/{file.name}"}})</script>'


def test_a_strict_first_script_makes_no_other_strict(tmp_path):
    (tmp_path / "a.js").write_text('"use strict";\nlet a = 1')
    (tmp_path / "b.js").write_text("c = a + 1")
    made = slim.joined(tmp_path, ["a.js", "b.js"])
    assert made.startswith(";\n") and made.index("a=1") < made.index("c=a")


PAGE = """<html><head>
<link rel="stylesheet" href="{up}_static/styles/theme.css?digest=1" />
<link href="{up}_static/own.css" rel="stylesheet" />
<script src="{up}_static/vendor/fontawesome/6/js/all.min.js?digest=1"></script>
<script src="{up}_static/a.js?v=1"></script>
<script>let toggleHintShow = 'Show';</script>
<script>DOCUMENTATION_OPTIONS.pagename = 'b';</script>
{more}</head><body><p class="red">a <i class="fa-solid fa-x"></i></p><span class="n">name</span>{body}</body></html>"""
TEX = r'<span class="math notranslate nohighlight">\(a &lt; \sqrt{b}\)</span>'


@pytest.fixture
def small_site(tmp_path):
    """A site of two pages, one of them in a folder, with what a theme brings."""
    (tmp_path / "_static" / "styles").mkdir(parents=True)
    (tmp_path / "_static" / "vendor" / "fontawesome" / "6" / "webfonts").mkdir(parents=True)
    files = {
        "styles/theme.css": ".red{color:red}.blue{color:blue}",
        "own.css": ".red{background:url(x.svg)}",
        "a.js": "a()",
    }
    for name, text in files.items():
        (tmp_path / "_static" / name).write_text(text)
    (tmp_path / "index.html").write_text(PAGE.format(up="", more="", body=""))
    (tmp_path / "book").mkdir()
    mathjax = '<script defer="defer" src="../_static/mathjax/tex-mml-chtml.js?v=1"></script>\n'
    (tmp_path / "book" / "b.html").write_text(PAGE.format(up="../", more=mathjax, body=TEX))
    return tmp_path


def test_a_site_has_one_sheet_and_one_script_and_no_icon_fonts_of_a_megabyte(small_site):
    slim.slim(small_site, also=["blue"])
    page = (small_site / "book" / "b.html").read_text()
    assert page.count("<link") == 1 and 'href="../_static/book.css?v=' in page
    assert page.count("<script") == 4 and 'src="../_static/book.js?v=' in page
    assert "tex-mml-chtml" in page, "without a browser the page sets its formulas itself"
    assert "fontawesome" not in page and "toggleHintShow" in page and "pagename" not in page
    sheet = (small_site / "_static" / "book.css").read_text()
    assert ".blue" in sheet and "url(x.svg)" in sheet
    assert not (small_site / "_static" / "vendor").exists() and not (small_site / "_static" / "a.js").exists()
    assert "name</body>" in page.replace(TEX, "") and 'aria-hidden="true"' in page


ASKS = "".join(f'document.documentElement.dataset.{n} = localStorage.getItem("{n}") || "";' for n in ("mode", "theme"))


def test_a_first_visit_has_the_machine_s_theme_before_anything_is_painted(small_site, browser):
    page = small_site / "index.html"
    page.write_text(page.read_text().replace("<head>", f"<head><script>{ASKS}</script>"))
    slim.slim(small_site)
    with site(small_site) as address:
        for scheme in ("dark", "light"):
            window = browser.new_page(color_scheme=scheme)
            window.goto(address)
            assert window.evaluate("({...document.documentElement.dataset})") == {"mode": "auto", "theme": scheme}
            window.close()


def test_where_a_browser_keeps_nothing_the_page_s_scripts_run_all_the_same(small_site, browser):
    refused = "Object.defineProperty(window, 'localStorage', {configurable: true, get() { throw new Error('shut'); }})"
    page = small_site / "index.html"
    page.write_text(page.read_text().replace("<head>", f"<head><script>{ASKS}</script>"))
    slim.slim(small_site)
    with site(small_site) as address:
        window, errors = browser.new_page(), []
        window.add_init_script(refused)
        window.on("pageerror", lambda error: errors.append(str(error)))
        window.goto(address)
        assert window.evaluate("document.documentElement.dataset.mode") == "auto" and "shut" not in str(errors)
        window.close()


def test_the_404_page_has_its_rules_in_itself(small_site):
    (small_site / "404.html").write_text(PAGE.format(up="https://x.org/b/", more="", body=""))
    slim.slim(small_site)
    page = (small_site / "404.html").read_text()
    assert "<style>" in page and ".red{color:red}" in page and "stylesheet" not in page
    assert 'src="https://x.org/b/_static/book.js' in page


def with_mathjax(folder):
    (folder / "_static" / "mathjax").symlink_to(HOME / "book" / "_static" / "mathjax")


def test_formulas_are_set_once_and_pages_load_no_mathjax(small_site, browser):
    with_mathjax(small_site)
    with site(small_site) as address:
        slim.slim(small_site, address, browser)
        page = (small_site / "book" / "b.html").read_text()
        assert "tex-mml-chtml" not in page and "_static/maths.css" in page and r"\sqrt" not in page
        assert "maths.css" not in (small_site / "index.html").read_text()
        window = browser.new_page()
        asked = []
        window.on("request", lambda request: asked.append(request.url))
        window.goto(f"{address}book/b.html")
        drawn = window.evaluate("document.querySelector('mjx-container').getBoundingClientRect().toJSON()")
        heard = window.evaluate("document.querySelector('mjx-container math').outerHTML")
        family = window.evaluate("getComputedStyle(document.querySelector('mjx-c'), '::before').fontFamily")
        window.close()
    assert drawn["width"] > 20 and 10 < drawn["height"] < 60 and "MJX" in family
    assert "<msqrt>" in heard and heard.count("<mi") == 2
    assert not [one for one in asked if "mathjax" in one.lower()] and not (small_site / slim.BENCH).exists()


def test_tex_that_mathjax_refuses_stops_the_build(small_site, browser):
    with_mathjax(small_site)
    page = small_site / "book" / "b.html"
    page.write_text(page.read_text().replace(r"\sqrt{b}", r"\sqrt{b"))
    with site(small_site) as address, pytest.raises(PressError, match="formulas cannot be set.*sqrt"):
        slim.slim(small_site, address, browser)


def light_pages():
    """The pages of the whole book without a live model of their own."""
    repository = Repository(HOME)
    live = {chapter.document for chapter in repository.chapters if chapter.card.get("live")}
    home = repository.toc_files[0]
    return [name for name in repository.toc_files if name not in live and name != home]


needs_the_book = pytest.mark.skipif(not (BOOK / "index.html").is_file(), reason="the book is not built: make book")


@needs_the_book
def test_every_page_as_the_build_weighed_it_is_light():
    weighed = (read_json(HOME / "_build" / "page-weight.json") or {}).get("pages", {})
    heavy = {name: one for name, one in weighed.items() if one["bytes"] > BYTES or one["requests"] > REQUESTS}
    assert heavy == {}, "a chapter with a live model asks for it when it is touched"


ASKED = """() => performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource"))
  .filter((one) => ![...document.querySelectorAll("img[loading=lazy]")].some((lazy) => lazy.src === one.name))
  .map((one) => [one.name, one.encodedBodySize])"""


@needs_the_book
@pytest.mark.parametrize("width", [1400, 360])
def test_the_heaviest_page_without_a_model_asks_for_little(browser, width):
    heaviest = max(light_pages(), key=lambda name: (BOOK / f"{name}.html").stat().st_size)
    with site(BOOK) as address:
        window = browser.new_context(viewport={"width": width, "height": 900})
        page = chromium.page(window, address)
        page.goto(f"{address}{heaviest}.html", wait_until="load")
        page.wait_for_load_state("networkidle")
        asked = page.evaluate(ASKED)
        window.close()
    assert len(asked) <= REQUESTS and sum(size for _, size in asked) <= BYTES, asked
