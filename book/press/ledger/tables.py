"""Pieces of the pages that the machine writes: links, verdicts, and the facts of a run, as cells of `html_table`."""

import html
import re

from helpers.receipts import text as measured
from helpers.show import Markup, number, tag

from ..markup import html_table, row
from ..repository import Chapter, Repository
from .ledger import BUSY_CORES, Run

__all__ = ["Markup", "html_table", "measured", "row", "tag"]
UP = "../"  # the pages with markers lie in book/


def joined(*parts: object, between: str = "") -> Markup:
    """Texts and markup in one piece, the texts escaped; a line break would end the block of HTML."""
    told = (part if isinstance(part, Markup) else html.escape(re.sub(r"[ \t\n\r]+", " ", str(part))) for part in parts)
    return Markup(between.join(told))


def defined(told: dict) -> Markup:
    """Names with what is said of each, as a `<dl>`."""
    return tag("dl", joined(*(tag("div", joined(tag("dt", name), tag("dd", one))) for name, one in told.items())))


def link(chapter: Chapter) -> Markup:
    """A link from a page in `book/` to the chapter."""
    return tag("a", str(chapter.card.get("title", chapter)), href=f"{UP}{chapter.document}.html")


def badge(verdict: str) -> Markup:
    """A verdict as a word with a colour of its own."""
    return tag("span", verdict, class_=f"verdict {verdict.replace(' ', '-')}")


def stale(run: Run, words: str) -> Markup:
    """The words as a mark for a run of other code than today's; another for code that was not committed."""
    told = {words: run.stale, "its code was not committed": run.uncommitted, "decides nothing": run.barred}
    return _mark("; ".join(one for one, holds in told.items() if holds))


def beside(run: Run) -> Markup:
    """A mark for a run beside other work, in a slow phase of the machine or unseen; nothing for a quiet one."""
    if run.busy_cores >= BUSY_CORES:
        return _mark(f"beside other work on {run.busy_cores:.1f} cores: its timings are of both")
    if run.unseen:
        return _mark(f"{' and '.join(run.unseen)} recorded beside it: its timings may be of other work, too")
    words = f"in a slow phase of the machine, {run.phase:.1f} times its fastest: its timings are of that, too"
    return _mark(words * run.disturbed)


def _mark(words: str) -> Markup:
    return Markup(f" {tag('span', words, class_='rebuilt-stale')}" if words else "")


def seconds(run: Run) -> Markup:
    """The wall time of a run, in one piece."""
    took = run.content.get("seconds")
    return Markup(number(float(took), "s").replace(" ", "&nbsp;") if took else "–")


def day(run: Run) -> Markup:
    """The day of a run, in one piece."""
    return tag("time", run.date, datetime=run.date, style="white-space:nowrap")


def memory(run: Run) -> str:
    """The peak memory of a run, the GPU's beside it where there is one."""
    peak, gpu = run.content.get("peak_memory_bytes"), run.content.get("gpu_peak_memory_bytes")
    told = number(float(peak), "B") if peak else "–"
    return f"{told}, GPU {number(float(gpu), 'B')}" if gpu else told


def plain(value: object) -> str:
    """A value of a receipt in words: names with their values, lists with commas, numbers with separators."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {plain(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,}"
    return "not known" if value is None else str(value)


def pdf_name(repository: Repository) -> str:
    """The file name of the printed book, from its title: `accelerated-systems-rebuilt.pdf`."""
    return "-".join(re.findall(r"[a-z0-9]+", str(repository.config.get("title", "book")).lower())) + ".pdf"
