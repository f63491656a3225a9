"""Markdown as the gates see it: what MyST's own parser finds in a page, each piece with its line. The body of a
directive that holds prose, such as `{note}`, is read like the page around it."""

import re
from collections import namedtuple
from collections.abc import Iterator
from functools import lru_cache

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from mdit_py_plugins.anchors import anchors_plugin
from myst_parser.config.main import MdParserConfig
from myst_parser.mdit_to_docutils.base import default_slugify
from myst_parser.parsers.mdit import create_md_parser

EXTENSIONS = {"attrs_inline", "colon_fence", "deflist", "dollarmath", "html_image", "strikethrough", "substitution"}
EXTENSIONS |= {"tasklist"}
# The parser of the book: MyST with the extensions that `_config.yml` switches on, and an id for each heading.
PARSER = create_md_parser(MdParserConfig(enable_extensions=EXTENSIONS), RendererHTML)
PARSER.use(anchors_plugin, max_level=6, slug_func=default_slugify)
CODE_DIRECTIVES = {"code", "code-block", "code-cell", "sourcecode", "literalinclude", "math", "mermaid", "raw"}
CODE_DIRECTIVES |= {"bibliography", "toctree", "tableofcontents", "include", "csv-table", "eval-rst"}
COMMENT, TAG = re.compile(r"<!--.*?-->", re.DOTALL), re.compile(r"</?[A-Za-z][^<>]*>")
ADDRESS = re.compile(r"https?://[^\s)>\"']+")
UNSAID = ("code_inline", "math_inline", "html_inline", "myst_role", "substitution_inline")
BREAKS = ("softbreak", "hardbreak")


# A token: its kind as markdown-it calls it, its first line, its text and attributes, whether it is a quotation. `prose`
# is what its author says in a paragraph, heading, table cell or block of HTML. A `directive` has its name as text and
# its options as attributes. Nobody writes into the attributes.
Piece = namedtuple("Piece", "kind line text attrs quoted", defaults=({}, False))


@lru_cache(maxsize=4096)
def pieces(text: str) -> tuple[Piece, ...]:
    """Every piece of the page in order, those inside paragraphs and directives after what they stand in."""
    return tuple(_read(text, 1, False))


def _read(text: str, line: int, quoted: bool) -> Iterator[Piece]:
    known: dict = {}
    quotes, first = int(quoted), line
    for token in PARSER.parse(text, known):
        line = first + token.map[0] if token.map else line
        quotes += token.nesting if token.type.startswith("blockquote") else 0
        name = re.match(r"\{([\w:-]+)\}", token.info) if token.type in ("fence", "colon_fence") else None
        if name:
            options = re.match(r"(?:\s*:[\w-]+:.*\n)*", token.content).group()
            pairs = re.findall(r"^\s*:([\w-]+):[ \t]*(.*?)[ \t]*$", options, re.MULTILINE)
            yield Piece("directive", line, name[1], dict(pairs), quotes > 0)
            if name[1] not in CODE_DIRECTIVES:
                yield from _read(token.content[len(options) :], line + 1 + options.count("\n"), quotes > 0)
            continue
        yield Piece(token.type, line, token.content, {"tag": token.tag, **token.attrs}, quotes > 0)
        yield Piece("prose", line, _said(token), quoted=quotes > 0)
        for child in token.children or []:
            yield Piece(child.type, line, child.content, {**child.attrs, **child.meta})
            line += 1 if child.type in BREAKS else child.content.count("\n")
    for found in known.get("references", {}).values():
        yield Piece("definition", first + found["map"][0], "", {"href": found["href"]})


def _said(token: Token) -> str:
    if token.type == "html_block":
        return _blanked(TAG, _blanked(COMMENT, token.content))
    children = token.children or []
    return "".join("\n" if c.type in BREAKS else "   " if c.type in UNSAID else c.content for c in children)


def _blanked(pattern: re.Pattern, text: str) -> str:
    return pattern.sub(lambda match: " " + "\n" * match.group().count("\n"), text)


def prose(text: str) -> list[tuple[int, str]]:
    """(line, words) of each block in the author's own words; three spaces for code, math, tags: what is not said."""
    found = [piece for piece in pieces(text) if piece.kind == "prose" and not piece.quoted]
    return [(piece.line, ADDRESS.sub("", piece.text)) for piece in found if piece.text.strip()]


def headings(text: str) -> list[tuple[int, str]]:
    """(level, words) of each heading."""
    found = [piece for piece in pieces(text) if piece.kind in ("heading_open", "inline")]
    pairs = zip(found, found[1:], strict=False)
    return [(int(piece.attrs["tag"][1]), words.text) for piece, words in pairs if piece.kind == "heading_open"]


def roles(text: str) -> list[tuple[int, str, str]]:
    """(line, name, content) of each role, such as `{doc}`."""
    return [(piece.line, piece.attrs["name"], piece.text) for piece in pieces(text) if piece.kind == "myst_role"]


def _html(text: str, pattern: str) -> Iterator[tuple[int, str]]:
    """(line, what the group holds) of the pattern in the page's HTML."""
    for piece in pieces(text):
        if piece.kind in ("html_block", "html_inline"):
            plain = _blanked(COMMENT, piece.text)
            for match in re.finditer(pattern, plain):
                yield piece.line + plain.count("\n", 0, match.start()), match[1]


def links(text: str) -> list[tuple[int, str]]:
    """(line, target) of every Markdown link, image, reference definition and HTML address."""
    found = [(piece.line, str(piece.attrs[n])) for piece in pieces(text) for n in ("href", "src") if n in piece.attrs]
    return sorted([*found, *_html(text, r"\b(?:href|src)\s*=\s*[\"']([^\"']*)[\"']")])


def images(text: str) -> list[tuple[int, str]]:
    """(line, alt text) of every image: Markdown, HTML, and the directives `image` and `figure`."""
    made = [piece for piece in pieces(text) if piece.kind == "directive" and piece.text in ("image", "figure")]
    found = [(piece.line, piece.attrs.get("alt", "")) for piece in made]
    found += [(piece.line, piece.text) for piece in pieces(text) if piece.kind == "image"]
    return sorted(found + [(line, alt_of(tag)) for line, tag in _html(text, r"(<img\b[^>]*>)")])


def alt_of(tag: str) -> str:
    """The alt text of an `<img>`; empty where it has none."""
    found = re.search(r"\balt\s*=\s*([\"'])(.*?)\1", tag, re.DOTALL)
    return found[2] if found else ""


def anchors(text: str) -> set[str]:
    """What a link may name after `#`: MyST's slugs of the headings, labels, ids, and names of directives."""
    found = {piece.text for piece in pieces(text) if piece.kind == "myst_target"}
    found |= {str(piece.attrs["id"]) for piece in pieces(text) if "id" in piece.attrs}
    found |= {piece.attrs["name"] for piece in pieces(text) if piece.kind == "directive" and "name" in piece.attrs}
    return found | {name for _, name in _html(text, r"\bid\s*=\s*[\"']([^\"']+)[\"']")}
