"""The committed counts of a chapter, and what the formula makes of them; no torch here."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rehearsal.predict import CARDS, Card, Prediction, predict

from ..errors import PressError
from ..files import read_json
from ..repository import Chapter
from .counting import CHECKED, code_of, path_of, source_of

SUMS = ("operations", "bytes_moved", "flops", "bytes_up", "bytes_down", "copies", "syncs", "peak_bytes")
SHOWN = "gpu"  # the tier of a page's table: one card with 16 GB
# The share of memory and arithmetic from which a prediction is a bound: the datasheet's, not our assumptions.
HELD = 0.9
SECONDS_IN = {"s": 1.0, "ms": 1e3, "µs": 1e6, "min": 1 / 60, "h": 1 / 3600}  # units of a time on a card of a chapter


@dataclass(frozen=True)
class Part:
    """One function of a chapter's rehearsed module: what it does, its code, its counts by tier."""

    name: str
    what: str
    code: str
    tiers: dict[str, dict]
    too_much: str = ""  # why more is counted than a card does; empty where it is not

    def predictions(self, tier: str) -> list[Prediction]:
        """What each card of a tier would take; empty where the part was not counted at it."""
        return [self.on(card, tier) for card in CARDS[tier]] if tier in self.tiers else []

    def on(self, card: Card, tier: str) -> Prediction:
        """What a card would take, at the sizes of a tier."""
        entry = self.tiers[tier]
        work = [("", kind, size, flops, calls) for kind, size, flops, calls in entry["work"]]
        return predict(card, work, entry["links"], entry["syncs"], entry["peak_bytes"])

    def is_bound(self, one: Prediction) -> bool:
        """Whether the datasheet's bandwidth and rates hold nearly all of a prediction: no card does it in less.

        Launches, waits and the begin of copies are assumed, and copies are added even where they overlap with work.
        """
        return not self.too_much and one.parts["memory"] + one.parts["arithmetic"] >= HELD * one.seconds


@dataclass(frozen=True)
class Kept:
    """A chapter's file in `data/predictions/`."""

    chapter: Chapter
    content: dict

    @cached_property
    def parts(self) -> dict[str, Part]:
        """The parts by name, in the module's order."""
        found, too_much = self.content["parts"].items(), self.content["too_much"]
        return {name: Part(name, one["what"], one["code"], one["tiers"], too_much.get(name, "")) for name, one in found}

    def measure(self, name: str) -> Part | None:
        """The part that a metric of the card is predicted by; None where there is none."""
        told = self.content["metrics"].get(name)
        return told and self.parts[told["part"]]

    @property
    def source(self) -> Path:
        """The module that was counted."""
        return self.chapter.root / self.content["source"]

    @cached_property
    def stale(self) -> bool:
        """Whether the module, or one that it reaches, has changed since."""
        now = source_of(self.chapter)
        return now is None or code_of(now, self.chapter.home) != self.content["code"]

    def metric(self, name: str, unit: str, tier: str) -> list[tuple[Prediction, float]]:
        """(Prediction, value) of a metric of the card on each card of a tier; empty where no part is its measure.

        What the formula says; the part's `is_bound` tells whether a rate is at most that, a time at least.
        """
        told = self.content["metrics"].get(name)
        if not told or tier not in self.parts[told["part"]].tiers:
            return []
        per, scale = told["per"].get(tier), SECONDS_IN.get(unit)
        if not per and scale is None:
            raise PressError(f"{self.chapter}: {name} is told in {unit}; a time is told in {', '.join(SECONDS_IN)}")
        found = self.parts[told["part"]].predictions(tier)
        return [(one, per / one.seconds if per else one.seconds * scale) for one in found]


def read(chapter: Chapter) -> Kept | None:
    """The committed counts of a chapter; None where there are none. PressError for a file that is none."""
    path = path_of(chapter)
    if not path.is_file():
        return None
    content = read_json(path)
    wanted = {"schema", "notebook", "source", "code", "sizes", "parts", "metrics", "ahead", "left_out", "too_much"}
    if not isinstance(content, dict) or content.keys() != wanted or content["notebook"] != chapter.stem:
        raise PressError(f"{path.relative_to(chapter.root)} is none of `make predict`; make it anew")
    return Kept(chapter, content)


def against_the_cpu(chapter: Chapter) -> dict | None:
    """How the formula did for `ours` of a chapter on a processor: `date`, `machine`, `predicted_s`, `measured_s`,
    `ratio`, or the `error` with which it ended; None where nobody has tried."""
    content = read_json(chapter.root / "data" / "predictions" / "against_the_cpu.json") or {}
    found = content.get("chapters", {}).get(chapter.stem)
    return found and {"date": content["date"], "machine": content["machine"]["cpu"]} | found


def differences(before: dict, now: dict) -> list[str]:
    """Where the counts at the checked sizes are others than those kept: "ours: operations 141, kept 139"."""
    found = []
    for name in dict.fromkeys([*before["parts"], *now["parts"]]):
        pair = [content["parts"].get(name, {}).get("tiers", {}).get(CHECKED) for content in (before, now)]
        if None in pair:
            found.append(f"{name}: counted {'before' if pair[0] else 'now'} alone")
            continue
        told = [f"{key} {pair[1][key]:,}, kept {pair[0][key]:,}" for key in SUMS if pair[0][key] != pair[1][key]]
        found += [f"{name}: {'; '.join(told)}"] if told else []
    return found
