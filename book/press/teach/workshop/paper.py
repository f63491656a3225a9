"""HTML for screens and paper that needs no network: Markdown to HTML, the book's letters, and a page around it."""

import base64
import html
import re
from functools import cache
from pathlib import Path

FONTS = Path(__file__).resolve().parents[3] / "_static" / "fonts"

ROLE = re.compile(r"\{(?:cite(?::\w+)?|term|ref|doc|numref)\}`([^`<]*?)\s*(?:<[^`]*>)?`")
MATHJAX = """\
<script>
MathJax = {{tex: {{inlineMath: [['\\\\(', '\\\\)']], displayMath: [['\\\\[', '\\\\]']]}}}};
</script>
<script defer src="{path}"></script>"""
CSS = """\
:root { color-scheme: light; }
body { font: 16px/1.5 var(--rebuilt-sans, system-ui), sans-serif; color: #1f1f1f; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
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


@cache
def letters() -> str:
    """Styles that hold the book's fonts, so that a page lays its lines out alike on every machine."""
    css = (FONTS / "fonts.css").read_text(encoding="utf-8")

    def held(match: re.Match) -> str:
        font = base64.b64encode((FONTS / match.group(1)).read_bytes()).decode()
        return f'url("data:font/woff2;base64,{font}")'

    return re.sub(r'url\("([\w-]+\.woff2)"\)', held, css)


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
