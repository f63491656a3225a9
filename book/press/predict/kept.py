"""The committed counts of a chapter, what the formula makes of them, and what must hold before a page may show them."""

from collections import namedtuple
from collections.abc import Iterator
from functools import cached_property

from rehearsal.predict import CARDS, Prediction, predict

from ..errors import PressError
from ..files import read_json
from ..repository import Chapter
from .counting import SENTENCES, code_of, impossible, path_of, source_of

KEYS = {"schema", "notebook", "source", "code", "sizes", "parts", "metrics", *SENTENCES}
SHOWN = "gpu"  # the tier of a page's table: one card with 16 GB
SECONDS_IN = {"s": 1.0, "ms": 1e3, "µs": 1e6, "min": 1 / 60, "h": 1 / 3600}  # units of a time on a card of a chapter
ROLES = ("ours", "naive", "broken")
HELD = 0.9  # share of memory and arithmetic from which a prediction is a bound: the datasheet's, not our assumptions
AHEAD = 0.99  # of the seconds of ours, and less: ahead
SEEN = 1.10  # times the seconds of ours, and more: a reader sees it in the table
SAME = 0.01  # share of the FLOPs by which a broken version may differ: it computes what ours does
LEAST = 0.9  # of the FLOPs or of the bytes of ours that a naive version does: no smaller task


class Part(namedtuple("Part", "what code tiers too_much", defaults=("",))):
    """One function of a chapter's rehearsed module: what it does, its code, its counts by tier; `too_much`: why more is
    counted than a card does, empty where it is not."""

    def predictions(self, tier: str) -> list[Prediction]:
        """What each card of a tier would take, at its sizes; empty where the part was not counted at it."""
        if tier not in self.tiers:
            return []
        entry = self.tiers[tier]
        work, rest = [("", *row) for row in entry["work"]], (entry["links"], entry["syncs"], entry["peak_bytes"])
        return [predict(card, work, *rest) for card in CARDS[tier]]

    def is_bound(self, one: Prediction) -> bool:
        """Whether the datasheet's bandwidth and rates hold nearly all of a prediction: no card does it in less.
        Launches, waits and the begin of copies are assumed, and copies are added even where they overlap with work."""
        return not self.too_much and one.parts["memory"] + one.parts["arithmetic"] >= HELD * one.seconds


class Kept(namedtuple("Kept", "chapter content")):
    """A chapter's file in `data/predictions/`."""

    @cached_property
    def parts(self) -> dict[str, Part]:
        """The parts by name, in the module's order."""
        found, too_much = self.content["parts"].items(), self.content["too_much"]
        return {name: Part(one["what"], one["code"], one["tiers"], too_much.get(name, "")) for name, one in found}

    @cached_property
    def stale(self) -> bool:
        """Whether the module, or one that it reaches, has changed since."""
        now = source_of(self.chapter)
        return now is None or code_of(now, self.chapter.home) != self.content["code"]

    def measure(self, name: str) -> Part | None:
        """The part that a metric of the card is predicted by; None where there is none."""
        told = self.content["metrics"].get(name)
        return told and self.parts[told["part"]]

    def metric(self, name: str, unit: str, tier: str) -> list[tuple[Prediction, float]]:
        """(Prediction, value) of a metric on each card of a tier, a limit where the part `is_bound`; or empty."""
        part = self.measure(name)
        if not part or tier not in part.tiers:
            return []
        per, scale = self.content["metrics"][name]["per"].get(tier), SECONDS_IN.get(unit)
        if not per and scale is None:
            raise PressError(f"{self.chapter}: {name} is told in {unit}; a time is told in {', '.join(SECONDS_IN)}")
        return [(one, per / one.seconds if per else one.seconds * scale) for one in part.predictions(tier)]


def read(chapter: Chapter) -> Kept | None:
    """The committed counts of a chapter; None where there are none. PressError for a file that is none."""
    path = path_of(chapter)
    if not path.is_file():
        return None
    content = read_json(path)
    if not isinstance(content, dict) or content.keys() != KEYS or content["notebook"] != chapter.stem:
        raise PressError(f"{path.relative_to(chapter.root)} is none of `make predict`; make it anew")
    return Kept(chapter, content)


def tried(chapter: Chapter) -> dict:
    """What was recorded of the formula against a processor, for all chapters; empty where nothing was."""
    return read_json(chapter.root / "data" / "predictions" / "against_the_cpu.json") or {}


def problems(found: Kept) -> Iterator[str]:
    """What is wrong with a chapter's counts, one sentence each."""
    yield from impossible(found.content)
    gone, reasons, behind = found.content["left_out"], found.content["ahead"], ahead(found)
    for role in ROLES:
        there = role in found.parts and SHOWN in found.parts[role].tiers
        if there and role in gone:
            yield f"LEFT_OUT has a sentence for {role}, which is there; take it out"
        elif not there and not (role == "broken" and role in gone):
            yield f"{role} is not counted at tier {SHOWN}; all three are, or LEFT_OUT says why there is no broken one"
    for role in sorted(behind.keys() - reasons.keys()):
        yield f"{role} is predicted ahead of ours on {', '.join(behind[role])}; AHEAD says why, or it does less work"
    for role in sorted(reasons.keys() - behind.keys()):
        yield f"AHEAD has a sentence for {role}, which is predicted ahead of ours nowhere; take it out"
    for role in ROLES[1:]:
        yield from _unequal(found, role)
    pairs = list(_beside_ours(found, "broken", SHOWN))[:1]
    if any(one.seconds < SEEN * ours.seconds for ours, one in pairs):
        what = f"broken is predicted less than {SEEN:g} times as long as ours on a {CARDS[SHOWN][0].name}"
        yield f"{what}; break it so that a reader sees it, or leave it out with a sentence in LEFT_OUT"


def ahead(found: Kept) -> dict[str, list[str]]:
    """The cards on which the naive or the broken version is predicted ahead of ours, at any tier."""
    behind = {}
    for role, tier in [(role, tier) for role in ROLES[1:] for tier in CARDS]:
        cards = [one.card for ours, one in _beside_ours(found, role, tier) if one.seconds < AHEAD * ours.seconds]
        behind[role] = behind.get(role, []) + cards
    return {role: cards for role, cards in behind.items() if cards}


def _beside_ours(found: Kept, role: str, tier: str) -> Iterator[tuple[Prediction, Prediction]]:
    """(of ours, of the other version) on each card of a tier."""
    told = [found.parts[name].predictions(tier) if name in found.parts else [] for name in ("ours", role)]
    return zip(*told, strict=False)


def _unequal(found: Kept, role: str) -> Iterator[str]:
    """A version's work beside ours at each tier: the broken one computes the same; the naive one, which may do by sums
    what ours does by products, does not less in both arithmetic and bytes."""
    if role not in found.parts or "ours" not in found.parts:
        return
    for tier, entry in found.parts[role].tiers.items():
        ours = found.parts["ours"].tiers.get(tier, entry)
        pair = entry["flops"], ours["flops"]
        less = all(entry[name] < LEAST * ours[name] for name in ("flops", "bytes_moved"))
        if less or role == "broken" and abs(pair[0] - pair[1]) > SAME * max(pair):
            yield f"{role} does {pair[0]:,} FLOPs at tier {tier}, ours {pair[1]:,}; all versions do the same task"
