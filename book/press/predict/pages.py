"""What pages show of counts and predictions: the block on a chapter's page, rows of its fit card, lines of the ledger.

Everywhere it says that this is predicted and not measured.
"""

from helpers.show import number
from rehearsal.predict import CARDS

from ..ledger.ledger import Entry, Finding, Run
from ..ledger.tables import Markup, html_table, joined, row, tag
from .kept import SHOWN, Kept, Part, against_the_cpu, read
from .rules import ahead

MARK = "predicted, not measured"
FAR = 0.33  # predicted over measured: below, the page calls the formula a limit
ROLES = {"ours": "the chapter's", "naive": "naive", "broken": "broken"}
COLUMNS = ["", "kernels", "memory traffic", "over the link", "copies", "waits", "memory", "seconds"]


def block(entry: Entry) -> list[str]:
    """The chapter's version, the naive one and a broken one, counted; how to count one's own. Empty without counts."""
    found = read(entry.chapter)
    if found is None:
        return []
    parts = {role: found.parts[name] for name, role in ROLES.items() if name in found.parts}
    rows = [_counted(role, part) for role, part in parts.items() if SHOWN in part.tiers]
    if not rows:
        return []
    caption = f"One call at tier {SHOWN}, counted on a pretended GPU; seconds on a {CARDS[SHOWN][0].name}: {MARK}"
    table = html_table(caption, COLUMNS, [rows], "rebuilt-table rebuilt-counts")
    pieces = [tag("summary", "Where would a GPU wait? The work counted"), _said(found), table, *_where(parts)]
    pieces += [_error(found), _own(found)]
    return [tag("details", joined(*pieces), class_="rebuilt-counted")]


def _said(found: Kept) -> Markup:
    """What each version is, why it is ahead of the chapter's where it is, and why one is not there."""
    lines, behind, gone = [], ahead(found), found.content["left_out"]
    for name, role in ROLES.items():
        if name not in {**found.parts, **gone}:
            continue
        words = f"{found.parts[name].what}." if name in found.parts else f"left out: {gone[name]}."
        if name in found.content["too_much"]:
            words += f" More is counted than a card does: {found.content['too_much'][name]}."
        if name in behind:
            cards, why = " and ".join(behind[name]), found.content["ahead"].get(name, "")
            words += f" Predicted ahead of the chapter's on {cards}: {why}."
        lines.append(tag("li", joined(tag("strong", role), ": ", words)))
    return tag("ul", joined(*lines))


def _counted(role: str, part: Part) -> Markup:
    """A version's counts in one row."""
    entry, (first, *_) = part.tiers[SHOWN], part.predictions(SHOWN)
    over = number(float(entry["bytes_up"] + entry["bytes_down"]), "B")
    memory = number(float(entry["peak_bytes"]), "B") + ("" if first.fits else ", does not fit")
    seconds = f"{_least(part, first)}, {first.bound}" if first.fits else "–"
    moved = number(float(entry["bytes_moved"]), "B")
    return row(
        role, f"{entry['operations']:,}", moved, over, f"{entry['copies']:,}", f"{entry['syncs']:,}", memory, seconds
    )


def _least(part: Part, one) -> str:
    """The seconds of a prediction: at least so many where the datasheet holds them, about where launches, waits and
    copies do, whose times are assumed, or where too much is counted."""
    return f"{'at least' if part.is_bound(one) else 'about'} {number(one.seconds, 's')}"


def _where(parts: dict[str, Part]) -> list[Markup]:
    """The broken version's code, and the lines at which the host waits."""
    broken = parts.get(ROLES["broken"])
    if broken is None:
        return []
    waits = broken.tiers.get(SHOWN, {}).get("waits", {})
    lines = [tag("li", joined(tag("code", place), f": {many:,}×")) for place, many in waits.items()]
    told = tag("p", "The broken version, and where the host waits in it:")
    return [told, tag("pre", tag("code", _in_one(broken.code))), tag("ul", joined(*lines))]


def _in_one(code: str) -> Markup:
    """Code for a block of HTML, which an empty line would end."""
    lines = [line for line in code.splitlines() if line.strip()]
    return Markup("&#10;".join(map(_line, lines)))


def _line(line: str) -> str:
    indent = len(line) - len(line.lstrip())
    return "&#160;" * indent + str(joined(line.lstrip()))


def _error(found: Kept) -> Markup:
    """How far the formula was off for the chapter's version on a processor, or that nobody has tried."""
    tried = against_the_cpu(found.chapter)
    if tried is None or "error" in tried:
        why = f": {tried['error']}" if tried else ""
        return tag("p", f"How far the formula is off for this chapter has not been measured on a processor{why}.")
    pair = (number(float(tried[name]), "s") for name in ("predicted_s", "measured_s"))
    words = (
        "Tried on a processor ({machine}, {date}), with that machine's own bandwidth and rates and at small sizes: the "
    )
    words += (
        "formula says {0} for the chapter's version, measured were {1}, which is {ratio:.2f} predicted over measured."
    )
    if tried["ratio"] < FAR:
        words += " So far below, it is a limit and no estimate."
    return tag("p", words.format(*pair, **tried))


def _own(found: Kept) -> Markup:
    """How a reader counts a version of their own."""
    source = found.source.relative_to(found.chapter.root).as_posix()
    command = f"make predict CHAPTERS={found.chapter.stem}"
    changed = " Its code has changed since it was counted." if found.stale else ""
    words = (
        "Yours: write a function beside these in ",
        tag("code", source),
        ", then ",
        tag("code", command),
        "; no GPU is",
    )
    return tag("p", joined(*words, f" needed. A kernel is one operation of PyTorch here.{changed}"))


def fit_rows(entry: Entry) -> list[Markup]:
    """Rows of the fit card: what the chapter's version would take on each card, at that card's tier."""
    found = read(entry.chapter)
    if found is None or "ours" not in found.parts:
        return []
    part = found.parts["ours"]
    return [
        row(f"{tier}: {part.what}", _least(part, one), _held(one), one.card, MARK)
        for tier in CARDS
        for one in part.predictions(tier)
    ]


def _held(one) -> str:
    return number(float(one.peak_bytes), "B") + ("" if one.fits else ", does not fit")


def ledger_lines(finding: Finding) -> list[Markup]:
    """The predictions of a claim's metric, beside the article's number and beside each receipt from such a card."""
    claim, found = finding.claim, read(finding.chapter)
    if found is None:
        return []
    lines = []
    for tier in [tier for tier in CARDS if tier in claim["tiers"]]:
        for one, value in found.metric(claim["metric"], claim["unit"], tier):
            bound = "at most" if claim["better"] == "higher" else "at least"
            bound = bound if found.measure(claim["metric"]).is_bound(one) else "about"
            words = [
                f"{MARK}: ",
                tag("strong", f"{bound} {number(value, claim['unit'])}"),
                f" by {one.card}, tier {tier}",
            ]
            words += ["" if one.fits else ", where it would not fit"]
            words += [f"; {_ratio(finding, run, value)}" for run in _runs(finding, one.card, tier)]
            lines.append(tag("li", joined(*words), class_="predicted"))
    return lines


def _runs(finding: Finding, card: str, tier: str) -> list[Run]:
    """Receipts that measured the claim's metric at a tier on a card of that kind: "Tesla T4" is a T4."""
    runs = [run for run in (finding.run, *finding.others) if run is not None and run.tier == tier]
    return [run for run in runs if model(card) in run.machine.upper().replace("-", " ").split()]


def model(card: str) -> str:
    """The model in a card's name.

    >>> model("A100 SXM 40 GB"), model("Tesla T4")
    ('A100', 'T4')
    """
    return next(word for word in card.split() if any(letter.isdigit() for letter in word))


def _ratio(finding: Finding, run: Run, value: float) -> str:
    """What a receipt from that card makes of the prediction."""
    got = finding.metric(run)["value"]
    return f"measured on {run.date}: {got / value:.2f} times the prediction"
