"""A YARA string as sequences of byte classes: what a matcher over a stream can carry.

A *pattern* is a row of elements. Each takes one byte of its class; an element may be optional
(`?`) or repeat (`*` is both). A jump `[2-4]` is two elements of any byte and two optional ones.
Alternatives become several patterns, so no pattern branches: Navarro and Raffinot call such
rows extended strings (*Flexible Pattern Matching in Strings*, 2002, chapter 4).
"""

import functools
import itertools
import re
import string
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

ANY = (1 << 256) - 1
FOREVER = 1 << 62  # later than any byte of a stream
ALTERNATIVES, LONGEST = 256, 8192  # what one string may grow to; more goes to the ledger
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\", '"': '"'}


class Inexpressible(ValueError):
    """What cannot be asked of a stream; the message is the ledger's reason."""


class Element(NamedTuple):
    """One byte of a class; bit `b` of `fits` says that byte `b` will do."""

    fits: int
    optional: bool = False
    repeats: bool = False


@dataclass(frozen=True)
class Pattern:
    """A row of elements, the offsets at which it may begin, and whether it must end the
    file."""

    elements: tuple[Element, ...]
    low: int = 0
    high: int = FOREVER
    at_end: bool = False

    def within(self, low: int, high: int) -> "Pattern":
        return replace(self, low=max(self.low, low), high=min(self.high, high))


def byte_class(values: Iterable[int]) -> int:
    """A class of these bytes, as 256 bits."""
    made = 0
    for value in values:
        made |= 1 << value
    return made


ALNUM = byte_class(map(ord, string.ascii_letters + string.digits))
ZERO = byte_class([0])


@functools.cache
def members(fits: int) -> list[int]:
    """The bytes of a class, in order."""
    return [value for value in range(256) if fits >> value & 1]


def folded(fits: int) -> int:
    """The class with each letter in both cases."""
    letters = [value for value in members(fits) if chr(value) in string.ascii_letters]
    return fits | byte_class(value ^ 0x20 for value in letters)


def product(parts: list[list[tuple]]) -> list[tuple]:
    """Every way to take one row from each part, joined; refused beyond `ALTERNATIVES`."""
    made = [()]
    for alone, group in itertools.groupby(parts, lambda part: len(part) == 1):
        run = list(group)
        if alone:  # most bytes have no alternative: joined in one go, not one by one
            run = [[tuple(itertools.chain.from_iterable(part[0] for part in run))]]
        for part in run:
            made = [left + right for left in made for right in part]
            if len(made) > ALTERNATIVES:  # at once: thirty choices of two are a billion rows
                raise Inexpressible(f"more than {ALTERNATIVES} alternatives in one string")
    if any(len(row) > LONGEST for row in made):
        raise Inexpressible(f"a string may span more than {LONGEST:,} bytes")
    return made


def jump(low: int, high: int | None, fits: int = ANY) -> tuple[Element, ...]:
    """Between `low` and `high` bytes of a class; without `high`, as many as come."""
    if max(low, high or 0) > LONGEST:
        raise Inexpressible(f"a string may span more than {LONGEST:,} bytes")
    rest = [Element(fits, True, True)] if high is None else [Element(fits, True)] * (high - low)
    return (Element(fits),) * low + tuple(rest)


# --- hex strings


def hex_rows(text: str) -> list[tuple[Element, ...]]:
    """The rows of `{ 4D 5? [2-4] (01 | 02 03) ~00 }`.

    >>> [len(row) for row in hex_rows("{ 4D 5? (01 | 02 03) }")]
    [3, 4]
    """
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text.strip().strip("{}"), flags=re.S)
    tokens = re.findall(r"~?[0-9A-Fa-f?]{2}|\[[^\]]*\]|[(|)]|\S", text)
    rows, rest = _hex_choice(tokens)
    if rest:
        raise ValueError(f"hex string: {rest[0]!r} stands where a byte, a jump or ( is allowed")
    return rows


def _hex_choice(tokens: list[str]) -> tuple[list[tuple], list[str]]:
    """The rows up to the closing bracket, and the tokens from it on."""
    choices, parts = [], []
    while tokens and tokens[0] != ")":
        token, tokens = tokens[0], tokens[1:]
        if token == "|":
            choices, parts = choices + product(parts), []
        elif token == "(":
            rows, tokens = _hex_choice(tokens)
            if not tokens:
                raise ValueError("hex string: ( without )")
            parts, tokens = parts + [_merged(rows)], tokens[1:]
        else:
            parts.append([_hex_item(token)])
    return _merged(choices + product(parts)), tokens


@functools.cache
def _hex_item(token: str) -> tuple[Element, ...]:
    if token.startswith("["):
        low, dash, high = (part.strip() for part in token[1:-1].partition("-"))
        first = int(low or 0)
        return jump(first, int(high) if high else None if dash else first)
    if not re.fullmatch(r"~?[0-9A-Fa-f?]{2}", token):
        raise ValueError(f"hex string: {token!r} is no byte, no jump and no bracket")
    digits = token.removeprefix("~").lower()
    shape = re.compile(digits.replace("?", "."))
    fits = byte_class(value for value in range(256) if shape.fullmatch(f"{value:02x}"))
    return (Element(ANY & ~fits if token.startswith("~") else fits),)


def _merged(rows: list[tuple]) -> list[tuple]:
    """Rows of one plain byte each become one class: (68 | 8B) is no branch."""
    if len(rows) > 1 and all(len(row) == 1 and not any(row[0][1:]) for row in rows):
        fits = 0
        for row in rows:
            fits |= row[0].fits
        return [(Element(fits),)]
    return rows


# --- texts


def text_bytes(value: str) -> bytes:
    """The bytes of a text as it stands between quotes in a rule."""

    def escape(found: re.Match) -> str:
        code = found[1]
        return chr(int(code[1:], 16) + 0xDC00) if code[0] == "x" else ESCAPES[code]

    plain = re.sub(r"\\(x[0-9A-Fa-f]{2}|[tnr\\\"])", escape, value)
    # \xHH is one byte, whatever the encoding of the text around it: surrogates carry it over
    one = lambda c: bytes([ord(c) - 0xDC00]) if 0xDC00 <= ord(c) < 0xDD00 else c.encode()  # noqa: E731
    return b"".join(map(one, plain))


def text_row(raw: bytes) -> tuple[Element, ...]:
    """One element for each byte."""
    return tuple(Element(1 << value) for value in raw)


# --- modifiers, the same for all kinds of string


def modified(patterns: list[Pattern], modifiers: Iterable[str]) -> list[Pattern]:
    """The patterns under `nocase`, `wide`, `ascii` and `fullword`; others are refused."""
    words = set(modifiers)
    if unknown := words - {"nocase", "wide", "ascii", "fullword", "private"}:
        raise Inexpressible(f"modifier {sorted(unknown)[0]}")
    if "nocase" in words:
        patterns = [
            replace(p, elements=tuple(e._replace(fits=folded(e.fits)) for e in p.elements))
            for p in patterns
        ]
    made = []
    if "wide" not in words or "ascii" in words:
        made += whole_words(patterns, False) if "fullword" in words else patterns
    if "wide" in words:
        wides = [replace(p, elements=_wide(p.elements)) for p in patterns]
        made += whole_words(wides, True) if "fullword" in words else wides
    if len(made) > ALTERNATIVES:
        raise Inexpressible(f"more than {ALTERNATIVES} alternatives in one string")
    return made


def _wide(row: tuple[Element, ...]) -> tuple[Element, ...]:
    if any(element.optional or element.repeats for element in row):
        raise Inexpressible("wide on a string of changing length")
    return tuple(each for element in row for each in (element, Element(ZERO)))


def whole_words(patterns: list[Pattern], wide: bool) -> list[Pattern]:
    """Each pattern between what is no letter or digit, or at an end of the file.

    Neighbours become elements of the pattern, so nothing is looked up when it ends.
    """
    other, word = Element(ANY & ~ALNUM), Element(ALNUM)
    zero, filled = Element(ZERO), Element(ANY & ~ZERO)
    if wide:
        before = [((), 1), ((Element(ANY), filled), FOREVER), ((other, zero), FOREVER)]
        after = [((other,), False), ((word, filled), False), ((), True), ((word,), True)]
    else:
        before, after = [((), 0), ((other,), FOREVER)], [((other,), False), ((), True)]
    made = []
    for pattern, (lead, high), (tail, ends) in itertools.product(patterns, before, after):
        if any(element.optional or element.repeats for element in pattern.elements):
            raise Inexpressible("fullword on a string of changing length")
        if pattern.at_end and tail:
            continue
        row = (*lead, *pattern.elements, *tail)
        if pattern.low <= min(high, pattern.high):
            low, last = pattern.low - len(lead), min(high, pattern.high)
            last -= len(lead) if last != FOREVER else 0
            if last >= 0:
                made.append(Pattern(row, max(low, 0), last, pattern.at_end or ends))
    return made
