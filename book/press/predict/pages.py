"""What pages show of counts and predictions: the block on a chapter's page, rows of its fit card, lines of the ledger.

Everywhere it says that this is predicted and not measured.
"""

from helpers.show import number
from rehearsal.predict import CARDS

from ..ledger.ledger import Entry, Finding, Run
from ..ledger.tables import Markup, html_table, joined, row, tag
from .kept import Kept, Part, read

MARK = "predicted, not measured"
SHOWN = "gpu"  # the tier of the block: one card with 16 GB
ROLES = {"ours": "the chapter's", "naive": "naive", "broken": "broken"}
COLUMNS = ["", "kernels", "memory traffic", "over the link", "copies", "waits", "memory", "at least"]


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
    said = tag(
        "ul", joined(*(tag("li", joined(tag("strong", role), ": ", part.what, ".")) for role, part in parts.items()))
    )
    pieces = [tag("summary", "Where would a GPU wait? The work counted"), said, table, *_where(parts), _own(found)]
    return [tag("details", joined(*pieces), class_="rebuilt-counted")]


def _counted(role: str, part: Part) -> Markup:
    """A version's counts in one row."""
    entry, (first, *_) = part.tiers[SHOWN], part.predictions(SHOWN)
    over = number(float(entry["bytes_up"] + entry["bytes_down"]), "B")
    memory = number(float(entry["peak_bytes"]), "B") + ("" if first.fits else ", does not fit")
    seconds = f"{number(first.seconds, 's')}, {first.bound}" if first.fits else "–"
    moved = number(float(entry["bytes_moved"]), "B")
    return row(
        role, f"{entry['operations']:,}", moved, over, f"{entry['copies']:,}", f"{entry['syncs']:,}", memory, seconds
    )


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
        row(f"{tier}: {part.what}", f"at least {number(one.seconds, 's')}", _held(one), one.card, MARK)
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
