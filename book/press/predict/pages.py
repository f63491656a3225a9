"""What pages show of counts and predictions: the block on a chapter's page, rows of its fit card, lines of the ledger.

Everywhere it says that this is predicted and not measured.
"""

import html
import re

from helpers.show import number
from rehearsal.predict import CARDS

from ..files import read_json
from ..ledger.ledger import Entry, Finding
from ..ledger.tables import Markup, html_table, joined, row, tag
from .kept import SHOWN, Kept, Part, ahead, read

MARK = "predicted, not measured"
FAR = 0.33  # predicted over measured: below, the page calls the formula a limit
ROLES = {"ours": "the chapter's", "naive": "naive", "broken": "broken"}
COLUMNS = ["", "kernels", "memory traffic", "over the link", "copies", "waits", "memory", "seconds"]


def block(entry: Entry) -> list[str]:
    """The chapter's version, the naive one and a broken one, counted; how to count one's own. Empty without counts."""
    found = read(entry.chapter)
    parts = {name: found.parts[name] for name in ROLES if name in found.parts} if found else {}
    rows = [_counted(ROLES[name], part) for name, part in parts.items() if SHOWN in part.tiers]
    if not rows:
        return []
    caption = f"One call at tier {SHOWN}, counted on a pretended GPU; seconds on a {CARDS[SHOWN][0].name}: {MARK}"
    table = html_table(caption, COLUMNS, [rows], "rebuilt-table rebuilt-counts")
    pieces = [tag("summary", "Where would a GPU wait? The work counted"), _said(found), table]
    pieces += _where(parts["broken"]) if "broken" in parts else []
    pieces += [tag("p", _error(found)), _own(found)]
    return [tag("details", joined(*pieces), class_="rebuilt-counted")]


def _said(found: Kept) -> Markup:
    """What each version is, why it is ahead of the chapter's where it is, and why one is not there."""
    lines, behind, gone = [], ahead(found), found.content["left_out"]
    for name in [name for name in ROLES if name in {**found.parts, **gone}]:
        words = f"{found.parts[name].what}." if name in found.parts else f"left out: {gone[name]}."
        if name in found.content["too_much"]:
            words += f" More is counted than a card does: {found.content['too_much'][name]}."
        if name in behind:
            why = found.content["ahead"].get(name, "")
            words += f" Predicted ahead of the chapter's on {' and '.join(behind[name])}: {why}."
        lines.append(tag("li", joined(tag("strong", ROLES[name]), ": ", words)))
    return tag("ul", joined(*lines))


def _counted(role: str, part: Part) -> Markup:
    """A version's counts in one row."""
    entry, first = part.tiers[SHOWN], part.predictions(SHOWN)[0]
    moved, over = (number(float(size), "B") for size in (entry["bytes_moved"], entry["bytes_up"] + entry["bytes_down"]))
    sums = [f"{entry['operations']:,}", moved, over, f"{entry['copies']:,}", f"{entry['syncs']:,}"]
    return row(role, *sums, _held(first), f"{_least(part, first)}, {first.bound}" if first.fits else "–")


def _held(one) -> str:
    return number(float(one.peak_bytes), "B") + ("" if one.fits else ", does not fit")


def _least(part: Part, one) -> str:
    """The seconds of a prediction: at least so many where the datasheet holds them, about where launches, waits and
    copies do, whose times are assumed, or where too much is counted."""
    return f"{'at least' if part.is_bound(one) else 'about'} {number(one.seconds, 's')}"


def _where(broken: Part) -> list[Markup]:
    """The broken version's code, and the lines at which the host waits."""
    waits = broken.tiers.get(SHOWN, {}).get("waits", {})
    lines = [tag("li", joined(tag("code", place), f": {many:,}×")) for place, many in waits.items()]
    code = re.sub(r"\n\s*\n", "\n", html.escape(broken.code.strip()))  # an empty line would end the block of HTML
    code = re.sub(r"^ +", lambda indent: "&#160;" * len(indent[0]), code, flags=re.MULTILINE)
    told = tag("p", "The broken version, and where the host waits in it:")
    return [told, tag("pre", tag("code", Markup(code.replace("\n", "&#10;")))), tag("ul", joined(*lines))]


def _error(found: Kept) -> str:
    """How far the formula was off for `ours` on a processor, or that nobody has tried."""
    content = read_json(found.chapter.root / "data" / "predictions" / "against_the_cpu.json") or {}
    tried = content.get("chapters", {}).get(found.chapter.stem, {})
    if "ratio" not in tried:
        why = f": {tried['error']}" if tried else ""
        return f"How far the formula is off for this chapter has not been measured on a processor{why}."
    predicted, measured = (number(float(tried[name]), "s") for name in ("predicted_s", "measured_s"))
    words = f"Tried on a processor ({content['machine']['cpu']}, {content['date']}), with that machine's own bandwidth "
    words += f"and rates and at small sizes: the formula says {predicted} for the chapter's version, measured were "
    words += f"{measured}, which is {tried['ratio']:.2f} predicted over measured."
    return words + " So far below, it is a limit and no estimate." * (tried["ratio"] < FAR)


def _own(found: Kept) -> Markup:
    """How a reader counts a version of their own."""
    source, command = tag("code", found.content["source"]), tag("code", f"make predict CHAPTERS={found.chapter.stem}")
    words = "; no GPU is needed. A kernel is one operation of PyTorch here."
    words += " Its code has changed since it was counted." * found.stale
    return tag("p", joined("Yours: write a function beside these in ", source, ", then ", command, words))


def fit_rows(entry: Entry) -> list[Markup]:
    """Rows of the fit card: what the chapter's version would take on each card, at that card's tier."""
    found = read(entry.chapter)
    ours = found and found.parts.get("ours")
    pairs = [(tier, one) for tier in CARDS for one in ours.predictions(tier)] if ours else []
    return [row(f"{tier}: {ours.what}", _least(ours, one), _held(one), one.card, MARK) for tier, one in pairs]


def ledger_lines(finding: Finding) -> list[Markup]:
    """The predictions of a claim's metric, beside the article's number and beside each receipt from such a card."""
    claim, found, lines = finding.claim, read(finding.chapter), []
    runs = [run for run in (finding.run, *finding.others) if run is not None]
    for tier in [tier for tier in CARDS if tier in claim["tiers"]] if found else []:
        for one, value in found.metric(claim["metric"], claim["unit"], tier):
            bound = "at most" if claim["better"] == "higher" else "at least"
            bound = bound if found.measure(claim["metric"]).is_bound(one) else "about"
            words = f" by {one.card}, tier {tier}" + ("" if one.fits else ", where it would not fit")
            for run in runs:  # that measured it on a card of that kind: "Tesla T4" is a T4
                if run.tier == tier and model(one.card) in run.machine.upper().replace("-", " ").split():
                    ratio = finding.metric(run)["value"] / value
                    words += f"; measured on {run.date}: {ratio:.2f} times the prediction"
            strong = tag("strong", f"{bound} {number(value, claim['unit'])}")
            lines.append(tag("li", joined(f"{MARK}: ", strong, words), class_="predicted"))
    return lines


def model(card: str) -> str:
    """The model in a card's name.

    >>> model("A100 SXM 40 GB"), model("Tesla T4")
    ('A100', 'T4')
    """
    return next(word for word in card.split() if any(letter.isdigit() for letter in word))
