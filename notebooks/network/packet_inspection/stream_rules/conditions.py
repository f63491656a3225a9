"""A rule's condition as a tree, and its answer before the file has ended.

Over a stream each question has three answers: yes, no, and not yet known (`None`). `$a` is not
known until it was seen or the file ends; `filesize < 3KB` is refused by the byte after. A rule
speaks as soon as what is still unknown no longer matters.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .patterns import FOREVER, Inexpressible

HEADER = 4096  # bytes at a file's start that conditions may read, and a flow may have to keep
COMPARE = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul}
UNIT = {"KB": 1 << 10, "MB": 1 << 20}
MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
COUNTED = {"#": "counts matches", "@": "where a match lies", "!": "how long a match is"}
OPERATORS = {
    ast.And: "and", ast.Or: "or", ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Eq: "==",
    ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
# YARA's words of two sides, in signs of Python's that bind alike and that YARA's are refused
WORDS = {"of": "%", "at": "<<", "in": ">>", "..": ",", "true": "True", "false": "False"}
PLAIN = {"and", "or", "not", "(", ")", ",", "them", "all", "any", "none", "filesize"}
PLAIN |= {*ARITHMETIC, *COMPARE}
READS = re.compile(r"(u?)int(8|16|32)(be)?")


@dataclass
class Condition:
    """A condition's tree, `Condition(tokens, strings, rules, modules).tree()`, by Python's own
    parser: the two languages share precedence, brackets, `and`, `or` and `not`."""

    tokens: list[str]
    strings: list[str]
    rules: Iterable[str]
    modules: Iterable[str] = ()

    def tree(self):
        text = " ".join(map(self._python, self.tokens))
        try:
            return self._node(ast.parse(text, mode="eval").body)
        except SyntaxError as error:
            raise Inexpressible(f"condition: {' '.join(self.tokens)}") from error

    def _python(self, token: str) -> str:
        """The token in Python; strings and rules become texts, so no name can clash."""
        if token in self.rules or token.startswith("$"):
            return repr(token if token.startswith("$") else f"rule {token}")
        if token in PLAIN or token in WORDS or READS.fullmatch(token):
            return WORDS.get(token, token)
        if found := re.fullmatch(r"(0x[0-9A-Fa-f]+|\d+)(KB|MB)?", token):
            return str(int(found[1], 0) * UNIT.get(found[2], 1))
        if token.split(".")[0] in self.modules:
            raise Inexpressible(f"module {token.split('.')[0]}: reads the file's structure")
        if token[0] in COUNTED:
            raise Inexpressible(f"{token[0]}: {COUNTED[token[0]]}")
        raise Inexpressible("loop: for" if token == "for" else f"condition: {token!r}")

    def _node(self, node: ast.expr):
        match node:
            case ast.Constant(value=str(name)):
                return ("rule", name[5:]) if name[0] != "$" else self._match(name, 0, FOREVER)
            case ast.Constant(value=value):
                return ("bool" if isinstance(value, bool) else "int", value)
            case ast.Name(id="filesize"):
                return ("filesize",)
            case ast.BoolOp(op=op, values=parts):
                return (OPERATORS[type(op)], *map(self._node, parts))
            case ast.UnaryOp(op=ast.Not(), operand=part):
                return ("not", self._node(part))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return ("compare", OPERATORS[type(op)], self._node(left), self._node(right))
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                return self._of(left, right)
            case ast.BinOp(left=ast.Constant(value=str(name)), op=ast.LShift(), right=right):
                return self._match(name, *[self._constant(right)] * 2)
            case ast.BinOp(ast.Constant(str(name)), ast.RShift(), ast.Tuple(elts=[low, high])):
                return self._match(name, self._constant(low), self._constant(high))
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as op, right=right):
                return (OPERATORS[type(op)], self._node(left), self._node(right))
            case ast.Call(func=ast.Name(id=name), args=[offset]) if READS.fullmatch(name):
                return self._header(*READS.fullmatch(name).groups(), self._constant(offset))
        raise Inexpressible(f"condition: {ast.unparse(node)}")

    def _constant(self, node: ast.expr) -> int:
        value = number(self._node(node), None)
        if value is None:
            raise Inexpressible("an offset that the file itself says")
        return value

    def _match(self, name: str, low: int, high: int):
        if name not in self.strings:
            raise Inexpressible(f"condition: no string {name}")
        return ("match", name, low, high)

    @staticmethod
    def _header(unsigned: str, bits: str, big: str | None, offset: int):
        width = int(bits) // 8
        if not 0 <= offset <= HEADER - width:
            raise Inexpressible(f"reads behind the first {HEADER:,} bytes")
        return ("header", offset, width, bool(big), not unsigned)

    def _of(self, amount: ast.expr, among: ast.expr):
        listed = among.elts if isinstance(among, ast.Tuple) else [among]
        names = [
            getattr(one, "value", "$*" if ast.unparse(one) == "them" else "") for one in listed
        ]
        chosen = [s for s in self.strings if any(_fits(s, str(name)) for name in names)]
        if not chosen or any(not str(name).startswith("$") for name in names):
            raise Inexpressible("of: over something else than strings")
        parts = [("match", name, 0, FOREVER) for name in chosen]
        match amount:
            case ast.Name(id="any" | "none" as word):
                return ("of", 1, *parts) if word == "any" else ("not", ("of", 1, *parts))
            case ast.Name(id="all"):
                return ("of", len(parts), *parts)
            case ast.Constant(value=int(wanted)) if wanted > 0:
                return ("of", int(wanted), *parts)
        raise Inexpressible(f"of: {ast.unparse(amount)}")


def _fits(name: str, wanted: str) -> bool:
    return name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted


@dataclass
class Seen:
    """What a stream has shown of a file so far."""

    found: Callable[[tuple], bool]
    rules: dict[str, bool | None]
    header: bytes = b""
    size: int = 0
    ended: bool = False


def number(node: tuple, seen: Seen | None) -> int | None:
    """The value of a number's tree, or None where it is not known."""
    match node:
        case ("int", value):
            return value
        case ("filesize",):
            return seen.size if seen and seen.ended else None
        case ("header", offset, width, big, signed) if seen:
            raw = seen.header[offset : offset + width]
            order = "big" if big else "little"
            return int.from_bytes(raw, order, signed=signed) if len(raw) == width else None
        case (sign, left, right) if sign in ARITHMETIC:
            a, b = number(left, seen), number(right, seen)
            return None if a is None or b is None else ARITHMETIC[sign](a, b)
    return None


def answer(node: tuple, seen: Seen) -> bool | None:
    """Yes, no, or None: not known yet. At the end of the file, None is YARA's 'undefined'."""
    match node:
        case ("bool", value):
            return value
        case ("match", *_):
            return True if seen.found(node) else False if seen.ended else None
        case ("rule", name):
            return seen.rules.get(name)
        case ("not", part):
            inner = answer(part, seen)
            return None if inner is None else not inner
        case ("and", *parts):
            return _enough(len(parts), parts, seen)
        case ("or", *parts):
            return _enough(1, parts, seen)
        case ("of", wanted, *parts):
            return _enough(wanted, parts, seen)
        case ("compare", sign, left, right):
            return _compare(sign, left, right, seen)
    value = number(node, seen)
    return None if value is None else bool(value)


def _enough(wanted: int, parts: Iterable[tuple], seen: Seen) -> bool | None:
    """Whether `wanted` of the parts hold; what is undefined at the end counts as no."""
    answers = [answer(part, seen) for part in parts]
    yes = answers.count(True)
    unknown = 0 if seen.ended else answers.count(None)
    return True if yes >= wanted else False if yes + unknown < wanted else None


def _compare(sign: str, left: tuple, right: tuple, seen: Seen) -> bool | None:
    if right == ("filesize",):
        sign, left, right = MIRROR[sign], right, left
    if left == ("filesize",) and not seen.ended:
        limit = number(right, seen)  # the size is at least what came
        if limit is None:
            return None
        at_least = math.inf if seen.size > limit else seen.size
        if sign in ("<", ">="):
            return None if at_least < limit else sign == ">="
        return None if at_least <= limit else sign in (">", "!=")
    a, b = number(left, seen), number(right, seen)
    return None if a is None or b is None else COMPARE[sign](a, b)


def atoms(node: tuple) -> list[tuple]:
    """Every `("match", …)` of a tree, each once."""
    if node[0] == "match":
        return [node]
    inner = [atom for part in node[1:] if isinstance(part, tuple) for atom in atoms(part)]
    return list(dict.fromkeys(inner))


def mentions(node: tuple, kind: str) -> list[tuple]:
    """Every node of a kind."""
    inner = [
        each for part in node[1:] if isinstance(part, tuple) for each in mentions(part, kind)
    ]
    return [node, *inner] if node[0] == kind else inner
