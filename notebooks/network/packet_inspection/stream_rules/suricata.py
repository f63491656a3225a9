"""Rules in Suricata's format: written, and read back by `suricataparser`.

A row of plain bytes and jumps becomes `content`s with `distance` and `within`; what they cannot
say becomes a `pcre`. Suricata joins all options by 'and', so an 'or' becomes several rules with
one `msg`. What has no such form goes to a ledger of its own. We have no Suricata here: what is
tested is that the rules, read back, give the verdicts they gave before.
"""

import itertools
import re
from collections.abc import Iterable

from suricataparser import parse_rule

from .conditions import MIRROR, mentions
from .patterns import (
    ANY,
    FOREVER,
    LONGEST,
    Element,
    Inexpressible,
    Pattern,
    folded,
    jump,
    members,
    text_row,
)
from .regexes import regex_patterns
from .rule_texts import Entry, Rule

CLAUSES, FIRST_SID, CONTENT = 64, 1_000_000, 255  # `content` takes at most 255 bytes
NOT = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
HEAD = (
    'alert http any any -> any any (msg:"{}"; flow:established,to_client; file_data; '
    "{}sid:{}; rev:1;)"
)


def write(rules: Iterable[Rule]) -> tuple[list[str], list[Entry]]:
    """Suricata rules, one line each, and the ledger of what they cannot say."""
    lines, ledger, named = [], [], {}
    for rule in rules:
        named[rule.name] = rule
        try:
            asked = [] if rule.private else clauses(rule.condition, named)
            rows = [row for clause in asked for row in _options(clause, named)]
        except Inexpressible as error:
            ledger.append(Entry(rule.name, str(error)))
            continue
        for row in rows:
            options = "".join(f"{option}; " for part in row for option in part)
            lines.append(HEAD.format(rule.name, options, FIRST_SID + len(lines)))
    return lines, ledger


def clauses(
    node: tuple, named: dict[str, Rule], yes: bool = True, rule: str | None = None
) -> list[tuple]:
    """The condition as 'or' of 'and's: of each, the literals `(rule's name, node, yes)`."""
    rule = rule or next(reversed(named))
    inner = named[node[1]].condition if node[0] == "rule" else node
    if not yes and node[0] in ("and", "or", "of", "rule") and mentions(inner, "header"):
        raise Inexpressible("not: of a choice among bytes, which a short file lacks")
    match node:
        case ("bool", value):
            return [()] if value == yes else []
        case ("not", part):
            return clauses(part, named, not yes, rule)
        case ("rule", name):
            return clauses(named[name].condition, named, yes, name)
        case ("and" | "or" | "of", *parts):
            wanted, parts = (parts[0], parts[1:]) if node[0] == "of" else (1, parts)
            wanted = len(parts) if node[0] == "and" else wanted
            wanted = wanted if yes else len(parts) - wanted + 1  # so many 'no' make it false
            made = []
            for chosen in itertools.combinations(parts, wanted):
                options = [clauses(part, named, yes, rule) for part in chosen]
                made += [sum(row, ()) for row in itertools.product(*options)]
                if len(made) > CLAUSES:
                    raise Inexpressible(f"more than {CLAUSES} rules for one")
            return made
    return [((rule, node, yes),)]


def _options(clause: tuple, named: dict[str, Rule]) -> list[tuple]:
    """The options of a clause, once for each choice among its strings' patterns."""
    parts = []
    for name, node, yes in clause:
        if node[0] == "compare":
            parts.append([_comparison(node, yes)])
        elif node[0] == "match":
            choices = [_pattern(pattern) for pattern in named[name].patterns[node]]
            if not yes:
                if any(len(each) > 1 or "content" not in each[0] for each in choices):
                    raise Inexpressible("not: of a string that is no plain text")
                choices = [[each[0].replace("content:", "content:!", 1) for each in choices]]
            parts.append(choices)
        else:
            raise Inexpressible(f"condition: {node[0]} alone")
    made = list(itertools.islice(itertools.product(*parts), CLAUSES + 1))
    if len(made) > CLAUSES:
        raise Inexpressible(f"more than {CLAUSES} rules for one")
    return made


def _comparison(node: tuple, yes: bool) -> list[str]:
    _, sign, left, right = node
    if left[0] == "int":
        sign, left, right = MIRROR[sign], right, left
    sign = sign if yes else NOT[sign]
    if right[0] != "int":
        raise Inexpressible("condition: compares two things of the file")
    if left == ("filesize",):
        value = right[1] + {">=": -1, "<=": 1}.get(sign, 0)
        if sign == "!=" or value < 0:
            raise Inexpressible(f"filesize {sign} {right[1]}")
        return [f"filesize:{ {'==': '', '<=': '<', '>=': '>'}.get(sign, sign) }{value}"]
    if left[0] != "header" or left[4]:
        raise Inexpressible(f"condition: compares {left[0]}")
    _, offset, width, big, _ = left
    order = "big" if big else "little"
    return [f"byte_test:{width},{'=' if sign == '==' else sign},{right[1]},{offset},{order}"]


def _pattern(pattern: Pattern) -> list[str]:
    """A pattern as contents, or as one expression."""
    runs, gap = [], [0, 0]  # of each run: bytes, nocase, least and most bytes before it
    for element in pattern.elements:
        if element.fits == ANY and not element.repeats:
            gap = [gap[0] + (not element.optional), gap[1] + 1]
            continue
        if element.optional or element.repeats or (letter := _letter(element.fits)) is None:
            return [expression(pattern)]
        byte, either = letter
        joins = runs and gap == [0, 0] and len(runs[-1][0]) < CONTENT
        if joins and (None in (either, runs[-1][1]) or either == runs[-1][1]):
            runs[-1][0].append(byte)
            runs[-1][1] = runs[-1][1] if either is None else either
        else:
            runs.append([bytearray([byte]), either, *gap])
        gap = [0, 0]
    bound = (pattern.low, pattern.high) != (0, FOREVER)
    if not runs or pattern.at_end or gap[0] != gap[1] or (bound and runs[0][2] != runs[0][3]):
        return [expression(pattern)]
    made = []
    for number, (text, nocase, least, most) in enumerate(runs):
        option = [f'content:"{_content(bytes(text))}"'] + ["nocase"] * bool(nocase)
        if number:
            option += [f"distance:{least}", f"within:{most - least + len(text)}"]
        elif bound or least:
            option += [f"offset:{pattern.low + least}"]
            if pattern.high != FOREVER:
                option += [f"depth:{pattern.high - pattern.low + len(text)}"]
        made += ["; ".join(option)]
    return made + [f"isdataat:{gap[0]},relative"] * bool(gap[0])


def _letter(fits: int) -> tuple[int, bool | None] | None:
    """The byte, and whether it is a letter in either case (None: no letter)."""
    known = members(fits)
    if len(known) == 1:
        return known[0], False if folded(fits) != fits else None
    return (known[1], True) if len(known) == 2 and folded(1 << known[0]) == fits else None


def _content(text: bytes) -> str:
    return "|" + text.hex(" ").upper() + "|"


def expression(pattern: Pattern) -> str:
    parts = []
    for element in pattern.elements:
        known = members(element.fits)
        one = "." if element.fits == ANY else "".join(rf"\x{b:02x}" for b in known)
        one = one if len(known) in (1, 256) else f"[{one}]"
        parts.append(one + ("*" if element.repeats else "?" if element.optional else ""))
    if LONGEST < pattern.high < FOREVER:
        raise Inexpressible("an offset far behind the start, for an expression")
    if pattern.high != FOREVER:
        span = f"{{{pattern.low},{pattern.high}}}"
        parts.insert(0, r"\A" + ("." + span if pattern.high else ""))
    elif pattern.low:
        raise Inexpressible("an offset from which a string may begin")
    short = re.sub(r"((?:\[[^\]]*\]|\\x..|\.)\??)\1{3,}(?![?*])", _repeat, "".join(parts))
    return f'pcre:"/{short}{chr(92) + "Z" if pattern.at_end else ""}/s"'.replace(
        r"\Z/s", r"\z/s"
    )


def _repeat(found: re.Match) -> str:
    one = found[1].removesuffix("?")
    times = len(found[0]) // len(found[1])
    return one + (f"{{0,{times}}}" if found[1] != one else f"{{{times}}}")


# --- read back


def read_back(lines: Iterable[str]) -> list[Rule]:
    """The rules that Suricata's lines say; lines of one `msg` are alternatives."""
    found: dict[str, list[tuple]] = {}
    patterns: dict[str, dict] = {}
    for line in lines:
        rule = parse_rule(line)
        if rule is None:
            raise ValueError(f"no Suricata rule: {line[:60]!r}")
        kept = patterns.setdefault(rule.msg, {})
        clause = _clause([(o.name, o.value) for o in rule.options], kept)
        found.setdefault(rule.msg, []).append(("and", *clause))
    return [Rule(name, ("or", *all_), patterns[name]) for name, all_ in found.items()]


def _clause(options: list[tuple], kept: dict) -> list[tuple]:
    parts, chain = [("bool", True)], []

    def close() -> None:
        if chain:
            row, low, high, no = _chained(chain)
            atom = ("match", f"${len(kept)}", low, high)
            kept[atom] = [Pattern(row, low, high)]
            parts.append(("not", atom) if no else atom)
            chain.clear()

    for place, (name, value) in enumerate(options):
        if name == "content":
            following = itertools.takewhile(lambda o: o[0] in WORDS, options[place + 1 :])
            words = dict(following)
            if "distance" not in words:
                close()
            chain.append((value, words))
        elif name == "isdataat":
            chain.append((None, {"more": int(value.split(",")[0])}))
        elif name == "pcre":
            close()
            atom = ("match", f"${len(kept)}", 0, FOREVER)
            source = value.strip('"')[1:-2].replace(r"\z", r"\Z")
            kept[atom] = regex_patterns(source, dotall=True)
            parts.append(atom)
        elif name == "filesize":
            sign = value[0] if value[0] in "<>" else "=="
            parts.append(("compare", sign, ("filesize",), ("int", int(value.lstrip("<>")))))
        elif name == "byte_test":
            width, sign, number, offset, order = value.split(",")
            header = ("header", int(offset), int(width), order == "big", False)
            parts.append(
                ("compare", "==" if sign == "=" else sign, header, ("int", int(number)))
            )
    close()
    return parts


WORDS = ("nocase", "distance", "within", "offset", "depth")


def _chained(chain: list[tuple]) -> tuple[tuple[Element, ...], int, int, bool]:
    """The row of a chain of contents, where it may begin, and whether it is denied."""
    row, low, high = (), 0, FOREVER
    for value, words in chain:
        if value is None:
            row += jump(words["more"], words["more"])
            continue
        text = bytes.fromhex(value.lstrip("!").strip('"').strip("|"))
        plain = text_row(text)
        if "nocase" in words:
            plain = tuple(Element(folded(element.fits)) for element in plain)
        if "distance" in words:
            least = int(words["distance"])
            row += jump(least, least + int(words["within"]) - len(text))
        elif "offset" in words:
            low = int(words["offset"])
            high = low + int(words["depth"]) - len(text) if "depth" in words else FOREVER
        row += plain
    return row, low, high, chain[0][0].startswith("!")
