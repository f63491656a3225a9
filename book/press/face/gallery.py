"""The chapters as cards, with pictures that their runs drew; the welcome page's numbers and what moves on it. A gallery
is a plain list; `book/_static/gallery.js` puts chips above it that filter it."""

import base64
import io
import re

from helpers import verdicts
from helpers.show import Markup, number

from ..errors import PressError
from ..ledger import DECIDED, FINDINGS, Entry, Finding, Ledger
from ..ledger.tables import block
from ..predict.pages import ledger_lines, of_the_named_card
from ..repository import Chapter, Repository, read_notebook
from ..teach import length

LIVE = "application/vnd.rebuilt.live+json"  # the kind of an output that is a live model
FIGURE = re.compile(r'<figure class="rebuilt"><img src="data:image/png;base64,([^"]+)"[^>]*?alt="([^"]*)"')
PLACES = {"card": (560, ""), "page": (720, ' fetchpriority="high"')}  # of a picture: pixels at most, its `<img>`'s own
QUALITY = 60
CARD = (0.56, 9 / 16)  # what a card shows of a picture: this share of its width, cut to this height over width


def short(chapter: Chapter) -> str:
    """The chapter's short title, for menus and cards."""
    return str(chapter.card.get("short") or chapter.card.get("title") or chapter.stem)


def article(repository: Repository, chapter: Chapter) -> dict:
    """The article that a chapter rebuilds, with its address as `url`; PressError where the references have none."""
    own = chapter.card["article"]
    if not repository.references.get(own["key"]):
        raise PressError(f"{chapter}: {own['key']} is not in book/references.bib, with its `url`")
    return {**own, "url": repository.references[own["key"]]}


def touchable(notebook: dict) -> list[dict]:
    """The outputs of an executed notebook that a reader can touch: live models, and what brings a script."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    return [one for one in outputs if LIVE in one.data or "<script" in "".join(one.data.get("text/html", ""))]


def picture(chapter: Chapter, place: str) -> Markup:
    """The chapter's drawing for one of the `PLACES`, held in the page: thirty cards ask for no file of their own. Empty
    without figures."""
    from PIL import Image

    if (found := drawing(chapter)) is None:
        return Markup()
    (drawn, alt), (width, own), file = found, PLACES[place], io.BytesIO()
    drawn = drawn.crop(_window(drawn)) if place == "card" else drawn
    drawn.thumbnail((width, drawn.height), Image.Resampling.LANCZOS, reducing_gap=None)
    drawn.save(file, "WEBP", quality=QUALITY, method=6)
    source, (wide, high) = base64.b64encode(file.getvalue()).decode(), drawn.size
    about = f'width="{wide}" height="{high}" alt="{alt}" decoding="async"{own}'
    return Markup(f'<img src="data:image/webp;base64,{source}" {about}>')


def drawing(chapter: Chapter) -> tuple[object, str] | None:
    """(picture on white, alternative text) of the first figure of the section that the card names as `picture`, else of
    all; None without figures. PressError where that section has drawn nothing."""
    from PIL import Image

    wanted, section = chapter.card.get("picture"), ""
    for cell in read_notebook(chapter.executed).cells:
        if cell.cell_type == "markdown":
            section = ([section] + re.findall(r"^## (.+?)\s*$", cell.source, re.MULTILINE))[-1]
        for output in cell.get("outputs", []) if wanted in (None, section) else []:
            if found := FIGURE.search("".join(output.get("data", {}).get("text/html", ""))):
                drawn = Image.open(io.BytesIO(base64.b64decode(found[1]))).convert("RGBA")
                return Image.alpha_composite(Image.new("RGBA", drawn.size, "white"), drawn).convert("RGB"), found[2]
    if wanted:
        raise PressError(f"{chapter}: the section {wanted!r}, which the card names as `picture`, has drawn no figure")
    return None


def _window(drawn: object) -> tuple[int, int, int, int]:
    """Where a card looks at a picture, so large that letters can be read: its lower left, or where most is drawn."""
    wide, high = drawn.size
    across = round(min(wide, max(CARD[0] * wide, CARD[0] * high / CARD[1])))
    down = round(min(high, across * CARD[1]))
    places = [(left, high - down) for left in range(0, wide - across + 1, max(1, (wide - across) // 8))]
    inked = drawn.convert("L").point(lambda grey: 255 * (grey < 245))

    def ink(at: tuple[int, int]) -> int:
        return inked.crop((*at, at[0] + across, at[1] + down)).histogram()[255]

    left, top = max(places, key=lambda at: ink(at) * (1.15 if at[0] == 0 else 1))  # an axis's numbers stand at the left
    return left, top, left + across, top + down


def measured(findings: list[Finding]) -> list[Finding]:
    """Those with a number of a run that stands beside an article's."""
    return [one for one in findings if one.metric(one.run) and one.claim["kind"] != "goal"]


def decided(entry: Entry) -> Finding | None:
    """The finding that stands for a chapter: of its card's `hero` the first that a run decided, else any decided, else
    measured, a goal last. An equality is a check rather than a result."""
    heroes = entry.chapter.card.get("hero") or []
    found = measured(entry.findings) or [one for one in entry.findings if one.metric(one.run)]
    found = sorted(found, key=lambda one: one.claim["better"] == "equal")
    found.sort(key=lambda one: [*heroes, one.claim["id"]].index(one.claim["id"]))
    return next((one for one in found if one.found in DECIDED), next(iter(found), None))


def pair(finding: Finding) -> list[str]:
    """What was claimed, and what was measured."""
    return [number(float(one["value"]), one["unit"]) for one in (finding.claim, finding.metric(finding.run))]


def claimed(finding: Finding) -> str:
    """What the article claims, or what our goal is, as the beginning of a sentence with a noun."""
    claim, said = finding.claim, pair(finding)[0]
    if claim["kind"] == "goal":
        return f"Our goal: {claim['of'].replace('{}', said) if 'of' in claim else said}"
    return f"The article claims {claim['of'].replace('{}', said) if 'of' in claim else '“' + claim['quote'] + '”'}"


def gpu_number(findings: list[Finding]) -> str | None:
    """Whether a number of a GPU stands beside a claim of the chapter, measured or predicted; None where none does."""
    there = [one.metric(one.run) for one in findings if one.metric(one.run)]
    if any(str(metric.get("device") or "").startswith("cuda") for metric in there):
        return "measured"
    return "predicted" if any(map(ledger_lines, findings)) else None


def written(name: str, *values: object) -> Markup:
    """What a macro of `pages.html` makes of the values."""
    return block("face/pages.html", name, *values, pair=pair, short=short, claimed=claimed, predicted=of_the_named_card)


def tile(entry: Entry, caption: str, source: dict, colab: str = "") -> Markup:
    """The card of one chapter that has run, with the facts that the chips go by; `source` is its `article`."""
    minutes, image = length.of(entry.chapter).whole, picture(entry.chapter, "card")
    return written("tile", entry, caption, source, colab, minutes, image, decided(entry), gpu_number(entry.findings))


def numbers(ledger: Ledger) -> list[Finding]:
    """Three findings for the welcome page, of three chapters, named by cards as `hero`: one failed, one held, any."""
    heroes = [one for one in measured(ledger.findings) if one.claim["id"] in (one.chapter.card.get("hero") or ())]
    chosen: list[Finding] = []
    for wanted in [(verdicts.FAILS,), (verdicts.HOLDS,), FINDINGS, FINDINGS, FINDINGS]:
        shown = {one.chapter for one in chosen}
        own = [one for one in heroes if one.found in wanted and one.chapter not in shown]
        chosen += own[: int(len(chosen) < 3)]
    return chosen


def hero(entries: list[Entry], words: str = "") -> Markup:
    """What a reader moves on the front page, by `words`: a chapter's stem, a word of the output, else the first."""
    stem, _, word = words.partition(" ")
    for chapter in [entry.chapter for entry in entries if entry.chapter.stem == stem]:
        for output in touchable(read_notebook(chapter.executed)):
            if word in (text := "".join(output.data.get("text/html", ""))):
                return written("hero", chapter, Markup(text), chapter.card["question"])
    image = picture(entries[0].chapter, "page") if entries else ""
    return written("hero", entries[0].chapter, image, "") if image else Markup()
