r"""Templated problems with worked steps, as text that keeps its TeX or text stripped of it.

No corpus of mathematics ships with this book, so the text is made from six templates: another
product than Minerva's 118 GB of papers and pages. Every answer is a whole number, so the same
judge reads both kinds of text. Three templates lose their meaning with their TeX: stripped,
`\frac{84}{7}+5` is 847+5. The fourth, `total`, asks just these texts as plain sums and
differences, in `MIX` as often: whoever reads stripped text is right on half of the four, and no
rule can do better. A product and a linear equation lose nothing.

A problem is one line: question, steps, answer. Whether a question is for training or for the
test follows from its stripped text, so none is on both sides, with its TeX or without.
`most` is the largest number that is added or taken away: it sets how hard the text is.
"""

import random
import re
import zlib
from functools import cache
from typing import NamedTuple

TEST_SHARE = 10  # one question in so many is kept for tests
CHARACTERS = [chr(code) for code in range(32, 127)] + ["\n"]
END = len(CHARACTERS) - 1  # the end of a line ends an answer
ANSWER = re.compile(r"The answer is (-?\d+)\.")


MOST = 20


class Item(NamedTuple):
    """A problem: its template, question with TeX, steps with TeX, and the whole answer."""

    kind: str
    question: str
    steps: str
    answer: int


def fraction(draw, most=MOST):
    r"""\frac{84}{7}+5: a quotient, then a sum."""
    below, quotient, more = draw.randint(2, 5), draw.randint(2, 12), draw.randint(2, most)
    part = rf"\frac{{{below * quotient}}}{{{below}}}"
    steps = f"${part}={quotient}$, ${quotient}+{more}={quotient + more}$"
    return Item("fraction", f"${part}+{more}$", steps, quotient + more)


def power(draw, most=MOST):
    """7^{2}-3: a power, then a difference."""
    exponent = draw.choice((2, 2, 3))
    base, less = draw.randint(2, 12 if exponent == 2 else 5), draw.randint(2, most)
    value, part = base**exponent, f"{base}^{{{exponent}}}"
    steps = f"${part}={value}$, ${value}-{less}={value - less}$"
    return Item("power", f"${part}-{less}$", steps, value - less)


def root(draw, most=MOST):
    r"""\sqrt{49}+8: a root, then a sum."""
    value, more = draw.randint(2, 12), draw.randint(2, most)
    part = rf"\sqrt{{{value * value}}}"
    steps = f"${part}={value}$, ${value}+{more}={value + more}$"
    return Item("root", f"${part}+{more}$", steps, value + more)


def product(draw, most=MOST):
    r"""(14+8)\cdot 3: a sum, then a product."""
    a, b, times = draw.randint(2, most), draw.randint(2, most), draw.randint(2, 5)
    whole = (a + b) * times
    steps = rf"${a}+{b}={a + b}$, ${a + b}\cdot {times}={whole}$"
    return Item("product", rf"$({a}+{b})\cdot {times}$", steps, whole)


def linear(draw, most=MOST):
    """3x+5=20: no TeX is lost when it is stripped."""
    x, times, more = draw.randint(2, 12), draw.randint(2, 5), draw.randint(2, most)
    whole = times * x + more
    steps = f"${times}x={whole}-{more}={times * x}$, $x={x}$"
    return Item("linear", f"${times}x+{more}={whole}$", steps, x)


def total(draw, most=MOST):
    """847+5 or 72-3, just that: what a fraction, a power or a root looks like once stripped."""
    text = stripped(draw.choice((fraction, power, root))(draw, most).question)
    a, sign, b = re.fullmatch(r"(\d+)([+-])(\d+)", text).groups()
    value = int(a) + int(sign + b)
    return Item("total", f"${text}$", f"${text}={value}$", value)


KINDS = {one.__name__: one for one in (fraction, power, root, product, linear, total)}
ALIKE = ("fraction", "power", "root", "total")  # stripped, each of the first three is the last
MIX = (*KINDS, "total", "total")  # a plain sum as often as what looks like it
PATIENCE = 20_000  # draws without a new question, after which there are no more


def for_test(item: Item) -> bool:
    """Whether a question belongs to the tests: by a checksum of its text without TeX."""
    return zlib.crc32(stripped(item.question).encode()) % TEST_SHARE == 0


def items(count: int, seed: int, test: bool, kinds=MIX, most: int = MOST) -> list[Item]:
    """So many problems of the training side or of the test side; of the tests none twice, and
    ValueError where there are not so many.
    """
    draw, found, seen, idle = random.Random(f"{seed} {test}"), [], set(), 0
    while len(found) < count:
        one, idle = KINDS[draw.choice(kinds)](draw, most), idle + 1
        if for_test(one) == test and not (test and one.question in seen):
            found.append(one)
            seen.add(one.question)
            idle = 0
        if idle > PATIENCE:
            raise ValueError(f"{count} questions of {kinds}; there are {len(found)}")
    return found


@cache
def all_tests(most: int = MOST) -> tuple[Item, ...]:
    """Every problem of the test side, once: of those that look alike, both readings."""
    draw, found = random.Random(0), {}
    for kind in KINDS:
        for _ in range(PATIENCE * (1 + 2 * (kind == "total"))):
            one = KINDS[kind](draw, most)
            if for_test(one):
                found.setdefault(one.question, one)
    return tuple(found.values())


def stripped(text: str) -> str:
    r"""The text as a cleaner leaves it: without commands, braces, ^, _ and dollars.
    `stripped(r"$\frac{84}{7}+5$")` is 847+5.
    """
    return re.sub(r"\\[A-Za-z]+ ?|[{}^_$\\]", "", text)


def asked(item: Item, keep: bool = True) -> str:
    """The question as a prompt, up to where the steps begin."""
    text = f"Q: {item.question} A:"
    return text if keep else stripped(text)


def written(item: Item, keep: bool = True) -> str:
    """The whole line: question, steps, answer."""
    text = f"Q: {item.question} A: {item.steps}. The answer is {item.answer}.\n"
    return text if keep else stripped(text)


def few_shot(shots, item: Item, keep: bool = True) -> str:
    """A prompt: some solved problems, then the question."""
    return "".join(written(one, keep) for one in shots) + asked(item, keep)


def answer_of(text: str) -> str | None:
    """The final answer in what a model wrote; None where there is none."""
    found = ANSWER.search(text)
    return found[1] if found else None


def encode(text: str) -> list[int]:
    """A number for each character; what is no printable ASCII becomes a question mark."""
    return [known if (known := CODES.get(one)) is not None else CODES["?"] for one in text]


CODES = {one: at for at, one in enumerate(CHARACTERS)}


def decode(tokens) -> str:
    """The text of such numbers."""
    return "".join(CHARACTERS[one] for one in tokens)
