"""What a page shows besides figures: real source code, Markdown with measured values, small tables."""

import ast
import html
import inspect
import linecache
import math
import string
import textwrap

SCALES = ((1e12, " trillion"), (1e9, " billion"), (1e6, " million"))
PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
SECONDS = ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def source(*objects, docstring=True):
    """None; shows the real source of functions, classes or modules, highlighted, and where it stands.

        show.source(rolling_distance.zdist, rolling_distance.top_matches)

    `docstring=False` leaves a function's or a class's own docstring out. Raises ValueError for what has no
    Python source, such as a compiled function.
    """
    text = "\n\n".join(_source(thing, docstring) for thing in objects)
    _display(text, text.replace("```python\n", "").replace("\n```", ""))


def md(template, **values):
    """None; shows Markdown with measured values in it, so that no measured number is typed into prose.

        show.md("The FFT needs {t}, {ratio:.1f} times less.", t=fast, ratio=race.ratios["ours"].median)

    A number without a format is rounded to three digits; a Measurement shows its median time. Raises
    ValueError for a name without a value, or a value that the template does not use.
    """
    text = _Rounded().vformat(template, (), values)
    _display(text, text)


def number(value, unit=""):
    """A short text for a measured number, three significant digits: `number(1.6e9, "alignments/s")` is
    "1.6 billion alignments/s", `number(0.0123, "s")` "12.3 ms", `number(2.5e9, "B/s")` "2.5 GB/s".

    An int without a unit keeps all its digits: `number(20140000)` is "20,140,000".
    """
    if value is None or not math.isfinite(value):
        return "not known" if value is None else str(value)
    if isinstance(value, int) and not unit:
        return f"{value:,}"
    if unit == "s":
        scale, unit = next((pair for pair in SECONDS if abs(value) >= pair[0]), (1, "s"))
        return f"{_three(value / scale)} {unit}"
    if unit in ("B", "B/s", "FLOP", "FLOP/s"):
        scale, prefix = next((pair for pair in PREFIXES if abs(value) >= pair[0]), (1, ""))
        return f"{_three(value / scale)} {prefix}{unit}"
    scale, word = next((pair for pair in SCALES if abs(value) >= pair[0]), (1, ""))
    return f"{_three(value / scale)}{word}{unit if unit in ('×', '%') else ' ' + unit if unit else ''}"


class Table:
    """A base for what shows itself as a table: `table()` gives a CSS class, head, rows and caption.

    In a page it is an HTML table of class `rebuilt-<css>`, its text escaped, the first cell of a row its
    header; as text it is a Markdown table.
    """

    def _repr_html_(self):
        css, head, rows, caption = self.table()
        cells = "".join(f'<th scope="col">{html.escape(str(cell))}</th>' for cell in head)
        lines = [f'<table class="rebuilt-{css}"><caption>{html.escape(caption)}</caption>']
        lines.append(f"<thead><tr>{cells}</tr></thead><tbody>")
        for first, *rest in rows:
            cells = "".join(f"<td>{html.escape(str(cell))}</td>" for cell in rest)
            lines.append(f'<tr><th scope="row">{html.escape(str(first))}</th>{cells}</tr>')
        return "\n".join([*lines, "</tbody></table>"])

    def _repr_markdown_(self):
        _, head, rows, caption = self.table()
        lines = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in (head, *rows)]
        widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]
        lines.insert(1, ["-" * width for width in widths])
        padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
        return "\n".join(f"| {' | '.join(line)} |" for line in padded) + f"\n\n{caption}"

    __repr__ = _repr_markdown_


class _Rounded(string.Formatter):
    def get_value(self, key, args, kwargs):
        if key not in kwargs:
            given = ", ".join(sorted(kwargs)) or "none"
            raise ValueError(f"the template names {{{key}}}, which has no value; values given: {given}")
        return kwargs[key]

    def check_unused_args(self, used_args, args, kwargs):
        if unused := sorted(set(kwargs) - used_args):
            raise ValueError(f"the template does not use {', '.join(unused)}; a value shown nowhere is a mistake")

    def format_field(self, value, spec):
        if hasattr(value, "median_s"):
            value, unit = value.median_s, "s"
        else:
            unit = ""
        if spec or isinstance(value, (str, bool)) or not hasattr(value, "__float__"):
            return format(value, spec)
        return number(value if isinstance(value, int) else float(value), unit)


def _source(thing, docstring):
    linecache.checkcache()  # a file edited since its import is read again
    try:
        lines, first = inspect.getsourcelines(inspect.unwrap(thing))
        file = inspect.getsourcefile(inspect.unwrap(thing)).replace("\\", "/").rpartition("/")[2]
    except (TypeError, OSError) as error:
        raise ValueError(f"{thing!r} has no Python source to show; give a function, class or module") from error
    code = textwrap.dedent("".join(lines)).rstrip()
    node = ast.parse(code).body[0]
    if not docstring and ast.get_docstring(node) is not None:
        text = node.body[0]
        kept = code.splitlines()
        code = "\n".join(kept[: text.lineno - 1] + kept[text.end_lineno :])
    where = f"lines {first}–{first + len(lines) - 1}" if first else f"{len(lines)} lines"
    fence = "`" * 3
    return f"*From `{file}`, {where}*\n\n{fence}python\n{code}\n{fence}"


def _three(value):
    """Three significant digits without an exponent where that is readable: 12.3, 0.0123, 1,230, 4.5e-07."""
    if value == 0 or 1e-4 <= abs(value) < 1e15:
        digits = 2 - math.floor(math.log10(abs(value))) if value else 0
        text = f"{round(value, digits):,.{max(0, digits)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.3g}"


def _display(markdown, plain):
    try:
        from IPython.display import display
    except ImportError:  # a plain Python session
        print(plain)
        return
    display({"text/markdown": markdown, "text/plain": plain}, raw=True)
