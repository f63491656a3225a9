"""The chapters as cards, and the numbers of the welcome page, all from cards, receipts and the ledger.

Without a script a gallery is a plain list; `book/_static/gallery.js` puts chips above it that filter it.
"""

from dataclasses import dataclass

from helpers.show import Markup, number, tag

from ..ledger import TESTED, VERDICTS, Entry, Finding, Ledger
from ..ledger.tables import UP, badge, joined
from ..repository import Chapter, Repository
from .pictures import picture

LENGTHS = ((60, "up to 1 hour"), (120, "up to 2 hours"))
HARDWARE = {"none": "no GPU", "optional": "GPU optional", "required": "GPU required"}


@dataclass(frozen=True)
class Tile:
    """What one card of the gallery shows."""

    part: str
    short: str
    title: str
    href: str
    minutes: int
    hardware: str
    live: bool
    result: Markup
    totals: dict[str, int]
    image: Markup
    colab: str = ""

    @property
    def length(self) -> str:
        """The chip of its time."""
        return next((words for most, words in LENGTHS if self.minutes <= most), "longer")


def in_order(repository: Repository, entries: list[Entry]) -> list[Entry]:
    """The entries as the book's contents order them."""
    files = repository.toc_files
    last = len(files)
    return sorted(entries, key=lambda e: files.index(e.chapter.document) if e.chapter.document in files else last)


def captions(repository: Repository) -> dict[str, str]:
    """The caption of each part in the contents, by the folder that its notebooks lie in."""
    found = {}
    for part in repository.toc.get("parts") or []:
        for one in part.get("chapters") or []:
            folders = str(one.get("file", "")).split("/")
            if folders[0] == "notebooks":
                found.setdefault(folders[1], str(part.get("caption", folders[1])))
    return found


def short(chapter: Chapter) -> str:
    """The chapter's short title, for menus and cards."""
    return str(chapter.card.get("short") or chapter.card.get("title") or chapter.stem)


def minutes(chapter: Chapter) -> int:
    """The reader's minutes, exercises and all."""
    return sum(section["minutes"] for section in chapter.card.get("sections") or [])


def decided(entry: Entry) -> Finding | None:
    """The finding that stands for a chapter: its first claim with a verdict of like with like, else the first measured.

    The order is the card's; how it came out does not matter. An equality is a check rather than a result.
    """
    measured = [one for one in entry.findings if one.metric(one.run) and not one.claim.get("goal")]
    measured.sort(key=lambda one: one.claim["better"] == "equal")
    return next((one for one in measured if one.verdict in TESTED), next(iter(measured), None))


def result(finding: Finding | None) -> Markup:
    """Measured beside claimed, and the verdict, in a line."""
    if finding is None:
        return tag("span", "no claim measured yet")
    metric, claim = finding.metric(finding.run), finding.claim
    got, said = number(float(metric["value"]), metric["unit"]), number(float(claim["value"]), claim["unit"])
    return joined(tag("strong", got), " measured, ", said, " claimed: ", badge(finding.verdict))


def tile(entry: Entry, caption: str, colab: str = "") -> Tile:
    """The card of one chapter that has run."""
    chapter = entry.chapter
    drawn = picture(chapter)
    return Tile(
        caption,
        short(chapter),
        str(chapter.card["title"]),
        f"{UP}{chapter.document}.html",
        minutes(chapter),
        HARDWARE.get((chapter.card.get("needs") or {}).get("gpu"), "GPU optional"),
        bool(chapter.card.get("live")),
        result(decided(entry)),
        entry.totals,
        drawn.image("card") if drawn else Markup(),
        colab,
    )


def dots(totals: dict[str, int]) -> Markup:
    """A dot for each claim, by its verdict, with the same in words for who does not see it."""
    told = ", ".join(f"{many} {verdict}" for verdict, many in totals.items() if many) or "none"
    made = [tag("i", "", class_=verdict.replace(" ", "-")) for verdict, many in totals.items() for _ in range(many)]
    return tag("p", joined(*made), class_="dots", role="img", aria_label=f"Claims: {told}", title=f"Claims: {told}")


def gallery(tiles: list[Tile]) -> str:
    """The cards as one list; one line of HTML."""
    if not tiles:
        return tag("p", "No chapter yet.")
    shown = joined(*(_card(one) for one in tiles))
    return tag("div", tag("ul", shown), class_="rebuilt-gallery", data_rebuilt_gallery="part time hardware model")


def _card(one: Tile) -> Markup:
    facts = [f"{one.minutes} min", one.hardware] + ["live model"] * one.live
    marks = [tag("span", words, class_="live" if words == "live model" else None) for words in facts]
    links = [tag("a", "Colab", href=one.colab, aria_label=f"{one.short} in Colab")] if one.colab else []
    frame = tag("a", one.image, class_="picture", href=one.href, tabindex="-1", aria_hidden="true")
    parts = [
        frame,
        tag("p", tag("a", one.short, href=one.href), class_="name"),
        tag("p", one.title, class_="what"),
        tag("p", one.result, class_="result"),
        dots(one.totals),
        tag("p", joined(*marks, *links, between=" "), class_="facts"),
    ]
    about = {"data_part": one.part, "data_time": one.length, "data_hardware": one.hardware}
    return tag("li", joined(*parts), **about, data_model="live" if one.live else None)


def numbers(ledger: Ledger) -> list[Finding]:
    """Three findings for the welcome page: the first of each verdict in the book's order, a failure among them.

    Of several, one of a chapter that is not shown yet comes first. Where a verdict of like with like is missing, the
    first findings of the other verdicts fill its place, of chapters not shown yet first. How large a number is does not
    matter.
    """
    found = [one for one in ledger.findings if one.metric(one.run) and not one.claim.get("goal")]
    chosen: list[Finding] = []
    for verdict in [*reversed(TESTED), *(verdict for verdict in VERDICTS if verdict not in TESTED)]:
        seen = {one.chapter for one in chosen}
        own = sorted((one for one in found if one.verdict == verdict), key=lambda one: one.chapter in seen)
        chosen += own[: int(len(chosen) < 3)]
    left = [one for one in found if one not in chosen]
    while left and len(chosen) < 3:
        seen = {one.chapter for one in chosen}
        chosen.append(min(left, key=lambda one: one.chapter in seen))
        left.remove(chosen[-1])
    return sorted(chosen, key=lambda one: VERDICTS.index(one.verdict))


def three(findings: list[Finding]) -> str:
    """Claimed, measured and verdict, in large; one line of HTML."""
    made = []
    for one in findings:
        metric, claim = one.metric(one.run), one.claim
        said = tag("span", joined(tag("strong", number(float(claim["value"]), claim["unit"])), " claimed"))
        got = tag("span", joined(tag("strong", number(float(metric["value"]), metric["unit"])), " measured"))
        where = tag("a", short(one.chapter), href=f"{UP}{one.chapter.document}.html")
        quote = tag("p", joined(where, ": ", tag("q", claim["quote"])), class_="quote")
        head = tag("p", joined(said, got, between=" "), class_="pair")
        made.append(tag("li", joined(head, tag("p", badge(one.verdict)), quote)))
    return tag("ul", joined(*made), class_="rebuilt-numbers") if made else ""
