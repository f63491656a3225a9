"""Built pages in, light pages out: one sheet, one script that is read when the page stands, pictures and sounds as
files, fetched when a reader comes near, and formulas that MathJax sets once, in the build, each beside its MathML."""

import base64
import html
import io
import mimetypes
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from rjsmin import jsmin

from .. import chromium
from ..errors import PressError
from ..files import remove, sha256, write_bytes, write_text
from . import styles
from .styles import OWN

SHEET, SCRIPT, MATHS = "_static/book.css", "_static/book.js", "_static/maths.css"
APART = ("_static/mathjax/", "_static/search.js", "_static/search-index.js")  # what only some pages need, or none
TEMPLATES = "_static/*webpack-macros.html"  # of the theme, which copies them into the book
SMALL = 200_000  # bytes; a longer script is a runtime or a model and names no class
WIDEST = 1400  # pixels: figures are at most 7 inches wide on screens of two dots a pixel
PAPER, DRAWN, FLAT, BLANK = 0.65, 0.88, 0.05, 240  # white; white and flat colours; a flat one's; as light as white
ELSE = {"mode": '"auto"', "theme": '(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")'}
FORGETFUL = "<script>try { localStorage } catch { Object.defineProperty(window, 'localStorage', { value: "
FORGETFUL += "{ getItem: () => null, setItem() {}, removeItem() {} } }) }</script>"  # where a browser keeps nothing
BENCH = "_maths.html"
PAGE = Path(__file__).with_name("maths.html")


def slim(made: Path, address: str = "", browser: object = None, also: Iterable[str] = ()) -> None:
    """Cut what every page in the folder asks for; with a browser, which reads it at `address`, set the formulas, too,
    else MathJax stays. `also` names classes that a page made later has."""
    names = [path.relative_to(made).as_posix() for path in sorted(made.rglob("*.html"))]
    own = [name for name in names if not name.startswith(("_static/", "_data/"))]  # of the theme, and of the kits
    pages = {name: text for name in own if "_static/" in (text := _text(made / name))}
    if browser is not None:
        pages = typeset(pages, made, address, browser)
    sheets, scripts = _asked(OWN.LINK, pages), _asked(OWN.ASKED, pages)
    pages = {name: _lighter(page, made, "../" * name.count("/")) for name, page in pages.items()}
    sheet = _sheet(made, sheets, list(pages.values()), also)
    script = joined(made, [one for one in scripts if not OWN.UNUSED.match(one)])
    marked = [f"{name}?v={sha256(text)[:8]}" for name, text in ((SHEET, sheet), (SCRIPT, script))]
    pages = {name: _linked(page, *marked) for name, page in pages.items()}
    if alone := OWN.LINK.sub("", pages.get("404.html", "")):  # it answers at any address, so it has its rules in itself
        inside = OWN.FACE.sub(lambda face: face[0] if "base64" in face[0] else "", sheet)
        own = styles.trimmed(inside, styles.used([alone], []))
        pages["404.html"] = alone.replace("</head>", f"<style>{own}</style>\n</head>")
    for name, text in {**pages, SHEET: sheet, SCRIPT: script}.items():
        write_text(made / name, text)
    gone = [name for name in [*sheets, *scripts] if not name.startswith("_static/fonts/")]  # these slides load, too
    gone += ["_static/vendor", "_static/scripts", "_static/styles"]
    for path in [*map(made.joinpath, gone), *made.glob(TEMPLATES)]:
        remove(path)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _asked(pattern: re.Pattern, pages: dict[str, str]) -> list[str]:
    """The sheets or scripts that all pages share, each once, in their order."""
    found = dict.fromkeys(one[2] for page in pages.values() for one in pattern.finditer(page))
    return [name for name in found if not name.startswith(APART)]


def _lighter(page: str, made: Path, up: str) -> str:
    page = OWN.ICON.sub(r'\1 aria-hidden="true"></i>', OWN.UNSTYLED.sub(r"\1", OWN.DROPPED.sub("", page)))
    page = OWN.ASKS.sub(lambda found: found[1] + ELSE[found[2]], page)
    before, code, after = page.replace("<head>", f"<head>{FORGETFUL}", 1).partition("<pre")
    return inside(outside(re.sub(r"\n\s*\n", "\n", before) + code + after, made, up), made)


def _sheet(made: Path, sheets: list[str], pages: list[str], also: Iterable[str]) -> str:
    """The rules of all sheets that the pages or the scripts may use, with the icons in them."""
    home, files = made / "_static", [*made.glob("_static/**/*.js"), *made.glob("_live/**/*.js")]
    scripts = [_text(path) for path in files if path.stat().st_size < SMALL]
    own = map(_text, made.glob("_live/**/*.css"))
    names = styles.used(pages, scripts) | set(also)
    sheet = "".join(styles.trimmed(styles.read(made / one, home), names) for one in sheets)
    return styles.without_unused_variables(styles.with_letters(sheet, home), [*scripts, *own, *pages])


def joined(made: Path, names: list[str]) -> str:
    """One script of the files `names` below `made`, without comments; begun with `;`: no "use strict" holds."""
    return ";\n" + "\n;\n".join(jsmin(_text(made / name), keep_bang_comments=True) for name in names) + "\n"


def _linked(page: str, sheet: str, script: str) -> str:
    first = OWN.LINK.search(page)
    if first is None:
        return page
    before, page, up = page[: first.start()], page[first.start() :], first[1]
    linked = [sheet, MATHS] if "<mjx-container" in page else [sheet]
    own = "".join(f'\n<link rel="stylesheet" href="{up}{name}">' for name in linked)
    own += f'\n<script defer data-sd-tabs-storage-prefix="sphinx-design-tab-id-" src="{up}{script}"></script>'
    page = OWN.ASKED.sub(lambda found: found[0] if found[2].startswith(APART) else "", OWN.LINK.sub("", page))
    return f"{before}{own}{page}"


def outside(page: str, made: Path, up: str) -> str:
    """The page with its PNGs as WebP files and its sounds as files, below `made/_images`; `up` leads there."""

    def picture(found: re.Match) -> str:
        before, kind, data, after = found.groups()
        data = base64.b64decode(data)
        if kind == "webp":  # of a card or a first screen: it stays inside
            return found[0].replace("<img", "<img" + " data-ink" * _ink(data), 1)
        content, width, height = _webp(data)
        size = "" if "width=" in before + after else f' width="{width}" height="{height}"'
        size += " data-ink" * _ink(data)
        address = f"{up}{_kept(made, content, 'webp')}"
        return f'<img{before} src="{address}"{after.rstrip("/ ")}{size} loading="lazy" decoding="async">'

    def sound(found: re.Match) -> str:
        tag, before, kind, data, after = found.groups()
        return f'<{tag}{before} src="{up}{_kept(made, base64.b64decode(data), kind)}"{after.replace("/", "")}>'

    def said(found: re.Match) -> str:
        return f'"{up}{_kept(made, base64.b64decode(found[2]), found[1])}"'

    page = OWN.SAID.sub(said, OWN.SOUND.sub(sound, OWN.PICTURE.sub(picture, page)))
    return re.sub(r"<audio(?![^>]*preload=)", '<audio preload="none"', page)


def inside(page: str, made: Path) -> str:
    """The page with its logos, a kilobyte or a few each, in its own text: no request for any of them."""

    def logo(found: re.Match) -> str:
        path = made / found[1]
        if not path.is_file():
            return found[0]
        return f'src="data:{mimetypes.guess_type(path)[0]};base64,{base64.b64encode(path.read_bytes()).decode()}"'

    return OWN.LOGO.sub(logo, page)


def _kept(made: Path, content: bytes, kind: str) -> str:
    name = f"_images/{sha256(content)[:16]}.{kind}"
    if not (made / name).is_file():
        write_bytes(made / name, content)
    return name


def _ink(picture: bytes) -> bool:
    """Whether a picture is mostly white, or nearly all white and flat colours as bars are: a dark page turns it over.

    What is transparent is white. Colours count by their upper four bits, dark ones not: they are a picture's ground.
    """
    from PIL import Image

    drawn = Image.open(io.BytesIO(picture)).convert("RGBA")
    drawn = Image.alpha_composite(Image.new("RGBA", drawn.size, "white"), drawn).convert("RGB")
    size = drawn.width * drawn.height
    found = [(many / size, rgb) for many, rgb in drawn.point(lambda value: value & 240).getcolors(size)]
    white = sum(share for share, rgb in found if min(rgb) == BLANK)
    flat = sum(share for share, rgb in found if share > FLAT and min(rgb) < BLANK and max(rgb) > 127)
    return white > PAPER or (white > flat / 2 and white + flat > DRAWN)


def _webp(png: bytes) -> tuple[bytes, int, int]:
    """Of ink a lossless WebP (the PDF unpacks lossy ones), else the smaller of two, and the size on a page."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as drawn:
        picture = drawn.convert("RGBA" if "A" in drawn.getbands() or "transparency" in drawn.info else "RGB")
    width, height = picture.size
    if width > WIDEST:
        picture = picture.resize((WIDEST, round(height * WIDEST / width)), Image.Resampling.LANCZOS)
    forms = []
    for options in [{"lossless": True, "quality": 60}, {"quality": 82}][: 2 - _ink(png)]:
        file = io.BytesIO()
        picture.save(file, "WEBP", method=3, **options)
        forms.append(file.getvalue())
    return min(forms, key=len), *picture.size


def typeset(pages: dict[str, str], made: Path, address: str, browser: object) -> dict[str, str]:
    """The pages with all formulas drawn by the browser, which reads `made` at `address`, and the sheet of their letters
    written; PressError for TeX that MathJax refuses."""
    known = dict.fromkeys(sorted({found[3] for page in pages.values() for found in OWN.FORMULA.finditer(page)}))
    if known:
        drawn, sheet = _drawn(list(known), made, address, browser)
        known = dict(zip(known, drawn, strict=True))
        own = styles.trimmed(sheet.replace(f"{address}_static/", ""), styles.used(drawn, []))
        write_text(made / MATHS, styles.with_letters(own, made / "_static"))
    put = partial(OWN.FORMULA.sub, lambda found: f"{found[1]}{known[found[3]]}{found[4]}")
    return {name: OWN.MATHJAX.sub("", put(page)) for name, page in pages.items()}


def _drawn(wanted: list[str], made: Path, address: str, browser: object) -> tuple[list[str], str]:
    rows = "".join(f'<p data-formula="{html.escape(one, quote=True)}">{one}</p>' for one in wanted)
    path = write_text(made / BENCH, _text(PAGE).replace("FORMULAS", rows))
    try:
        with browser.new_context(viewport={"width": 1400, "height": 900}) as window:
            tab = chromium.page(window, address)
            tab.goto(address + BENCH, wait_until="load")
            return tab.evaluate("drawn()")
    except Exception as error:  # playwright's own kinds, which the press does not import
        raise PressError(f"the formulas cannot be set: {str(error).splitlines()[0]}") from None
    finally:
        path.unlink()
