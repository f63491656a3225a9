"""The front page's one chart: every claimed size that was measured or predicted, as a share of what was claimed. A
circle a claim on a log axis, stacked where they meet, a line to what is predicted of the card that the article names:
SVG with links, drawn by `chart.html`, which says the same as a table."""

import math
from collections import Counter, namedtuple

from helpers import verdicts
from helpers.show import Markup

from ..ledger import Finding, Ledger
from ..ledger.tables import block
from ..predict.pages import of_the_named_card
from .gallery import short

WIDTH, STEP, TOP = 460, 11, 30  # of the picture, in its own units
LOW, HIGH = -4, 3  # the powers of ten at its ends; what lies beyond stands there
LABELS = {-4: "1/10,000", -2: "1/100", 0: "as claimed", 2: "100 times"}
SIGNS = {verdicts.HOLDS: "✓", verdicts.FAILS: "✗", verdicts.UNDECIDED: "?"}


# A claimed size: what was measured and what is predicted, over what was claimed, None where not known; its place.
Mark = namedtuple("Mark", "finding got bound x y", defaults=(0.0, 0.0))


def chart(ledger: Ledger) -> Markup:
    """The chart, the strip of directions below it and the table; empty where no size was measured or predicted."""
    sizes = [one for one in ledger.findings if one.claim["kind"] == "size" and float(one.claim["value"]) > 0]
    marks = stacked([mark for mark in map(_mark, sizes) if mark.got or mark.bound])
    if not marks:
        return Markup()
    directions = [one for one in ledger.findings if one.claim["kind"] == "direction"]
    ticks = [(across(10.0**at), LABELS.get(at, ""), at == 0) for at in range(LOW, HIGH + 1)]
    names = {one.__name__: one for one in (across, css, told, short)} | {"SIGNS": SIGNS, "WIDTH": WIDTH, "TOP": TOP}
    height = max(mark.y for mark in marks) + STEP
    held = [sum(one.found == found for one in directions) for found in (verdicts.HOLDS, verdicts.FAILS)]
    return block("face/chart.html", "chart", marks, directions, held, ticks, height, **names)


def _mark(finding: Finding) -> Mark:
    metric, claimed = finding.metric(finding.run), float(finding.claim["value"])
    got, bound = metric and metric["value"] / claimed, of_the_named_card(finding)
    return Mark(finding, got if got and got > 0 else None, bound / claimed if bound else None)


def stacked(marks: list[Mark]) -> list[Mark]:
    """The marks in their places, from left to right, each above those that would lie where it does."""
    taken, made = Counter(), []
    for mark in sorted(marks, key=lambda one: one.got or one.bound):
        column = round(across(mark.got or mark.bound) / STEP)
        taken[column] += 1
        made.append(mark._replace(x=column * STEP, y=TOP + STEP * taken[column]))
    return made


def across(share: float) -> float:
    """Where a share of what was claimed lies, from left to right."""
    return WIDTH * (min(max(math.log10(share), LOW), HIGH) - LOW) / (HIGH - LOW)


def css(finding: Finding) -> str:
    """The classes of a finding's mark: hollow unless a run that may decide measured the article's own case."""
    return finding.word.replace(" ", "-") + " hollow" * (finding.like != verdicts.SAME or bool(finding.barred))


def told(finding: Finding) -> str:
    """What was found, and of what it is another."""
    like = "" if finding.like == verdicts.SAME else f", {finding.like}"
    return f"{finding.word}{like}" + (f" ({finding.barred})" if finding.barred and finding.run else "")
