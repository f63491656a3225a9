"""Rule texts read by `plyara`, and what of them goes into the ledger."""

from collections.abc import Iterable
from dataclasses import dataclass

import plyara
import plyara.exceptions

from .conditions import FOREVER, Condition, atoms, mentions
from .patterns import Inexpressible, Pattern, hex_rows, modified, text_bytes, text_row
from .regexes import regex_patterns


@dataclass(frozen=True)
class Entry:
    """One line of the ledger: which rule is left out, and why."""

    rule: str
    reason: str


@dataclass(frozen=True)
class Rule:
    """A rule that a stream can answer: for each `("match", …)` of its condition the
    patterns."""

    name: str
    condition: tuple
    patterns: dict[tuple, list[Pattern]]
    private: bool = False


def read(rules: str | Iterable[str]) -> tuple[list[Rule], list[Entry]]:
    """The rules that a stream can answer, and the ledger of the others.

    Raises `ValueError` where a text is no YARA rule, or two rules share a name.
    """
    text = (
        rules if isinstance(rules, str) else "\n".join(rules)
    )  # one parser costs 0.3 s to make
    try:
        raw = plyara.Plyara().parse_string(text) if text.strip() else []
    except (plyara.exceptions.ParseError, ValueError, TypeError) as error:
        raise ValueError(f"no YARA rule: {error}") from error
    names = [rule["rule_name"] for rule in raw]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two rules are called {twice[0]}; each name may stand once")
    made, ledger = {}, []
    for rule in raw:
        try:
            if "global" in rule.get("scopes", []):
                raise Inexpressible("global: would decide all other rules")
            made[rule["rule_name"]] = _rule(rule, made, names)
        except Inexpressible as error:
            ledger.append(Entry(rule["rule_name"], str(error)))
    return list(made.values()), ledger


def _rule(raw: dict, before: dict, names: list[str]) -> Rule:
    strings, count = {}, 0
    for string in raw.get("strings", []):
        name = string["name"]
        if name == "$":  # without a name: each is one of `them`, and cannot be asked alone
            count += 1
            name = f"$#{count}"
        strings[name] = string
    modules = [name.strip('"') for name in raw.get("imports", [])]
    known = {name for name in names if name in before}
    tree = Condition(raw["condition_terms"], list(strings), names, modules).tree()
    for _, wanted in mentions(tree, "rule"):
        if wanted not in known:
            raise Inexpressible(f"asks rule {wanted}, which is in this ledger")
    compiled = {name: _patterns(string) for name, string in strings.items()}
    patterns = {}
    for atom in atoms(tree):
        _, name, low, high = atom
        bound = [pattern.within(low, high) for pattern in compiled[name]]
        if (low, high) != (0, FOREVER) and "fullword" in strings[name].get("modifiers", []):
            raise Inexpressible("a place for a string under fullword")
        patterns[atom] = [pattern for pattern in bound if pattern.low <= pattern.high]
    return Rule(raw["rule_name"], tree, patterns, "private" in raw.get("scopes", []))


def _patterns(string: dict) -> list[Pattern]:
    kind, value = string["type"], string["value"]
    words = list(string.get("modifiers", []))
    if kind == "byte":
        return modified([Pattern(row) for row in hex_rows(value)], words)
    if kind == "text":
        return modified([Pattern(text_row(text_bytes(value)))], words)
    body, _, flags = value[1:].rpartition("/")
    nocase = "i" in flags or "nocase" in words  # before a class is turned round, so not later
    patterns = regex_patterns(body.replace("\\/", "/"), nocase, "s" in flags)
    return modified(patterns, {*words} - {"nocase"})
