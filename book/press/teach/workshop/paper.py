"""HTML for screens and paper that needs no network: Markdown to HTML, and a page around it."""

import html
import re
from functools import cache

ROLE = re.compile(r"\{(?:cite(?::\w+)?|term|ref|doc|numref)\}`([^`<]*?)\s*(?:<[^`]*>)?`")
MATHJAX = """\
<script>
MathJax = {{tex: {{inlineMath: [['\\\\(', '\\\\)']], displayMath: [['\\\\[', '\\\\]']]}}}};
</script>
<script defer src="{path}"></script>"""
CSS = """\
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1f1f1f; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { font-size: 1.25rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } caption { text-align: left; color: #555; padding: .3rem 0; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid #ddd; }
code { background: #f3f4f6; padding: .1em .3em; border-radius: 3px; }
pre { background: #f3f4f6; padding: .8rem; overflow: auto; }
pre code { padding: 0; } .late { color: #7a3300; } .quiet { color: #555; } a { color: #0057a0; }
@media print { body { margin: 0; max-width: none; font-size: 11pt; } tr { break-inside: avoid; } }
"""
PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{css}</style>
{head}
</head>
<body>
{body}
</body>
</html>
"""


def page(title: str, body: str, css: str = CSS, head: str = "") -> str:
    """A whole page in one file; `body` and `head` are ready HTML."""
    return PAGE.format(title=html.escape(title), body=body, css=css, head=head)


def mathjax(path: str) -> str:
    """The lines of a page's head that draw its formulas with the MathJax at `path`."""
    return MATHJAX.format(path=path)


def markdown(text: str) -> str:
    """HTML of Markdown with tables and formulas; the roles of the book become plain words.

    >>> markdown("the {term}`tier <tier>`")
    '<p>the tier</p>\\n'
    """
    return _renderer().render(ROLE.sub(r"\1", text))


@cache
def _renderer():
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    def formula(content: str, about: dict) -> str:
        left, right = (r"\[", r"\]") if about["display_mode"] else (r"\(", r"\)")
        return f"{left}{html.escape(content)}{right}"

    return MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, renderer=formula, double_inline=True)


def table(caption: str, head: list[str], rows: list[list[str]]) -> str:
    """A table of ready HTML cells; the first of each row is its header."""
    columns = "".join(f'<th scope="col">{name}</th>' for name in head)
    lines = [f"<table><caption>{caption}</caption><thead><tr>{columns}</tr></thead><tbody>"]
    for first, *rest in rows:
        lines.append(f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>')
    return "\n".join([*lines, "</tbody></table>"])
