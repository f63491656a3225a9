"""Pieces of the pages that the machine writes: tables, links, verdicts, and the facts of a run as HTML."""

import html
import re

from helpers.show import number

from ..repository import Chapter, Repository
from .ledger import Run

UP = "../"  # the pages with markers lie in book/


def text(value: object) -> str:
    """The value, safe inside HTML; a line break would end the block."""
    return html.escape(" ".join(str(value).split()))


def table(caption: str, head: list[str], bodies: list[str], css: str = "rebuilt-table") -> str:
    """A table that scrolls inside itself, with a caption and column headers; `bodies` are its `<tbody>`s."""
    columns = "".join(f'<th scope="col">{text(name)}</th>' for name in head)
    return "\n".join(
        [
            f'<div class="{css}" role="region" tabindex="0" aria-label="{text(caption)}">',
            f'<table class="table"><caption>{text(caption)}</caption>',
            f"<thead><tr>{columns}</tr></thead>",
            *bodies,
            "</table>",
            "</div>",
        ]
    )


def row(first: str, *cells: str) -> str:
    """A table row of ready HTML; the first cell is its header."""
    rest = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr><th scope="row">{first}</th>{rest}</tr>'


def link(chapter: Chapter) -> str:
    """A link from a page in `book/` to the chapter."""
    return f'<a href="{UP}{chapter.document}.html">{text(chapter.card.get("title", chapter))}</a>'


def badge(verdict: str) -> str:
    """A verdict as a word with a colour of its own."""
    return f'<span class="verdict {verdict.replace(" ", "-")}">{verdict}</span>'


def measured(metric: dict | None) -> str:
    """A metric with its unit, and its spread where it has one."""
    if not metric:
        return "–"
    value, unit = metric["value"], metric["unit"]
    spread = [number(float(metric[key]), unit) for key in ("low", "high") if key in metric]
    told = f" ({spread[0].removesuffix(f' {unit}')} to {spread[-1]})" if spread else ""
    return number(float(value), unit) + told


def seconds(run: Run) -> str:
    """The wall time of a run."""
    return number(float(run.content["seconds"]), "s").replace(" ", "&nbsp;") if run.content.get("seconds") else "–"


def day(run: Run) -> str:
    """The day of a run, in one piece."""
    return f'<time datetime="{run.date}" style="white-space:nowrap">{run.date}</time>'


def memory(run: Run) -> str:
    """The peak memory of a run, the GPU's beside it where there is one."""
    peak, gpu = run.content.get("peak_memory_bytes"), run.content.get("gpu_peak_memory_bytes")
    told = number(float(peak), "B") if peak else "–"
    return f"{told}, GPU {number(float(gpu), 'B')}" if gpu else told


def pdf_name(repository: Repository) -> str:
    """The file name of the printed book, from its title: `accelerated-systems-rebuilt.pdf`."""
    words = re.findall(r"[a-z0-9]+", str(repository.config.get("title", "book")).lower())
    return f"{'-'.join(words)}.pdf"
