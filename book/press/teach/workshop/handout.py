"""The handout: one page on paper for each chapter, from its card, its recap and its receipts."""

import html
import re
from pathlib import Path

from ...errors import PressError
from ...files import write_bytes
from ...ledger import Entry
from ...ledger.tables import measured
from ...markup import html_table
from ...repository import Chapter
from . import paper

CSS = """\
@page { size: A4; margin: 14mm; }
body { font: SIZEpt/1.35 var(--rebuilt-sans); color: #1f1f1f; margin: 0; }
h1 { font-size: 1.8em; margin: 0 0 .2em; } h2 { font-size: 1.15em; margin: .9em 0 .2em; color: #0057a0; }
p, ul, ol { margin: .2em 0; } ul, ol { padding-left: 1.3em; }
table { border-collapse: collapse; width: 100%; font-size: .9em; } caption { text-align: left; color: #555; }
th, td { text-align: left; vertical-align: top; font-weight: 400; }
th, td { padding: .15em .5em .15em 0; border-bottom: 1px solid #ccc; }
.quiet { color: #555; }
"""
SIZES = (11, 10, 9.5, 9, 8.5, 8)  # points, the first that fits on one page is taken


def handout(entry: Entry, address: str, size: float) -> str:
    """The page as HTML with its letters in `size` points; `address` is where the chapter is on the web."""
    chapter, card, article = entry.chapter, entry.chapter.card, entry.chapter.card["article"]
    title, publisher = html.escape(article["title"]), html.escape(article["publisher"])
    by = f"{html.escape(', '.join(article['authors']))}: <em>{title}</em>. {publisher}"
    aims = "".join(f"<li>{html.escape(one)}</li>" for one in card["objectives"])
    tasks = "".join(
        f"<li>{html.escape(one['title'])} ({one['kind']}, {one['minutes']:g} min)</li>" for one in card["exercises"]
    )
    body = [
        f"<h1>{html.escape(card['title'])}</h1>",
        f"<p>{html.escape(card['summary'])}</p>",
        f'<p class="quiet">After {by}, {article["year"]}.</p>',
        f"<h2>Afterwards you can</h2><ul>{aims}</ul>",
        f"<h2>To remember</h2>{paper.markdown(recap(chapter))}",
        f"<h2>What the article claimed, and what was measured</h2>{_claims(entry)}",
        f"<h2>Exercises</h2><ol>{tasks}</ol>",
        "<h2>When something fails</h2><p>Read the last line of the error: it names what to change. After a restart, "
        "run the first cells and the folded <em>Starting here</em> cell of your section.</p>",
        f'<p class="quiet">The chapter: {html.escape(address)}. Text and figures: CC BY 4.0, code: BSD-3-Clause.</p>',
    ]
    css = paper.letters() + CSS.replace("SIZE", f"{size:g}")
    return paper.page(f"{card['title']}: handout", "\n".join(body), css)


def recap(chapter: Chapter) -> str:
    """The text of the section `Recap`; PressError when the chapter has none."""
    for cell in chapter.cells:
        found = re.search(r"^## Recap\n(.*?)(?=^## |\Z)", cell.source, re.MULTILINE | re.DOTALL)
        if cell.cell_type == "markdown" and found:
            return found.group(1).strip()
    raise PressError(f"{chapter} has no section `## Recap`, which the handout prints")


def _claims(entry: Entry) -> str:
    rows = []
    for finding in entry.findings:
        run = finding.run
        where = f", {run.machine}, {run.date}" if run else ""
        rows.append([f"“{finding.claim['quote']}”", f"{measured(finding.metric(run))}{where}", finding.verdict])
    caption = "Each decided by the newest run on hardware that can test it"
    return html_table(caption, ["the article says", "measured", "verdict"], [rows])


def print_pdf(pages: list[str], target: Path, browser: object) -> int:
    """The number of the first of `pages` that the browser prints on one sheet, written to `target`.

    Raises PressError when none does.
    """
    tab = browser.new_page()
    try:
        for number, text in enumerate(pages):
            tab.set_content(text, wait_until="load")
            tab.evaluate("document.fonts.ready.then(() => true)")
            made = tab.pdf(prefer_css_page_size=True, print_background=True, tagged=True)
            if len(re.findall(rb"/Type\s*/Page\b", made)) == 1:
                write_bytes(target, made)
                return number
    finally:
        tab.close()
    raise PressError(f"{target.name} does not fit on one page even in small letters: shorten the recap or the claims")
