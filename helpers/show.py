"""What a page shows besides figures: real source code, Markdown with measured values, tables."""

import ast
import html
import inspect
import linecache
import math
import re
import string
import textwrap
from pathlib import Path

BIG = [(1e12, " trillion"), (1e9, " billion"), (1e6, " million"), (0, "")]
PREFIXES = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"), (0, " ")]
SECONDS = [(1, " "), (1e-3, " m"), (1e-6, " µ"), (0, " n")]


def source(*objects, docstring=True):
    """None; shows the real source of functions, classes or modules and its place; ValueError where there is none."""
    linecache.checkcache()  # a file edited since its import is read again
    shown = []
    for thing in map(inspect.unwrap, objects):
        try:
            lines, first = inspect.getsourcelines(thing)
        except (TypeError, OSError) as error:
            raise ValueError(f"{thing!r} has no Python source; allowed are functions, classes, modules") from error
        code, first = textwrap.dedent("".join(lines)).rstrip(), max(first, 1)  # a module starts at 0
        node, kept = ast.parse(code).body[0], code.splitlines()
        if not docstring and isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            code = "\n".join(kept[: node.body[0].lineno - 1] + kept[node.body[0].end_lineno :])
        shown.append((f"{Path(inspect.getsourcefile(thing)).name}, lines {first} to {first + len(lines) - 1}", code))
    fence = "`" * (1 + max(2, *map(len, re.findall("`+", "".join(code for _, code in shown))), 0))
    markdown = "\n\n".join(f"*{where}*\n\n{fence}python\n{code}\n{fence}" for where, code in shown)
    display({"text/markdown": markdown}, "\n\n".join(f"{where}\n{code}" for where, code in shown))


def md(template, **values):
    """None; shows Markdown with rounded values: `show.md("{t}", t=measurement)`; ValueError unless names match."""
    fields = [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]
    if (named := {re.split(r"[.\[]", field)[0] for field in fields}) != set(values):
        raise ValueError(f"the template names {sorted(named)}, values came for {sorted(values)}; they must agree")
    text = _Rounding().format(template, **values)
    display({"text/markdown": text}, text)


class _Rounding(string.Formatter):
    def format_field(self, value, spec):
        if not spec and hasattr(value, "median_s"):
            return number(value.median_s, "s")
        plain = spec or isinstance(value, str | bool) or not hasattr(value, "__float__")
        return format(value, spec) if plain else number(value if isinstance(value, int) else float(value))


def number(value, unit=""):
    """A number in three digits, prefixes for s, B, FLOP: "1.6 billion points/s", "12.3 ms"; a bare int keeps all."""
    if isinstance(value, int) and not unit or not math.isfinite(value):
        return f"{value:,}"
    scales = SECONDS if unit == "s" else PREFIXES if unit in ("B", "B/s", "FLOP", "FLOP/s") else BIG
    scale, word = next(pair for pair in scales if abs(value) >= pair[0])
    scaled = value / (scale or (1e-9 if scales is SECONDS else 1))
    digits = 2 - math.floor(math.log10(abs(scaled))) if scaled else 0
    text = f"{scaled:.3g}" if digits > 6 else f"{round(scaled, digits):,.{max(0, digits)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
    return f"{text}{word}{'' if scales is not BIG or not unit or unit in '×%' else ' '}{unit}"


class Table:
    """A table that shows itself, escaped: HTML of class `rebuilt-<css>` in a page, Markdown as text.
    `Table("race", ("contestant", "time"), [("ours", "1 ms")], "20 rounds.").table()` gives the four again.
    """

    def __init__(self, css, head, rows, caption):
        self.table = lambda: (css, head, rows, caption)

    def _repr_html_(self):
        css, head, rows, caption = self.table()
        cells = [[tag("th", one, scope="row"), *(tag("td", cell) for cell in more)] for one, *more in rows]
        body = "\n".join(tag("tr", Markup("".join(row))) for row in cells)
        top = tag("thead", tag("tr", Markup("".join(tag("th", cell, scope="col") for cell in head))))
        whole = "\n".join((tag("caption", caption), top, tag("tbody", Markup(body))))
        return tag("table", Markup(whole), class_=f"rebuilt-{css}", tabindex=0)

    def _repr_markdown_(self):
        _, head, rows, caption = self.table()
        lines = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in (head, *rows)]
        lines.insert(1, ["---"] * len(head))
        return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{caption}"

    __repr__ = _repr_markdown_


class Markup(str):
    """Ready HTML: `tag` escapes every text but this."""


def tag(name, content, **attributes):
    """An element as Markup: `tag("th", "a < b", scope="row", data_tier="cpu")`; `_` in a name stands for `-`, None
    leaves one out. White space in texts becomes one space: a line break would end a block of HTML in Markdown.
    """
    names = {key.strip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    told = "".join(f' {key}="{_escaped(value)}"' for key, value in names.items())
    return Markup(f"<{name}{told}>{_escaped(content)}</{name}>")


def _escaped(value):
    return value if isinstance(value, Markup) else html.escape(" ".join(str(value).split()))


def display(bundle, plain):
    """None; shows a bundle of {MIME type: content} in a page, and prints `plain` where there is no page."""
    try:
        from IPython.display import display
    except ImportError:
        return print(plain)
    display(bundle | {"text/plain": plain}, raw=True)
