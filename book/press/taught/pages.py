"""The markers of `book/what_they_taught.md` and `book/errata.md`, written by `pages.html`."""

import math
from collections.abc import Callable
from functools import partial
from statistics import median

from docutils.nodes import make_id

from helpers import verdicts
from helpers.show import Markup, tag

from ..face.gallery import article, short
from ..ledger import Entry, Ledger
from ..ledger.tables import UP, block
from ..predict.kept import ahead, read
from ..repository import Chapter, Repository
from . import lessons
from .hearts import Panel, panels, reached

WIDE, HIGH, EDGE = 360, 250, 34  # of a panel, in its own units; the left edge holds hearts without arithmetic
ACROSS = (-2, 3)  # the powers of ten at the ends, in operations for each byte
FIRST = 0.1  # of the width, where the first of them lies
BOUND = ("memory", "arithmetic", "launches", "link", "waits")
HELD = {"holds here": "holds", "goal met": "holds", "does not hold here": "fails", "goal missed": "fails"}


def markers(repository: Repository, ledger: Ledger) -> dict[str, Callable[..., str]]:
    """What stands at each marker of the two pages, by its name."""
    entries = ledger.entries
    return {
        "roofline": lambda: written("roofline", panels(entries), list(reached(entries)), entries),
        "board": lambda: written("board", panels(entries), list(reached(entries)), entries),
        "kinds": lambda: written("kinds", lessons.kinds(ledger.findings)),
        "reasons": lambda: written("reasons", lessons.reasons(ledger.findings)),
        "plain": partial(_plain, entries),
        "gains": partial(_gains, entries),
        "errata": partial(_errata, repository, entries),
    }


def written(name: str, *values: object) -> Markup:
    """What a macro of `pages.html` makes of the values."""
    own = {one.__name__: one for one in (across, upwards, ends, roof, section, short, median)}
    own |= {"WIDE": WIDE, "HIGH": HIGH, "EDGE": EDGE, "ACROSS": ACROSS, "BOUND": BOUND, "HELD": HELD}
    return block("taught/pages.html", name, *values, REASONS=lessons.REASONS, MISSING=verdicts.NOT_MEASURED, **own)


def across(intensity: float) -> float:
    """Where so many operations for each byte lie from left to right; none at all at the edge."""
    low, high = ACROSS
    power = min(max(math.log10(intensity), low), high) if intensity else low
    return EDGE + (WIDE - EDGE) * (FIRST + (1 - FIRST) * (power - low) / (high - low)) if intensity else EDGE + 6


def ends(panel: Panel) -> tuple[int, int]:
    """The powers of ten of bytes in a second between which a panel's hearts and its roof lie."""
    rates = [one.rate for one in panel.hearts] + [panel.card.bytes_per_s]
    return math.floor(math.log10(min(rates))), math.ceil(math.log10(max(rates)))


def upwards(rate: float, low: int, high: int) -> float:
    """Where so many bytes in a second lie between two powers of ten, from the top down."""
    return HIGH * (1 - (min(max(math.log10(rate), low), high) - low) / (high - low))


def roof(panel: Panel, flops_per_s: float) -> str:
    """The path of a roof: flat at the bandwidth, then down, where arithmetic holds it."""
    flat, end = panel.card.bytes_per_s, 10.0 ** ACROSS[1]
    top, last = upwards(flat, *ends(panel)), upwards(flops_per_s / end, *ends(panel))
    points = [(EDGE, top), (across(flops_per_s / flat), top), (WIDE, last)]
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def section(chapter: Chapter, title: str) -> Markup:
    """A link from a page in `book/` to a section of a chapter."""
    return tag("a", title, href=f"{UP}{chapter.document}.html#{make_id(title)}")


def _plain(entries: list[Entry]) -> Markup:
    found = [kept for kept in (read(entry.chapter) for entry in entries) if kept and "naive" in kept.content["ahead"]]
    behind = [(one.chapter, one.content["ahead"]["naive"], ahead(one).get("naive")) for one in found]
    behind = [row for row in behind if row[-1]]
    return written("plain", [finding for entry in entries for finding in lessons.plain(entry)], behind)


def _gains(entries: list[Entry]) -> Markup:
    found = [(entry.chapter, one) for entry in entries for one in entry.chapter.card.get("gains") or ()]
    by_kind = {kind: [pair for pair in found if pair[1]["kind"] == kind] for kind in lessons.GAINS}
    return written("gains", by_kind, len(entries))


def _errata(repository: Repository, entries: list[Entry]) -> Markup:
    own = [(one.chapter, article(repository, one.chapter), one.chapter.card.get("errata") or []) for one in entries]
    return written("errata", [row for row in own if row[2]])
