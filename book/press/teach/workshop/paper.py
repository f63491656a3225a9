"""What a class sees and holds, as HTML that needs no network, from the templates in `pages/`.

- slides, shown by reveal.js: a cell tagged `talk` is one; an act, its answer a note; what the run displayed of a cell
  tagged `slide`; a cell tagged `instructor` is what the speaker says to the slide before it
- the learner's handout of one page, from the chapter's card, its recap and its receipts
- the instructor's run-sheet with clock times, what is left out, and what to skip when late"""

import base64
import html
import re
from functools import cache
from pathlib import Path

import nbformat
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup
from mdit_py_plugins.dollarmath import dollarmath_plugin

from ... import npm
from ...errors import PressError
from ...files import write_bytes
from ...ledger import Entry
from ...ledger.tables import measured
from ...repository import Chapter, Repository, tags
from .. import acts
from ..checkpoints import heading
from .schedule import LATE, Block, Plan, clock, skips

FONTS = Path(__file__).resolve().parents[3] / "_static" / "fonts"
REVEAL = ("LICENSE", "dist/reveal.js", "dist/reveal.css", "dist/plugin/notes.js")  # of its npm package
ROLE = re.compile(r"\{(?:cite(?::\w+)?|term|ref|doc|numref)\}`([^`<]*?)\s*(?:<[^`]*>)?`")
SHOWN = {"text/html", "text/markdown", "image/png"}  # of what a cell displays
SIZES = (11, 10, 9.5, 9, 8.5, 8)  # of a handout's letters in points, the first that fits on one page is taken
CLASS = {"act", "talk", "instructor"}  # beside the points to remember


def render(template: str, **values: object) -> str:
    """A whole page in one file, from its template; texts are escaped, Markup is not."""
    return TEMPLATES.get_template(template).render(values)


def markdown(text: str) -> Markup:
    """HTML of Markdown with tables and formulas; the roles of the book become plain words.

    >>> str(markdown("the {term}`tier <tier>`"))
    '<p>the tier</p>\\n'
    """
    return Markup(MARKDOWN.render(ROLE.sub(r"\1", text)))


def _formula(content: str, about: dict) -> str:
    left, right = (r"\[", r"\]") if about["display_mode"] else (r"\(", r"\)")
    return f"{left}{html.escape(content)}{right}"


MARKDOWN = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, renderer=_formula, double_inline=True)
TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("pages")),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters["markdown"] = markdown


@cache
def letters() -> Markup:
    """Styles that hold the book's fonts, so that a page lays its lines out alike on every machine."""

    def held(match: re.Match) -> str:
        font = base64.b64encode((FONTS / match.group(1)).read_bytes()).decode()
        return f'url("data:font/woff2;base64,{font}")'

    sheet = (FONTS / "fonts.css").read_text(encoding="utf-8").replace("optional", "block")  # paper waits for letters
    return Markup(re.sub(r'url\("([\w-]+\.woff2)"\)', held, sheet))


def slides(chapter: Chapter, executed: nbformat.NotebookNode, static: str, reveal: str = "reveal") -> str:
    """The page of slides of a notebook as run; PressError when it tags no cell for them. `static` and `reveal` are
    where the book's `_static` and reveal.js lie, seen from the page."""
    made: list[dict] = [{"section": "", "notes": []}]  # the title
    section = ""
    for cell in executed.cells:
        section = heading(cell) or section
        if {"talk", "slide"} & set(tags(cell)):
            made.append({"section": section, "cell": cell, "notes": []})
        elif "act" in tags(cell):
            act = acts.read(cell)
            asked = {**cell, "source": f"### Your turn\n\n{acts.asked(act)}"}
            made.append({"section": section, "cell": asked, "notes": [acts.answered(act)]})
        elif "instructor" in tags(cell):
            made[-1]["notes"].append(cell.source)
        if "slide" in tags(cell) and not any(SHOWN & set(output.get("data", {})) for output in cell.get("outputs", [])):
            raise PressError(f"{chapter}: a cell tagged `slide` displays nothing:\n{cell.source[:200]}")
    if len(made) == 1:
        raise PressError(f"{chapter}: no cell is tagged `talk` or `slide`, so there is nothing to show on slides")
    return render("slides.html", card=chapter.card, slides=made, static=static, reveal=reveal)


def put_reveal(repository: Repository, folder: Path) -> None:
    """Write what the slides need of reveal.js into the folder, its licence with it."""
    for name, content in npm.taken(repository, "reveal.js", REVEAL).items():
        write_bytes(folder / name, content)


def handout(entry: Entry, address: str, size: float) -> str:
    """The page as HTML with its letters in `size` points; `address` is where the chapter is on the web."""
    text = recap(entry.chapter)
    if not text:
        raise PressError(f"{entry.chapter} has no section `## Recap`, which the handout prints")
    own = {"recap": markdown(text), "address": address, "size": f"{size:g}", "letters": letters(), "measured": measured}
    return render("handout.html", card=entry.chapter.card, findings=entry.findings, **own)


def recap(chapter: Chapter) -> str:
    """The text of the section `Recap`; "" when the chapter has none."""
    own = [cell for cell in chapter.cells if cell.cell_type == "markdown" and not CLASS & set(tags(cell))]
    text = "\n\n".join(cell.source for cell in own)
    found = re.search(r"^## Recap\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def print_pdf(pages: list[str], target: Path, browser: object) -> None:
    """Print the first of `pages` that fits on one sheet, as `target`; PressError when none does."""
    tab = browser.new_page()
    try:
        for text in pages:
            tab.set_content(text, wait_until="load")
            tab.evaluate("document.fonts.ready.then(() => true)")
            made = tab.pdf(prefer_css_page_size=True, print_background=True, tagged=True)
            if len(re.findall(rb"/Type\s*/Page\b", made)) == 1:
                write_bytes(target, made)
                return
    finally:
        tab.close()
    raise PressError(f"{target.name} does not fit on one page even in small letters: shorten the recap or the claims")


def run_sheet(chapters: list[Chapter], plans: list[Plan], start: str) -> str:
    """The page with one timetable for each plan, and the instructor's notes of each section."""
    names = ", ".join(chapter.card["title"] for chapter in chapters)
    own = {"start": start, "clock": clock, "cut_lines": cut_lines, "notes": notes}
    return render("run-sheet.html", names=names, chapters=chapters, plans=plans, **own)


def cut_lines(blocks: list[Block], at: int) -> list[str]:
    """What to skip from here on, for each of the usual delays."""
    said, last = [], None
    for late in LATE:
        chosen = skips(blocks, at, late)
        if chosen is None:
            break
        if chosen != last:
            short = [re.split("[:;]", one.title)[0] if one.kind == "task" else one.title for one in chosen]
            said.append(f"{late} min: skip “{'”, “'.join(short)}”")
        last = chosen
    return said or [f"{LATE[0]} min: nothing left to skip; end {LATE[0]} min later"]


def notes(chapter: Chapter) -> list[tuple[str, str, str]]:
    """Heading, words of the checker or "", and text: of the instructor's cells and of plausible wrong answers."""
    told, under = [], ""
    titles = {one["id"]: one["title"] for one in chapter.card["exercises"]}
    for cell in chapter.cells:
        about = cell.metadata.get("exercise", {})
        under = titles.get(about.get("id")) or heading(cell) or under
        if {"instructor", "wrong"} & set(tags(cell)):
            told.append((under, about.get("message", ""), cell.source))
    return told
