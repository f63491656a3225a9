r"""Forms of an answer's TeX: the published normal form, and one that algebra can read.

`published` does what appendix D of Minerva's paper (Lewkowycz and others, arXiv:2206.14858)
says: text after the last "=", ordered substitutions, unit words, wrappers, shorthands, commas
of thousands. It is a rule of thumb: 5 feet and 5 inches become one, and so do x=5 and y=5.
Where it differs from the list as printed: a unit word is not cut out of a command's name
(`ft` of `\left`), and a comma goes only where it parts thousands (0,1 is no number). The
harness lm-eval mended both, too, in its own way.

`readable` is ours: it keeps structure (`\left`, mixed numbers, decimals) for a parser.
"""

import re
from fractions import Fraction
from typing import NamedTuple

UNITS = ["square", "ways", "integers", "dollars", "mph", "inches", "ft", "hours", "km", "units"]
UNITS += [
    "sue",
    "points",
    "feet",
    "minutes",
    "digits",
    "cents",
    "degrees",
    "cm",
    "gm",
    "pounds",
]
UNITS += ["meters", "meals", "edges", "students", "childrentickets", "multiples"]
REMOVED = [r"\ldots", r"\text{s}", r"\text{.}", "\\text{\ns}", r"\text{}^2", r"\text{}^3"]
REMOVED += ["\\text{\n}", r"\text{}", r"\mathrm{th}", r"^\circ", r"^{\circ}", r"\;", r",\!"]
REMOVED += ["{,}", '"', r"\dots"]
REPLACED = [("an ", ""), ("a ", ""), (".$", "$"), (r"\$", ""), (r"\ ", ""), (" ", "")]
REPLACED += [
    ("mbox", "text"),
    (r",\text{and}", ","),
    (r"\text{and}", ","),
    (r"\text{m}", r"\text{}"),
]
COMMAND = re.compile(r"(\\[A-Za-z]+)")
THOUSANDS = re.compile(r"(?<![\d.])\d{1,3}(?:,\d{3})+(?![\d,])")
SPACES = re.compile(r"\\(?:left|right|quad|qquad|displaystyle|[!,;: ])(?![A-Za-z])|~")
MIXED = re.compile(r"(?<![\d.}])(-?)(\d+) ?\\frac\{(\d+)\}\{(\d+)\}")
TEXT = re.compile(r"\\(?:text|mbox|textbf|mathrm|textrm|mathbf)\{([^{}]*)\}")
DIGITS = r"(\d+(?:\.\d+)?|\.\d+)"
NUMBER = re.compile(rf"(-?)(?:{DIGITS}|\\frac\{{(\d+)\}}\{{(\d+)\}})(?:/(\d+))?")
ALIASES = {
    r"\dfrac": r"\frac",
    r"\tfrac": r"\frac",
    r"\boxed": "",
    r"\varnothing": r"\emptyset",
}
ALIASES |= {r"\{\}": r"\emptyset", r"\leq": r"\le", r"\geq": r"\ge"}
TURNS = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])")
DEGREES = re.compile(r"(\d+(?:\.\d+)?)\s*\^\s*(?:\{\s*\\circ\s*\}|\\circ)")
MATRIX = re.compile(r"\\begin\{([pbvV]?matrix)\}(.*)\\end\{\1\}", re.DOTALL)


class Form(NamedTuple):
    """What an answer is made of: brackets and parts; a plain one is one part, no brackets."""

    open: str
    parts: list
    close: str


def published(answer: str) -> str:
    r"""The normal form of Minerva's appendix D: `published(r"x=\frac12 \text{ cm}")` is
    `\frac{1}{2}`.
    """
    form = answer.rpartition("=")[2]
    form = re.sub(rf"(?<!\\)\b(?:{'|'.join(UNITS)})\b", "", form)
    for before, after in REPLACED:
        form = form.replace(before, after)
    for word in UNITS:  # glued to its neighbours by now; commands keep their names
        pieces = COMMAND.split(form)
        pieces[::2] = [piece.replace(word, "") for piece in pieces[::2]]
        form = "".join(pieces)
    for part in REMOVED:
        form = form.replace(part, "")
    form = re.sub(r".*?\$(.*?)\$.*", r"\1", form)
    for name in ("text", "textbf", "overline"):
        form = re.sub(rf"\\{name}\{{(.*?)\}}", r"\1", form)
    form = re.sub(r"\\boxed\{(.*)\}", r"\1", form)
    form = shorthand(form).replace("$", "")
    whole = THOUSANDS.fullmatch(form.removeprefix("-"))
    return form.replace(",", "") if whole else form


def shorthand(form: str) -> str:
    r"""With the braces that TeX lets one leave out: \frac12, \sqrt3, \sqrt[3]a."""
    form = re.sub(r"frac([^{])(.)", r"frac{\1}{\2}", form)
    form = re.sub(r"sqrt(\[[^\]]*\])(\w)", r"sqrt\1{\2}", form)
    return re.sub(r"sqrt(?!\[)([^{])", r"sqrt{\1}", form)


def balanced(answer: str) -> bool:
    """Whether every brace of the TeX is closed, in order, at most 50 deep."""
    depth = 0
    for piece in re.findall(r"\\[{}\\]|[{}]", answer):
        depth += {"{": 1, "}": -1}.get(piece, 0)
        if not 0 <= depth <= 50:
            return False
    return depth == 0


def readable(answer: str) -> str:
    """The answer without what is no mathematics: spacing, units, degrees, percent, dollars."""
    form = SPACES.sub(" ", answer.replace("{,}", "").replace(r"\$", "").replace("$", ""))
    for name, other in ALIASES.items():
        form = form.replace(name, other)
    form = re.split(r"\\in(?![a-z])", _split(form, "=")[-1])[-1]
    if TURNS.search(form):  # of an angle, degrees are no unit that may be dropped
        form = DEGREES.sub(r"(\1\\cdot\\frac{\\pi}{180})", form)
    form = re.sub(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ)|\\%|%|\\degree", "", form)
    bare = TEXT.sub("", form)
    form = bare if re.search(r"\d", bare) else TEXT.sub(r" \1 ", form)
    if re.search(r"\d", form):
        form = re.sub(rf"(?<!\\)\b(?:{'|'.join(UNITS)})\b", "", form)
    if not form.lstrip().startswith(("(", "[", r"\{")):  # there a comma parts coordinates
        form = THOUSANDS.sub(lambda found: found[0].replace(",", ""), form)
    form = shorthand(re.sub(r"(frac|sqrt)\s+", r"\1", form))
    form = MIXED.sub(r"\1(\2+\\frac{\3}{\4})", form)
    return " ".join(form.split()).rstrip(".")


def parts_of(form: str) -> Form:
    """The parts of a list, tuple, interval, set or matrix at its own level."""
    if matrix := MATRIX.fullmatch(form):
        rows = [row.split("&") for row in re.split(r"\\\\", matrix[2].strip())]
        shape = "x".join(str(len(row)) for row in rows)
        return Form(f"{matrix[1]} {shape}", [one.strip() for row in rows for one in row], "")
    ends = re.fullmatch(r"(\\\{|[(\[])(.*)(\\\}|[)\]])", form, re.DOTALL)
    if ends and len(inner := _split(ends[2])) > 1:
        return Form(ends[1], inner, ends[3])
    if ends and ends[1] == r"\{":
        return Form(ends[1], inner, ends[3])
    if form.count(r"\pm") == 1 and len(_split(form)) == 1:
        return Form("", [form.replace(r"\pm", sign).lstrip("+ ") for sign in "+-"], "")
    return Form("", _split(form), "")


def number(form: str) -> Fraction | None:
    r"""The exact value of digits, a decimal, a/b or \frac{a}{b}; None for anything else."""
    found = NUMBER.fullmatch(form)
    if not found:
        return None
    above, below = found[2] or found[3], found[4] or found[5] or "1"
    value = Fraction(above) / Fraction(below) if int(below) else None
    return -value if value is not None and found[1] else value


def _split(text: str, at: str = ",") -> list:
    parts, depth = [""], 0
    for piece in re.findall(r"\\.|.", text, re.DOTALL):
        depth += (piece in ("(", "[", "{", r"\{")) - (piece in (")", "]", "}", r"\}"))
        if depth < 0:  # (1,2)\cup(3,4): the outer brackets are no pair
            return [text]
        if piece == at and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return [one.strip() for one in parts]
