"""Slides of a chapter from its tagged cells, shown by reveal.js from the bundle: no network is needed.

A Markdown cell tagged `talk` is one slide, and no page shows it. A code cell tagged `slide` puts what the run
displayed on a slide of its own. A cell tagged `instructor` is what the speaker's view says beside the slide before it.
"""

import html
from pathlib import Path

import nbformat

from ... import npm
from ...errors import PressError
from ...files import write_bytes
from ...repository import Chapter, Repository, tags
from . import paper

REVEAL = ("LICENSE", "dist/reveal.js", "dist/reveal.css", "dist/plugin/notes.js")  # of its npm package
CSS = """\
:root { --ink: #1f1f1f; --blue: #0057a0; }
html, body { background: #fff; }
.reveal { font: 30px/1.35 var(--rebuilt-sans, system-ui), sans-serif; color: var(--ink); }
.reveal .slides section { text-align: left; }
.reveal h1 { font-size: 1.9em; line-height: 1.15; margin: 0 0 .5em; }
.reveal h2, .reveal h3 { font-size: 1.25em; margin: 0 0 .6em; color: var(--blue); }
.reveal p, .reveal ul, .reveal ol { margin: 0 0 .6em; } .reveal li { margin: .25em 0; }
.reveal .section-name { font-size: .6em; color: #555; margin: 0 0 .4em; }
.reveal table { border-collapse: collapse; font-size: .62em; } .reveal caption { text-align: left; color: #555; }
.reveal th, .reveal td { padding: .25em .7em; border-bottom: 1px solid #ccc; text-align: left; vertical-align: top; }
.reveal figure { margin: 0; }
.reveal figure img { max-width: 100% !important; max-height: 560px; width: auto !important; }
.reveal figcaption { font-size: .6em; color: #555; }
.reveal pre { font-size: .62em; background: #f3f4f6; padding: .7em 1em; }
.reveal code { font-family: var(--rebuilt-code, ui-monospace), monospace; }
.reveal blockquote { border-left: 6px solid #ccc; margin: 0 0 .6em; padding-left: .8em; }
.reveal .progress { color: var(--blue); } .reveal .controls { color: var(--blue); }
.reveal .slide-number { background: none; color: #555; font-size: 16px; }
.reveal .slide-number a { color: #555; }
"""
SHOW = """\
<script src="{reveal}/reveal.js"></script>
<script src="{reveal}/notes.js"></script>
<script>
Reveal.initialize({{ hash: true, slideNumber: "c/t", width: 1120, height: 720, transition: "none", center: false,
  plugins: [RevealNotes] }});
</script>"""


def slides(chapter: Chapter, executed: nbformat.NotebookNode, static: str, reveal: str = "reveal") -> str:
    """The page of slides; PressError when the chapter tags no cell for them.

    `executed` is the notebook as run; `static` and `reveal` are the places of the book's `_static` and of reveal.js as
    seen from the page.
    """
    shown = [_title(chapter)]
    section = ""
    for cell in executed.cells:
        lines = cell.source.splitlines() if cell.cell_type == "markdown" else []
        section = next((line[3:].strip() for line in lines if line.startswith("## ")), section)
        if "talk" in tags(cell):
            shown.append([_name(section), paper.markdown(cell.source)])
        elif "slide" in tags(cell):
            shown.append([_name(section), *_outputs(chapter, cell)])
        elif "instructor" in tags(cell):
            shown[-1].append(f'<aside class="notes">{paper.markdown(cell.source)}</aside>')
    if len(shown) == 1:
        raise PressError(f"{chapter}: no cell is tagged `talk` or `slide`, so there is nothing to show on slides")
    shown.append(["<h2>Now you</h2>", _exercises(chapter)])
    body = "\n".join(f"<section>{''.join(parts)}</section>" for parts in shown)
    styles = (f"{reveal}/reveal.css", f"{static}/fonts/fonts.css")
    head = "\n".join(f'<link rel="stylesheet" href="{path}">' for path in styles)
    if r"\(" in body or r"\[" in body:
        head += "\n" + paper.mathjax(f"{static}/mathjax/tex-mml-chtml.js")
    body = f'<main class="reveal"><div class="slides">\n{body}\n</div></main>\n{SHOW.format(reveal=reveal)}'
    return paper.page(f"{chapter.card['title']}: slides", body, CSS, head)


def put_reveal(repository: Repository, folder: Path) -> None:
    """Write what the slides need of reveal.js into the folder, its licence with it."""
    for name, content in npm.taken(repository, "reveal.js", REVEAL).items():
        write_bytes(folder / name, content)


def _name(section: str) -> str:
    return f'<p class="section-name">{html.escape(section)}</p>' if section else ""


def _title(chapter: Chapter) -> list[str]:
    card = chapter.card
    article = card["article"]
    by = f"{', '.join(article['authors'])}: {article['title']}. {article['publisher']}, {article['year']}"
    aims = "".join(f"<li>{html.escape(aim)}</li>" for aim in card["objectives"])
    return [
        f"<h1>{html.escape(card['title'])}</h1>",
        f'<p class="section-name">after {html.escape(by)}</p>',
        f"<p>Afterwards you can</p><ul>{aims}</ul>",
        '<aside class="notes">S opens this view, F fills the screen, ESC shows all slides.</aside>',
    ]


def _exercises(chapter: Chapter) -> str:
    rows = [
        f"<li>{html.escape(one['title'])} "
        f"<span class='section-name'>({one['kind']}, {one['minutes']:g} min)</span></li>"
        for one in chapter.card["exercises"]
    ]
    return f"<ol>{''.join(rows)}</ol><p>Two hints each, and a checker that says what is still wrong.</p>"


def _outputs(chapter: Chapter, cell: nbformat.NotebookNode) -> list[str]:
    """What the cell displayed, as HTML; PressError when that is nothing."""
    found = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if "text/html" in data:
            found.append(data["text/html"])
        elif "text/markdown" in data:
            found.append(paper.markdown(data["text/markdown"]))
        elif "image/png" in data:
            found.append(f'<img alt="" src="data:image/png;base64,{data["image/png"]}">')
    if not found:
        raise PressError(f"{chapter}: a cell tagged `slide` displays nothing:\n{cell.source[:200]}")
    return found
