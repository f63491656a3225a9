"""What cards say beside their claims (`reason`, `gains`, `plain`, `errata`), as plain data, and what of it their
notebooks and receipts do not bear out."""

import re
from collections.abc import Iterator
from pathlib import Path

from helpers import verdicts

from ..files import read_json
from ..ledger import FINDINGS, Entry, Finding
from ..ledger.ledger import judged
from ..repository import Chapter, tags

SCHEMA = read_json(Path(__file__).parents[1] / "gates" / "card.schema.json")["properties"]
REASONS = SCHEMA["claims"]["items"]["properties"]["reason"]["enum"]
GAINS = SCHEMA["gains"]["items"]["properties"]["kind"]["enum"]
POINTING = ("gains", "plain", "errata")  # each entry names a section of the notebook
PLAIN = {"id": "plain", "kind": "direction", "value": 0, "tiers": ["cpu", "gpu", "big"]}
HEADING = re.compile(r"^## (.+?)\s*$", re.MULTILINE)
NUMBER = re.compile(r"\d+(?:[.,_]\d+)*")


def sections(chapter: Chapter) -> dict[str, str]:
    """What a reader meets in each section of the notebook, code too, by its heading; before the first: under ""."""
    found, title = {}, ""
    for cell in [cell for cell in chapter.cells if not {"instructor", "talk"} & {*tags(cell)}]:
        parts = HEADING.split(cell.source) if cell.cell_type == "markdown" else [cell.source]
        for name, text in zip([title, *parts[1::2]], parts[::2], strict=True):
            found[name], title = f"{found.get(name, '')} {' '.join(text.split())}", name
    return found


def numbers(text: str) -> set[str]:
    """The numbers of a text as digits and points alone.

    >>> sorted(numbers("22,327.4 GiB of 2_002 tables"))
    ['2002', '22327.4']
    """
    return {re.sub("[,_]", "", one) for one in NUMBER.findall(text)}


def plain(entry: Entry) -> list[Finding]:
    """Where the card says that the plain way won: found as a claim is, by the run that it names; holds: it won."""
    return [judged(entry.chapter, PLAIN | one, entry.runs) for one in entry.chapter.card.get("plain") or ()]


def kinds(findings: list[Finding]) -> dict[str, dict[str, list[Finding]]]:
    """The claims of each kind that can be found, by what was found; a word that none has is left out."""
    found = {kind: [one for one in findings if one.claim["kind"] == kind] for kind in verdicts.KINDS[:4]}
    words = {
        kind: {word: [one for one in some if one.found == word] for word in FINDINGS} for kind, some in found.items()
    }
    return {kind: {word: some for word, some in own.items() if some} for kind, own in words.items() if found[kind]}


def reasons(findings: list[Finding]) -> dict[str, list[Finding]]:
    """The claims that do not hold here by the reason that their cards give; under "" those without."""
    failed = [one for one in findings if one.found == verdicts.FAILS]
    return {name: [one for one in failed if one.claim.get("reason", "") == name] for name in (*REASONS, "")}


def amiss(entry: Entry) -> Iterator[str]:
    """What a card says beside its claims and its notebook or a run does not bear out, one sentence each."""
    card, held = entry.chapter.card, sections(entry.chapter)
    for name in POINTING:
        odd = [one["section"] for one in card.get(name) or () if one["section"] not in held]
        yield from (f"{name}: {title!r} is no section of the notebook" for title in odd)
    for one in [one for one in card.get("errata") or () if one["section"] in held]:
        text = held[one["section"]]
        if gone := sorted(numbers(f"{one['printed']} {one['right']}") - numbers(text)):
            yield f"errata: {one['printed']!r}: the section {one['section']!r} does not hold {', '.join(gone)}"
        if one["shows"] not in text:
            yield f"errata: {one['printed']!r}: the section {one['section']!r} does not say {one['shows']!r}"
    for one in entry.findings:
        reason, own = one.claim.get("reason"), f"claims.{one.claim['id']}"
        if reason and one.found in (verdicts.HOLDS, verdicts.MET):
            yield f"{own}: `reason` says why it does not hold, and it {one.found}"
        if one.found == verdicts.FAILS and one.run.origin == "recorded" and not reason:
            yield f"{own}: {one.found}, by a recorded run, and no `reason` says why"
    for one in plain(entry):
        if one.found in (verdicts.FAILS, verdicts.UNDECIDED):
            yield f"plain: {one.claim['metric']}: that the plain way won {one.found}"
