"""What a chapter's counts have to hold before a page may show them: equal work, reasons where ours is behind."""

from collections.abc import Iterator

from rehearsal.predict import CARDS

from .kept import SHOWN, Kept
from .limits import impossible

ROLES = ("ours", "naive", "broken")
AHEAD = 0.99  # of the seconds of ours, and less: ahead
SEEN = 1.10  # times the seconds of ours, and more: a reader sees it in the table
SAME = 0.01  # share of the FLOPs by which a broken version may differ: it computes what ours does
LEAST = 0.9  # of the FLOPs or of the bytes of ours that a naive version does: no smaller task


def problems(found: Kept) -> Iterator[str]:
    """What is wrong with a chapter's counts, one sentence each."""
    yield from impossible(found.content)
    yield from _missing(found)
    reasons, behind = found.content["ahead"], ahead(found)
    for role in sorted(behind.keys() - reasons.keys()):
        yield f"{role} is predicted ahead of ours on {', '.join(behind[role])}; AHEAD says why, or it does less work"
    for role in sorted(reasons.keys() - behind.keys()):
        yield f"AHEAD has a sentence for {role}, which is predicted ahead of ours nowhere; take it out"
    for role in ROLES[1:]:
        yield from _unequal(found, role)
    if "broken" in found.parts and not _seen(found):
        yield (
            f"broken is predicted less than {SEEN:g} times as long as ours on a {CARDS[SHOWN][0].name}; break it so "
            "that a reader sees it, or leave it out with a sentence in LEFT_OUT"
        )


def _missing(found: Kept) -> Iterator[str]:
    """The three versions are there at the tier that a page shows; a broken one alone may be left out, with a reason."""
    gone = found.content["left_out"]
    for role in ROLES:
        there = role in found.parts and SHOWN in found.parts[role].tiers
        if there and role in gone:
            yield f"LEFT_OUT has a sentence for {role}, which is there; take it out"
        elif not there and not (role == "broken" and role in gone):
            yield f"{role} is not counted at tier {SHOWN}; all three are, or LEFT_OUT says why there is no broken one"


def ahead(found: Kept) -> dict[str, list[str]]:
    """The cards on which the naive or the broken version is predicted ahead of ours, at any tier."""
    behind = {}
    for role in ROLES[1:]:
        for tier in CARDS:
            pairs = zip(_at(found, "ours", tier), _at(found, role, tier), strict=False)
            cards = [one.card for ours, one in pairs if one.seconds < AHEAD * ours.seconds]
            behind.setdefault(role, []).extend(cards)
    return {role: cards for role, cards in behind.items() if cards}


def _at(found: Kept, role: str, tier: str) -> list:
    return found.parts[role].predictions(tier) if role in found.parts else []


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


def _seen(found: Kept) -> bool:
    """Whether the broken version takes visibly longer on the card of the page's table."""
    ours, broken = (_at(found, role, SHOWN)[:1] for role in ("ours", "broken"))
    return all(one.seconds >= SEEN * own.seconds for own, one in zip(ours, broken, strict=False))
