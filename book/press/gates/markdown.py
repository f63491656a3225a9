"""Markdown as the gates see it: which characters are prose, and where headings, links and images are.

Nothing is parsed into a tree. A page is *masked*: what is not prose becomes spaces of the same length, so
that an offset in the mask is an offset in the page and a line number is always at hand.
"""

import re
from dataclasses import dataclass

FENCE = re.compile(r"^\s*(`{3,}|~{3,}|:{3,})\s*(\{[\w:-]+\})?(.*)$")
CODE_DIRECTIVES = {"code", "code-block", "code-cell", "sourcecode", "literalinclude", "math", "mermaid", "raw"}
CODE_DIRECTIVES |= {"bibliography", "toctree", "tableofcontents", "include", "csv-table", "eval-rst", "glossary-source"}
BLOCK = r"(?:(?!\n\s*\n).)+?"  # anything within one paragraph
CODE_SPAN = re.compile(rf"(?<!`)(`+)(?!`){BLOCK}(?<!`)\1(?!`)", re.DOTALL)
MATH_SPAN = re.compile(r"(?<![\\$\w])\$(?![\s$])(?:[^$\n]|\n(?!\s*\n))*?(?<![\s\\])\$(?![$\d\w])")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
TAG = re.compile(r"</?[A-Za-z][^<>]*>")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(\s*(<[^>]*>|[^)\s]*)(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^\[[^\]^]+\]:\s*(\S+)", re.MULTILINE)
ADDRESS = re.compile(r"https?://[^\s)>\"']+")
HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")


@dataclass(frozen=True)
class Line:
    """One line and what it is: prose, quote, code, option (of a directive) or mark (a fence, front matter)."""

    text: str
    kind: str


def lines(text: str) -> list[Line]:
    """Every line of the page with its kind."""
    return list(_Reader().read(text))


class _Reader:
    """Walks down a page and keeps the open fences, math blocks and quotes in mind."""

    def __init__(self):
        self.fences: list[tuple[str, bool]] = []  # (fence, whether it holds code)
        self.math = self.quote = self.options = False

    def read(self, text: str):
        rows = text.split("\n")
        front = rows[1:].index("---") + 2 if rows[0] == "---" and "---" in rows[1:] else 0
        for number, row in enumerate(rows):
            yield Line(row, "mark" if number < front else self._kind(row))

    def _kind(self, row: str) -> str:
        if self.fences and (match := FENCE.match(row)) and self._closes(match):
            self.fences.pop()
            self.options = False
            return "mark"
        if self.fences and self.fences[-1][1]:
            return "code"
        if match := FENCE.match(row):
            fence, directive = match.group(1), (match.group(2) or "").strip("{}")
            code = directive in CODE_DIRECTIVES if directive else fence[0] != ":"
            if not (fence[0] == "`" and "`" in match.group(3)):  # that would be a code span
                self.fences.append((fence, code))
                self.options = bool(directive)
                return "mark"
        if self.options and re.match(r"^\s*:[\w-]+:", row):
            return "option"
        self.options = False
        return self._paragraph_kind(row)

    def _closes(self, match: re.Match) -> bool:
        fence = self.fences[-1][0]
        bare = not match.group(2) and not match.group(3).strip()
        return bare and match.group(1)[0] == fence[0] and len(match.group(1)) >= len(fence)

    def _paragraph_kind(self, row: str) -> str:
        if self.math:
            self.math = not re.search(r"\$\$|\\end\{", row)
            return "code"
        if re.match(r"^\s*(\$\$|\\begin\{)", row):
            self.math = not re.search(r"\$\$.*\$\$|\\end\{", row)
            return "code"
        self.quote = row.lstrip().startswith(">") or (self.quote and bool(row.strip()))
        return "quote" if self.quote else "prose"


def _blank(match: re.Match) -> str:
    return re.sub(r"[^\n]", " ", match.group())


def mask(text: str, *, kinds: tuple[str, ...] = ("prose", "quote")) -> str:
    """The page with lines of other kinds and comments blanked, character for character."""
    kept = [line.text if line.kind in kinds else " " * len(line.text) for line in lines(text)]
    return COMMENT.sub(_blank, "\n".join(kept))


def without(text: str, *patterns: re.Pattern) -> str:
    """The text with every match of the patterns blanked."""
    for pattern in patterns:
        text = pattern.sub(_blank, text)
    return text


def prose(text: str) -> str:
    """The mask of what the author says in their own words: no quote, code, math, tag or link target."""
    plain = without(mask(text, kinds=("prose",)), CODE_SPAN, MATH_SPAN)
    plain = LINK.sub(lambda m: m.group()[: 2 + len(m.group(1) + m.group(2))].ljust(len(m.group())), plain)
    return without(plain, DEFINITION, ADDRESS, TAG)


def line_of(text: str, offset: int) -> int:
    """The line of an offset, counted from one."""
    return text.count("\n", 0, offset) + 1


def headings(text: str) -> list[tuple[int, str]]:
    """(level, words) of each heading."""
    found = [HEADING.match(line.text) for line in lines(text) if line.kind == "prose"]
    return [(len(match.group(1)), match.group(2)) for match in found if match]


def links(text: str) -> list[tuple[int, str]]:
    """(line, target) of every Markdown link, image, reference definition and HTML address."""
    plain = without(mask(text), CODE_SPAN, MATH_SPAN)
    found = [(match.start(), match.group(3).strip("<>")) for match in LINK.finditer(plain)]
    found += [(match.start(), match.group(1).strip("<>")) for match in DEFINITION.finditer(plain)]
    found += [(m.start(), m.group(2)) for m in re.finditer(r"\b(href|src)\s*=\s*[\"']([^\"']*)[\"']", plain)]
    return [(line_of(plain, offset), target) for offset, target in sorted(found)]


def images(text: str) -> list[tuple[int, str]]:
    """(line, alt text) of every image: Markdown, HTML, and the directives `image` and `figure`."""
    plain = without(mask(text), CODE_SPAN, MATH_SPAN)
    found = [(m.start(), m.group(2)) for m in LINK.finditer(plain) if m.group(1)]
    for match in re.finditer(r"<img\b[^>]*>", plain):
        alt = re.search(r"\balt\s*=\s*(\"[^\"]*\"|'[^']*')", match.group())
        found.append((match.start(), alt.group(1)[1:-1] if alt else ""))
    numbered = [(line_of(plain, offset), alt) for offset, alt in found]
    for match in re.finditer(r"^\s*(`{3,}|:{3,})\{(?:image|figure)\}.*\n((?:\s*:[\w-]+:.*\n)*)", text, re.MULTILINE):
        alt = re.search(r"^\s*:alt:\s*(.*)$", match.group(2), re.MULTILINE)
        numbered.append((line_of(text, match.start(1)), alt.group(1).strip() if alt else ""))
    return sorted(numbered)


def anchors(text: str) -> set[str]:
    """What a link may name after `#`: heading slugs as MyST makes them, labels, ids."""
    slugs: set[str] = set()
    for _, words in headings(text):
        plain = LINK.sub(lambda m: m.group(2), words).replace("`", "")
        base = slug = re.sub(r"[^\w\u4e00-\u9fff\- ]", "", plain.lower().replace(" ", "-"))
        count = 1
        while slug in slugs:
            slug, count = f"{base}-{count}", count + 1
        slugs.add(slug)
    plain = mask(text)
    slugs |= set(re.findall(r"^\s*\(([\w:.-]+)\)=\s*$", plain, re.MULTILINE))
    slugs |= set(re.findall(r"\bid\s*=\s*[\"']([^\"']+)[\"']", plain))
    return slugs | set(re.findall(r"^\s*:name:\s*(\S+)", text, re.MULTILINE))
