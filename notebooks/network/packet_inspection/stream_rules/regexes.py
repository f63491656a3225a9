"""A regular expression as patterns, as far as it is a choice of rows of byte classes.

Python's own parser reads it. Groups and choices are written out; a repeated class stays one
element. A group that repeats without end, a word boundary or a look-around has no such form.
"""

import re
from re import _constants as op
from re import _parser as grammar  # its tree is documented nowhere, and as old as Python's `re`

from .patterns import (
    ANY,
    FOREVER,
    Element,
    Inexpressible,
    Pattern,
    byte_class,
    folded,
    jump,
    product,
)

CATEGORY = {
    op.CATEGORY_DIGIT: rb"\d", op.CATEGORY_NOT_DIGIT: rb"\D", op.CATEGORY_SPACE: rb"\s",
    op.CATEGORY_NOT_SPACE: rb"\S", op.CATEGORY_WORD: rb"\w", op.CATEGORY_NOT_WORD: rb"\W",
}  # fmt: skip
BEGINS, ENDS = "begins", "ends"  # marks in a row, taken off before it becomes a pattern


def regex_patterns(source: str, nocase: bool = False, dotall: bool = False) -> list[Pattern]:
    """The patterns of a regular expression over bytes.

    >>> [len(pattern.elements) for pattern in regex_patterns("ab?(c|de)")]
    [3, 4]
    """
    try:
        tree = grammar.parse(source.encode("ascii"))
    except (re.error, OverflowError, UnicodeEncodeError) as error:
        raise Inexpressible(f"regular expression: {error}") from error
    made = []
    for row in _rows(list(tree), nocase, dotall):
        plain = tuple(each for each in row if isinstance(each, Element))
        if BEGINS in row[1:] and row.index(BEGINS) != row.count(BEGINS) - 1:
            raise Inexpressible("regular expression: ^ behind the first byte")
        if ENDS in row[: len(row) - row.count(ENDS)]:
            raise Inexpressible("regular expression: $ before the last byte")
        if all(element.optional for element in plain):
            raise Inexpressible("regular expression: fits nothing at all")
        made.append(Pattern(plain, 0, 0 if BEGINS in row else FOREVER, ENDS in row))
    return made


def _rows(tree: list, nocase: bool, dotall: bool) -> list[tuple]:
    return product([_node(code, value, nocase, dotall) for code, value in tree])


def _node(code, value, nocase: bool, dotall: bool) -> list[tuple]:
    """The rows of one node of Python's tree."""
    if code is op.ANY:
        return [(Element(ANY if dotall else ANY & ~(1 << 10)),)]
    if code in (op.LITERAL, op.NOT_LITERAL, op.IN):
        return [(Element(_fits(code, value, nocase)),)]
    if code is op.SUBPATTERN and not value[1] and not value[2]:
        return _rows(list(value[3]), nocase, dotall)
    if code is op.BRANCH:
        return [row for each in value[1] for row in _rows(list(each), nocase, dotall)]
    if code in (op.MAX_REPEAT, op.MIN_REPEAT):
        return _repeated(*value, nocase, dotall)
    if code is op.AT and value in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
        return [(BEGINS,)]
    if code is op.AT and value in (op.AT_END, op.AT_END_STRING):
        return [(ENDS,)]
    name = str(value if code is op.AT else code).lower().replace("_", " ")
    raise Inexpressible(f"regular expression: {name}")


def _fits(code, value, nocase: bool) -> int:
    """The class of a literal or of brackets; case is folded before a class is turned round."""
    items = value if code is op.IN else [(op.LITERAL, value)]
    fits, negated = 0, code is op.NOT_LITERAL
    for kind, item in items:
        if kind is op.NEGATE:
            negated = True
        elif kind is op.LITERAL:
            fits |= 1 << item
        elif kind is op.RANGE:
            fits |= byte_class(range(item[0], item[1] + 1))
        else:
            fits |= byte_class(b for b in range(256) if re.match(CATEGORY[item], bytes([b])))
    fits = folded(fits) if nocase else fits
    return ANY & ~fits if negated else fits


def _repeated(low: int, high: int, body, nocase: bool, dotall: bool) -> list[tuple]:
    rows = _rows(list(body), nocase, dotall)
    last = None if high is op.MAXREPEAT else int(high)
    if len(rows) == 1 and len(rows[0]) == 1 and rows[0][0] not in (BEGINS, ENDS):
        element = rows[0][0]
        if not (element.optional or element.repeats):
            return [jump(low, last, element.fits)]
    if last is None:
        raise Inexpressible("regular expression: a group that repeats without end")
    return [row for n in range(low, last + 1) for row in product([rows] * n)]
