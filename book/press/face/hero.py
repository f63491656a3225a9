"""The welcome page's live model: a picture first; the model is loaded when its reader asks for it."""

from helpers.show import Markup, tag

from ..ledger import Entry
from ..ledger.tables import UP, joined
from .gallery import short
from .pictures import picture


def hero(entries: list[Entry], live: dict[str, str]) -> str:
    """The first chapter of the book that has a live model, as the picture that its run drew; one line of HTML.

    `live` is the element that `print.live` made for each chapter, by the chapter's name. Without a live model the
    first chapter's picture stands alone.
    """
    entry = next((entry for entry in entries if entry.chapter.name in live), next(iter(entries), None))
    drawn = picture(entry.chapter) if entry else None
    if drawn is None:
        return ""
    chapter = entry.chapter
    link = tag("a", short(chapter), href=f"{UP}{chapter.document}.html")
    image = drawn.image("page", fetchpriority="high")
    if chapter.name not in live:
        return tag(
            "figure", joined(image, tag("figcaption", joined("From the chapter ", link, "."))), class_="rebuilt-hero"
        )
    asked = str(chapter.card.get("question") or chapter.card["title"])
    told = tag("figcaption", joined(asked, " The model of the chapter ", link, " answers in your browser."))
    still = tag("div", joined(tag("div", image, class_="still"), told), class_="rebuilt-live-fallback")
    return Markup(
        live[chapter.name]
        .replace('class="rebuilt-live"', 'class="rebuilt-live rebuilt-hero" data-wait', 1)
        .replace("\x00", still)
        .replace("../../../", UP)
    )
