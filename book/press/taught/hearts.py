"""Each chapter's heart, the function that its counts call `ours`: bytes, arithmetic and seconds on the processor where
it was timed, on the cards (predicted) and on whatever GPU a receipt came from (measured)."""

from collections import namedtuple
from collections.abc import Iterator

from rehearsal.predict import CARDS, Card, real

from ..ledger import Entry, Finding, Run
from ..predict.kept import Kept, read, tried
from ..predict.pages import model

HEART, SMALL = "ours", "check"  # the part, and the tier at whose sizes a processor was timed


ABOUT = "chapter number card flops moved seconds share bound least fits"


class Heart(namedtuple("Heart", ABOUT, defaults=(False, True))):
    """One chapter's heart on one card. `share`: of the roof, the least seconds that the card's bandwidth and rates
    allow over those it takes; `least`: whether it takes no less than these seconds; `number`: its place in the book."""

    @property
    def intensity(self) -> float:
        """Operations of arithmetic for each byte moved."""
        return self.flops / self.moved

    @property
    def rate(self) -> float:
        """Bytes moved in a second."""
        return self.moved / self.seconds


class Panel(namedtuple("Panel", "key card measured hearts")):
    """A card with all hearts that are known on it, the nearest to its roof first; `key` names it in the page,
    `measured` says when its seconds were, and is empty where they are predicted."""

    def bound_by(self, name: str) -> list[Heart]:
        """The hearts of which something takes most of the time, in the order of the book."""
        return sorted((one for one in self.hearts if one.bound == name), key=lambda one: one.number)


def panels(entries: list[Entry]) -> list[Panel]:
    """This book's processor, where it was timed, and each card, with the hearts of some chapters."""
    counted = [(number, read(entry.chapter)) for number, entry in enumerate(entries, 1)]
    counted = [(number, found) for number, found in counted if found and HEART in found.parts]
    against = tried(entries[0].chapter) if entries else {}
    made = [_timed(against, counted)] if against.get("calibration") else []
    for tier, cards in CARDS.items():
        for place, card in enumerate(cards):
            found = [_predicted(number, kept, tier, place, card) for number, kept in counted]
            made.append(_panel(model(card.name).lower(), card, "", found))
    return made


def _panel(key: str, card: Card, measured: str, found: list[Heart | None]) -> Panel:
    return Panel(key, card, measured, sorted(filter(None, found), key=lambda one: -one.share))


def _predicted(number: int, found: Kept, tier: str, place: int, card: Card) -> Heart | None:
    part = found.parts[HEART]
    if tier not in part.tiers:
        return None
    entry, one = part.tiers[tier], part.predictions(tier)[place]
    own = (one.seconds, _least(card, entry) / one.seconds, one.bound, part.is_bound(one), one.fits)
    return Heart(found.chapter, number, card.name, entry["flops"], entry["bytes_moved"], *own)


def _timed(against: dict, counted: list[tuple[int, Kept]]) -> Panel:
    reached, found = against["calibration"], []
    rates = {"" if kind == "float32" else kind: rate for kind, rate in reached["flops_per_s"].items()}
    card = Card(against["machine"]["cpu"], reached["copy_bytes_per_s"], rates, 1.0, 0.0, "measured")
    for number, kept in counted:
        took, entry = against["chapters"].get(kept.chapter.stem) or {}, kept.parts[HEART].tiers.get(SMALL)
        if entry and "measured_s" in took:
            own = (took["measured_s"], _least(card, entry) / took["measured_s"], took["bound"])
            found.append(Heart(kept.chapter, number, card.name, entry["flops"], entry["bytes_moved"], *own))
    return _panel("cpu", card, against["date"], found)


def _least(card: Card, entry: dict) -> float:
    """The seconds of the bytes alone or of the arithmetic alone, whichever is more: the roof."""
    rows = [(size * calls, flops * calls, real(kind)) for kind, size, flops, calls in entry["work"]]
    arithmetic = sum(flops / card.flops_per_s.get(kind, card.flops_per_s[""]) for _, flops, kind in rows)
    return max(sum(size for size, *_ in rows) / card.bytes_per_s, arithmetic)


def reached(entries: list[Entry]) -> Iterator[tuple[Heart, str, str]]:
    """(the heart as it ran, the date, the key of the panel beside which it belongs) of each GPU from which a receipt
    came. `share` is what was predicted of that very card over what it took, 0 where no card here is that one."""
    for number, entry in enumerate(entries, 1):
        found = read(entry.chapter)
        for finding in entry.findings if found else ():
            if found.measure(finding.claim["metric"]) is found.parts.get(HEART, ""):
                runs = [one for one in (finding.run, *finding.others) if one and one.tier in CARDS]
                yield from (_ran(number, found, finding, run) for run in runs if run.content["machine"].get("gpu"))


def _ran(number: int, found: Kept, finding: Finding, run: Run) -> tuple[Heart, str, str]:
    name, part, words = finding.claim["metric"], found.parts[HEART], run.machine.upper().replace("-", " ").split()
    pairs = found.metric(name, finding.claim["unit"], run.tier)
    like = [pair for pair in pairs if model(pair[0].card) in words]
    one, value = (like or pairs)[-1]
    ratio = value / finding.metric(run)["value"]
    seconds = one.seconds * (ratio if found.content["metrics"][name]["per"].get(run.tier) else 1 / ratio)
    entry, share = part.tiers[run.tier], one.seconds / seconds if like else 0.0
    own = (entry["flops"], entry["bytes_moved"], seconds, share, one.bound)
    return Heart(found.chapter, number, run.machine, *own), run.date, model(one.card).lower()
