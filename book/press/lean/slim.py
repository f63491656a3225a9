"""The whole cut: built pages in, light pages out."""

import re
from collections.abc import Iterable
from pathlib import Path
from posixpath import normpath

from ..files import remove, sha256, write_text
from . import icons, images, maths, scripts, styles

SHEET, SCRIPT = "_static/book.css", "_static/book.js"
LINK = re.compile(r'\s*<link\b[^>]*\bhref="([^"?]*?)(_static/[^"?]*\.css)(?:\?[^"]*)?"[^>]*/?>')
PRELOAD = re.compile(r'\s*<link rel="preload"[^>]*/?>')
COMMENT = re.compile(r"<!--(?!\[if).*?-->", re.DOTALL)
UNSTYLED = re.compile(r'<span class="(?:n|p|w|x)">([^<]*)</span>')  # code in the colour of the text around it
RELATIVE = re.compile(r"url\(\s*([\"']?)(?!data:|#|https?:|/)([^\"')]+)\1\s*\)")
STYLE = re.compile(r'style="[^"]*"|<style[^>]*>.*?</style>', re.DOTALL)
FONT_AWESOME = "_static/vendor/fontawesome"
KEPT_STATIC = ("_static/fonts/", "_static/mathjax/")  # what slides of a workshop load by themselves
SMALL = 200_000  # bytes; a longer script is a runtime or a model and names no class


def slim(made: Path, address: str = "", browser: object = None, also: Iterable[str] = ()) -> None:
    """Cut what every page in the folder asks for; with a browser, which reads it at `address`, formulas are set, too.

    Without one the pages with formulas keep MathJax. `also` names classes that a page made later has.
    """
    pages = {path.relative_to(made).as_posix(): path.read_text(encoding="utf-8") for path in _pages(made)}
    if browser is not None:
        pages = maths.typeset(pages, made, address, browser)
    sheets, shared, settings = _asked(pages)
    texts = [path.read_text(encoding="utf-8") for path in _scripts(made)]
    pages = {name: _page(made, name, page) for name, page in pages.items()}
    sheet = _sheet(made, sheets, styles.used(pages.values(), texts) | set(also))
    own = [path.read_text(encoding="utf-8") for path in made.glob("_live/**/*.css")]
    sheet = styles.without_unused_variables(sheet, [*texts, *own, *map(_inline, pages.values())])
    script = scripts.joined(made, shared, settings)
    marks = {SHEET: sha256(sheet)[:8], SCRIPT: sha256(script)[:8]}
    write_text(made / SHEET, sheet)
    write_text(made / SCRIPT, script)
    for name, page in pages.items():
        write_text(made / name, _linked(page, marks))
    _forget(made, [*sheets, *shared])


def _pages(made: Path) -> list[Path]:
    """The pages; not the theme's templates, which Sphinx copies, and not what lies in `_data` for downloads."""
    found = [
        path for path in sorted(made.rglob("*.html")) if path.relative_to(made).parts[0] not in ("_static", "_data")
    ]
    return [path for path in found if "_static/" in path.read_text(encoding="utf-8")]


def _scripts(made: Path) -> list[Path]:
    """The scripts that may write an element with a class."""
    found = [*made.glob("_static/**/*.js"), *made.glob("_live/**/*.js")]
    return [path for path in found if path.stat().st_size < SMALL and "mathjax" not in path.parts]


def _asked(pages: dict[str, str]) -> tuple[list[str], list[str], list[str]]:
    """The sheets, scripts and settings that the pages ask for, each once, in their order."""
    sheets, shared, settings = {}, {}, {}
    for page in pages.values():
        sheets.update((found[2], None) for found in LINK.finditer(page))
        shared.update((f"_static/{one.partition('_static/')[2]}", None) for one in scripts.common(page))
        settings.update((one, None) for one in scripts.constants(page))
    return list(sheets), list(shared), list(settings)


def _page(made: Path, name: str, page: str) -> str:
    """One page with its pictures outside, its logos inside, and nothing that nobody reads."""
    page = PRELOAD.sub("", COMMENT.sub("", page))
    page = re.sub(r"\n\s*\n+", "\n", page) if "<pre" not in page else page
    page = UNSTYLED.sub(r"\1", page)
    page = re.sub(r'<i class="([^"]*\bfa[^"]*)"></i>', r'<i class="\1" aria-hidden="true"></i>', page)
    return images.inside(images.outside(page, made, "../" * name.count("/")), made)


def _inline(page: str) -> str:
    """What the elements of a page say of their own styles."""
    return " ".join(STYLE.findall(page))


def _sheet(made: Path, sheets: list[str], names: set[str]) -> str:
    """The rules of all sheets that the pages use, with the icons in them."""
    trimmed = []
    for one in sheets:
        text, folder = styles.read(made / one), one.rpartition("/")[0].removeprefix("_static").strip("/")
        if not one.startswith(FONT_AWESOME):  # its fonts are found by their names
            text = RELATIVE.sub(lambda found, at=folder: f"url({found[1]}{_below(at, found[2])}{found[1]})", text)
        trimmed.append(styles.trimmed(text, names))
    sheet = styles.without_unused_letters("".join(trimmed))
    folder = next((made / FONT_AWESOME).glob("*/webfonts"), None)
    return icons.embedded(sheet, folder, icons.letters(sheet)) if folder else sheet


def _below(folder: str, address: str) -> str:
    return normpath(f"{folder}/{address}").removeprefix("/")


def _linked(page: str, marks: dict[str, str]) -> str:
    """The page with the one sheet and the one script in place of the many."""
    first = LINK.search(page)
    if first is None:
        return page
    up = first[1]
    own = f'\n<link rel="stylesheet" href="{up}{SHEET}?v={marks[SHEET]}">'
    own += f'\n<link rel="stylesheet" href="{up}{maths.SHEET}">' * ("<mjx-container" in page)
    page = f"{page[: first.start()]}\0{page[first.end() :]}"
    page = LINK.sub("", page).replace("\0", own, 1)
    return scripts.replaced(page, f"{up}{SCRIPT}?v={marks[SCRIPT]}")


def _forget(made: Path, joined: list[str]) -> None:
    """Take away the files that are joined now, and the icons' fonts."""
    for name in joined:
        if not name.startswith(KEPT_STATIC):
            (made / name).unlink(missing_ok=True)
    for name in ("vendor", "scripts", "styles"):
        remove(made / "_static" / name)
