"""The chapters as cards, with pictures that their runs drew; the welcome page's numbers and live model.

Without a script a gallery is a plain list; `book/_static/gallery.js` puts chips above it that filter it.
"""

import base64
import io
import re

from helpers.show import Markup, number, tag

from ..errors import PressError
from ..ledger import TESTED, VERDICTS, Entry, Finding, Ledger
from ..ledger.tables import UP, badge, joined
from ..repository import Chapter, Repository, documents, read_notebook

LENGTHS = ((60, "up to 1 hour"), (120, "up to 2 hours"))
HARDWARE = {"none": "no GPU", "optional": "GPU optional", "required": "GPU required"}
FIGURE = re.compile(r'<figure class="rebuilt"><img src="data:image/png;base64,([^"]+)"[^>]*?alt="([^"]*)"')
PLACES = {"card": (480, ""), "page": (720, ' fetchpriority="high"')}  # of a picture: pixels at most, its `<img>`'s own
QUALITY = 70


def captions(repository: Repository) -> dict[str, str]:
    """The caption of each part in the contents, by the folder that its notebooks lie in."""
    parts = reversed(repository.toc.get("parts") or [])
    named = [(name.split("/"), part.get("caption")) for part in parts for name in documents(part)]
    return {folders[1]: caption for folders, caption in named if folders[0] == "notebooks" and caption}


def short(chapter: Chapter) -> str:
    """The chapter's short title, for menus and cards."""
    return str(chapter.card.get("short") or chapter.card.get("title") or chapter.stem)


def hardware(chapter: Chapter) -> str:
    """Whether the chapter needs a GPU."""
    return HARDWARE.get((chapter.card.get("needs") or {}).get("gpu"), "GPU optional")


def picture(chapter: Chapter, place: str) -> Markup:
    """The first figure of the section that the card names as `picture`, else of the notebook, for one of the `PLACES`.

    Empty without figures; PressError where the named section has drawn nothing.
    """
    wanted, section = chapter.card.get("picture"), ""
    for cell in read_notebook(chapter.executed).cells:
        if cell.cell_type == "markdown":
            section = ([section] + re.findall(r"^## (.+?)\s*$", cell.source, re.MULTILINE))[-1]
        for output in cell.get("outputs", []) if wanted in (None, section) else []:
            if found := FIGURE.search("".join(output.get("data", {}).get("text/html", ""))):
                return _image(base64.b64decode(found[1]), found[2], *PLACES[place])
    if wanted:
        raise PressError(f"{chapter}: the section {wanted!r}, which the card names as `picture`, has drawn no figure")
    return Markup()


def _image(png: bytes, alt: str, width: int, own: str) -> Markup:
    """The `<img>` no wider than `width`, on white, held in the page: thirty cards ask for no file of their own."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as drawn:
        ground = Image.new("RGB", drawn.size, "white")
        ground.paste(drawn, mask=drawn.convert("RGBA").getchannel("A"))
    ground.thumbnail((width, ground.height), Image.Resampling.LANCZOS, reducing_gap=None)
    file = io.BytesIO()
    ground.save(file, "WEBP", quality=QUALITY, method=4)
    source, (wide, high) = base64.b64encode(file.getvalue()).decode(), ground.size
    about = f'width="{wide}" height="{high}" alt="{alt}" decoding="async"{own}'
    return Markup(f'<img src="data:image/webp;base64,{source}" {about}>')


def dots(totals: dict[str, int]) -> Markup:
    """A dot for each claim, by its verdict, with the same in words for who does not see it."""
    told = "Claims: " + (", ".join(f"{many} {verdict}" for verdict, many in totals.items() if many) or "none")
    made = [tag("i", "", class_=verdict.replace(" ", "-")) for verdict, many in totals.items() for _ in range(many)]
    return tag("p", joined(*made), class_="dots", role="img", aria_label=told, title=told)


def measured(findings: list[Finding]) -> list[Finding]:
    """Those with a number of a run that stands beside an article's."""
    return [one for one in findings if one.metric(one.run) and not one.claim.get("goal")]


def decided(entry: Entry) -> Finding | None:
    """The finding that stands for a chapter: its first claim with a verdict of like with like, else the first measured.

    The order is the card's; how it came out does not matter. An equality is a check rather than a result.
    """
    found = sorted(measured(entry.findings), key=lambda one: one.claim["better"] == "equal")
    return next((one for one in found if one.verdict in TESTED), next(iter(found), None))


def _claimed_and_measured(finding: Finding) -> list[str]:
    return [number(float(one["value"]), one["unit"]) for one in (finding.claim, finding.metric(finding.run))]


def tile(entry: Entry, caption: str, colab: str = "") -> Markup:
    """The card of one chapter that has run, with the facts that the chips go by."""
    chapter, found = entry.chapter, decided(entry)
    name, href = short(chapter), f"{UP}{chapter.document}.html"
    minutes = sum(section["minutes"] for section in chapter.card.get("sections") or [])
    result = tag("span", "no claim measured yet")
    if found:
        said, got = _claimed_and_measured(found)
        result = joined(tag("strong", got), " measured, ", said, " claimed: ", badge(found.verdict))
    marks = [tag("span", f"{minutes} min"), tag("span", hardware(chapter))]
    marks += [tag("span", "live model", class_="live")] if chapter.card.get("live") else []
    marks += [tag("a", "Colab", href=colab, aria_label=f"{name} in Colab")] if colab else []
    parts = [
        tag("a", picture(chapter, "card"), class_="picture", href=href, tabindex="-1", aria_hidden="true"),
        tag("p", tag("a", name, href=href), class_="name"),
        tag("p", chapter.card["title"], class_="what"),
        tag("p", result, class_="result"),
        dots(entry.totals),
        tag("p", joined(*marks, between=" "), class_="facts"),
    ]
    about = {"data_part": caption, "data_hardware": hardware(chapter)}
    about["data_time"] = next((words for most, words in LENGTHS if minutes <= most), "longer")
    return tag("li", joined(*parts), **about, data_model="live" if chapter.card.get("live") else None)


def gallery(tiles: list[Markup]) -> Markup:
    """The cards as one list; one line of HTML."""
    if not tiles:
        return tag("p", "No chapter yet.")
    about = {"class_": "rebuilt-gallery", "data_rebuilt_gallery": "part time hardware model"}
    return tag("div", tag("ul", joined(*tiles)), **about)


def numbers(ledger: Ledger) -> list[Finding]:
    """Three findings for the welcome page: the first of each verdict in the book's order, a failure among them.

    Of several, one of a chapter that is not shown yet comes first. Where a verdict of like with like is missing, the
    first findings of the other verdicts fill its place, then any. How large a number is does not matter.
    """
    found, chosen = measured(ledger.findings), []
    others = [verdict for verdict in VERDICTS if verdict not in TESTED]
    for wanted in [*([one] for one in (*reversed(TESTED), *others)), *[VERDICTS] * 3]:
        shown = {one.chapter for one in chosen}
        own = [one for one in found if one.verdict in wanted and one not in chosen]
        chosen += sorted(own, key=lambda one: one.chapter in shown)[: int(len(chosen) < 3)]
    return sorted(chosen, key=lambda one: VERDICTS.index(one.verdict))


def three(findings: list[Finding]) -> str:
    """Claimed, measured and verdict, in large; one line of HTML."""
    made = []
    for one in findings:
        said, got = _claimed_and_measured(one)
        pair = [
            tag("span", joined(tag("strong", said), " claimed")),
            tag("span", joined(tag("strong", got), " measured")),
        ]
        where = tag("a", short(one.chapter), href=f"{UP}{one.chapter.document}.html")
        quote = tag("p", joined(where, ": ", tag("q", one.claim["quote"])), class_="quote")
        head = tag("p", joined(*pair, between=" "), class_="pair")
        made.append(tag("li", joined(head, tag("p", badge(one.verdict)), quote)))
    return tag("ul", joined(*made), class_="rebuilt-numbers") if made else ""


def hero(entries: list[Entry], live: dict[str, str]) -> str:
    """The book's first live model behind the picture that its run drew, loaded when a reader asks; one line of HTML.

    `live` is the element that `print.live` made for each chapter, by the chapter's name. Without a live model the
    first chapter's picture stands alone.
    """
    entry = next((entry for entry in entries if entry.chapter.name in live), next(iter(entries), None))
    image = picture(entry.chapter, "page") if entry else ""
    if not image:
        return ""
    chapter = entry.chapter
    link = tag("a", short(chapter), href=f"{UP}{chapter.document}.html")
    if chapter.name not in live:
        told = tag("figcaption", joined("From the chapter ", link, "."))
        return tag("figure", joined(image, told), class_="rebuilt-hero")
    asked = str(chapter.card.get("question") or chapter.card["title"])
    told = tag("figcaption", joined(asked, " The model of the chapter ", link, " answers in your browser."))
    still = tag("div", joined(tag("div", image, class_="still"), told), class_="rebuilt-live-fallback")
    waiting = live[chapter.name].replace('class="rebuilt-live"', 'class="rebuilt-live rebuilt-hero" data-wait', 1)
    return Markup(waiting.replace("\x00", still).replace("../../../", UP))
