r"""A checker of steps: a right answer may stand behind wrong steps, a "false positive".

It reads every equation of numbers in a solution, `12*6=72` or `\frac{84}{7}=12`, and computes
the left side anew, in fractions. A false equation is an error of **calculation**. A wrong
answer whose every equation is true has an error of **reasoning**: right sums of the wrong
things. That is a rule for two words of the article, and no reading: a person may sort a case
otherwise.

What it cannot see: steps in words, symbols that stand for numbers, and whether a step follows
from the one before. So a silence of the checker proves nothing, its count of false positives
is a lower bound of calculation among right answers.
"""

import ast
import operator
import re
from fractions import Fraction
from typing import NamedTuple

TEX = [(r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}", r"((\1)/(\2))"), (r"\\(?:cdot|times) ?", "*")]
TEX += [
    (r"\\div ?", "/"),
    (r"\\sqrt\{([^{}]*)\}", r"root(\1)"),
    (r"\\left|\\right|\\[,;!$ ]|\$", ""),
]
TEX += [(r"\^\{([^{}]*)\}", r"**(\1)"), (r"\^(\d)", r"**\1"), (r"(?<=\d)[,](?=\d{3})", "")]
TEX += [
    (r"(?<=\d) ?x ?(?=\d)", "*"),
    (r"(\d+(?:\.\d+)?)%", r"(\1/100)"),
    ("[×∙]", "*"),
    ("÷", "/"),
]
SIDE = r"[-+*/().\d\sroot]*[\d)]"
CHAIN = re.compile(rf"(?<![\w.=^*/+-])({SIDE}(?:\s*=\s*{SIDE})+)(?![\w(*/^+-])")
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
MOST = 10**12


class Step(NamedTuple):
    """An equation of numbers that was read: its sides, and whether they are equal."""

    left: str
    right: str
    true: bool


def value(text: str) -> Fraction | None:
    """The exact value of sums, products, quotients, whole powers and square roots of numbers;
    None for anything else.
    """
    try:
        return _value(ast.parse(text.strip().lstrip("+"), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _value(node):
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return Fraction(str(node.value))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "root":
        inner = _value(node.args[0])
        found = Fraction(round(float(inner) ** 0.5))
        if found * found == inner:
            return found
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Div):
            return left / right
        if (
            isinstance(node.op, ast.Pow)
            and right == int(right)
            and abs(right) <= 12
            and abs(left) < MOST
        ):
            return left ** int(right)
        if type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](left, right)
    raise ValueError(f"no number: {ast.dump(node)[:40]}")


def steps(solution: str) -> list[Step]:
    """The equations of a solution that can be computed, in order. Those between `<<` and `>>`
    are a calculator's, written by the model, and count as its steps, too.
    """
    text = solution.replace("<<", " ; ").replace(">>", " ; ")
    for pattern, plain in TEX:
        text = re.sub(pattern, plain, text)
    found = []
    for chain in CHAIN.finditer(text):
        before, after = text[: chain.start()].rstrip()[-1:], text[chain.end() :].lstrip()
        whole = chain[1][0] not in "-+*/" or not (
            before.isalnum() or before in tuple("_})]^*/")
        )
        if not whole or re.match(r"[*/^+(\\-]|[b-z]\b", after):  # a part of something larger
            continue
        sides = [one.strip() for one in chain[1].split("=")]
        for left, right in zip(sides, sides[1:], strict=False):
            values = value(left), value(right)
            if None not in values:
                found.append(Step(left, right, near(*values, right)))
    return found


def near(left: Fraction, right: Fraction, written: str) -> bool:
    """Whether they are equal, or the right side is the left one rounded as it is written, or as
    a calculator of floating point leaves it.
    """
    decimals = re.fullmatch(r"-?\d*\.(\d+)", written)
    if left == right or not decimals:
        return left == right
    half = Fraction(1, 2 * 10 ** len(decimals[1]))
    return abs(left - right) <= max(half, abs(left) * Fraction(1, 10**12))


def sort(solution: str, right: bool) -> str:
    """What a solution is, by its answer and its steps: "right", "false positive" (a right
    answer behind a false equation), "calculation", "reasoning", or "unread" (a wrong answer,
    and no equation that could be read).
    """
    read = steps(solution)
    false = any(not one.true for one in read)
    if right:
        return "false positive" if false else "right"
    if not read:
        return "unread"
    return "calculation" if false else "reasoning"
