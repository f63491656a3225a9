"""What pages show of counts and predictions: a block on a chapter's page, rows of its fit card, lines of the ledger."""

import re

from helpers.show import Markup
from rehearsal.predict import CARDS

from ..ledger import tables
from ..ledger.ledger import Entry, Finding
from .kept import SHOWN, ahead, read, tried

MARK = "predicted, not measured"
FAR = 0.33  # predicted over measured: below, the page calls the formula a limit
ROLES = {"ours": "the chapter's", "naive": "naive", "broken": "broken"}


def block(entry: Entry) -> list[Markup]:
    """The chapter's version, the naive one and a broken one, counted; how to count one's own. Empty without counts."""
    found = read(entry.chapter)
    parts = {name: found.parts[name] for name in ROLES if name in found.parts} if found else {}
    if not any(SHOWN in part.tiers for part in parts.values()):
        return []
    against = tried(found.chapter)
    own = against.get("chapters", {}).get(found.chapter.stem, {})
    return [_written("block", found, parts, ahead(found), CARDS[SHOWN][0].name, against, own)]


def _written(name: str, *values: object) -> Markup:
    return tables.block("predict/pages.html", name, *values, MARK=MARK, ROLES=ROLES, SHOWN=SHOWN, FAR=FAR)


def fit_rows(entry: Entry) -> list[Markup]:
    """Rows of the fit card: what the chapter's version would take on each card, at that card's tier."""
    found = read(entry.chapter)
    ours = found and found.parts.get("ours")
    pairs = [(tier, one) for tier in CARDS for one in ours.predictions(tier)] if ours else []
    return [_written("fit_row", tier, ours, one) for tier, one in pairs]


def ledger_lines(finding: Finding) -> list[Markup]:
    """The predictions of a claim's metric, beside the article's number and beside each receipt from such a card."""
    claim, found, lines = finding.claim, read(finding.chapter), []
    for tier in [tier for tier in CARDS if tier in claim["tiers"]] if found else []:
        runs = [run for run in (finding.run, *finding.others) if run is not None and run.tier == tier]
        for one, value in found.metric(claim["metric"], claim["unit"], tier):
            bound = "at most" if claim["better"] == "higher" else "at least"
            bound = bound if found.measure(claim["metric"]).is_bound(one) else "about"
            like = [run for run in runs if model(one.card) in run.machine.upper().replace("-", " ").split()]
            ratios = [(run.date, finding.metric(run)["value"] / value) for run in like]  # "Tesla T4" is a T4
            lines.append(_written("ledger_line", bound, value, claim["unit"], one, tier, ratios))
    return lines


def of_the_named_card(finding: Finding) -> float | None:
    """What is predicted of the one card that the claim's hardware names, memory and all; None where nothing is."""
    claim, found, value = finding.claim, read(finding.chapter), None
    for tier in [tier for tier in CARDS if tier in claim["tiers"]] if found else []:
        for one, predicted in found.metric(claim["metric"], claim["unit"], tier):
            value = predicted if names(claim["hardware"], one.card) else value
    return value


def names(hardware: str, card: str) -> bool:
    """Whether words about hardware name this card: one of it, and no other memory than its own."""
    many = re.search(rf"\b([2-9]|\d\d+) {model(card)}", hardware)
    other = set(re.findall(r"(\d+) ?GB\b", hardware)) - set(re.findall(r"(\d+) ?GB\b", card))
    return bool(re.search(rf"\b{model(card)}\b", hardware)) and not many and not other and "not named" not in hardware


def model(card: str) -> str:
    """The model in a card's name.

    >>> model("A100 SXM 40 GB"), model("Tesla T4")
    ('A100', 'T4')
    """
    return next(word for word in card.split() if any(letter.isdigit() for letter in word))
