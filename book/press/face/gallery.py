"""The chapters as cards, with pictures that their runs drew; the welcome page's numbers and live model.

Without a script a gallery is a plain list; `book/_static/gallery.js` puts chips above it that filter it.
"""

import base64
import io
import re

from helpers import verdicts
from helpers.show import Markup, number

from ..errors import PressError
from ..ledger import DECIDED, FINDINGS, Entry, Finding, Ledger
from ..ledger.tables import UP, block
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


def measured(findings: list[Finding]) -> list[Finding]:
    """Those with a number of a run that stands beside an article's."""
    return [one for one in findings if one.metric(one.run) and one.claim["kind"] != "goal"]


def decided(entry: Entry) -> Finding | None:
    """The finding that stands for a chapter: the first that its card names as `hero` and a run decided, else the first
    decided, else the first measured. An equality is a check rather than a result.
    """
    heroes = entry.chapter.card.get("hero") or []
    found = sorted(measured(entry.findings), key=lambda one: one.claim["better"] == "equal")
    found.sort(key=lambda one: [*heroes, one.claim["id"]].index(one.claim["id"]))
    return next((one for one in found if one.found in DECIDED), next(iter(found), None))


def pair(finding: Finding) -> list[str]:
    """What was claimed, and what was measured."""
    return [number(float(one["value"]), one["unit"]) for one in (finding.claim, finding.metric(finding.run))]


def written(name: str, *values: object) -> Markup:
    """What a macro of `pages.html` makes of the values."""
    return block("face/pages.html", name, *values, hardware=hardware, pair=pair, short=short)


def tile(entry: Entry, caption: str, colab: str = "") -> Markup:
    """The card of one chapter that has run, with the facts that the chips go by."""
    minutes = sum(section["minutes"] for section in entry.chapter.card.get("sections") or [])
    length = next((words for most, words in LENGTHS if minutes <= most), "longer")
    return written("tile", entry, caption, colab, minutes, length, picture(entry.chapter, "card"), decided(entry))


def gallery(tiles: list[Markup]) -> Markup:
    """The cards as one list."""
    return written("gallery", tiles)


def numbers(ledger: Ledger) -> list[Finding]:
    """Three findings for the welcome page, of three chapters, that their cards name as `hero`: one that did not come
    true first, then what came true, then any. How large a number is does not matter.
    """
    heroes = [one for one in measured(ledger.findings) if one.claim["id"] in (one.chapter.card.get("hero") or ())]
    chosen: list[Finding] = []
    for wanted in [(verdicts.FAILS,), (verdicts.HOLDS,), FINDINGS, FINDINGS, FINDINGS]:
        shown = {one.chapter for one in chosen}
        own = [one for one in heroes if one.found in wanted and one.chapter not in shown]
        chosen += own[: int(len(chosen) < 3)]
    return chosen


def three(findings: list[Finding]) -> Markup:
    """Claimed, measured and found, in large."""
    return written("numbers", findings)


def hero(entries: list[Entry], live: dict[str, str]) -> str:
    """The book's first live model behind the picture that its run drew, loaded when a reader asks.

    `live` is the element that `print.live` made for each chapter, by the chapter's name. Without a live model the
    first chapter's picture stands alone.
    """
    entry = next((entry for entry in entries if entry.chapter.name in live), next(iter(entries), None))
    image = picture(entry.chapter, "page") if entry else ""
    if not image:
        return ""
    element = live.get(entry.chapter.name, "")
    shown = written("hero", entry.chapter, image, element)
    waiting = element.replace('class="rebuilt-live"', 'class="rebuilt-live rebuilt-hero" data-wait', 1)
    return Markup(waiting.replace("\x00", shown).replace("../../../", UP)) if element else shown
