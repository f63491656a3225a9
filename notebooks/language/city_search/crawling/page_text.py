"""What a page says: its sections, links and attributes, from HTML, PDF or a CSV of questions.

Scripts, comments and what the element itself hides are no text, whatever they tell machines to
do. What a stylesheet hides is not known here: that takes a browser. But whatever is text is
quoted, never obeyed.
"""

import csv
import io
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

from .pdf_text import CHARACTERS, Unreadable, pdf_text_of

HEADINGS = {"h1", "h2", "h3", "h4"}
UNSEEN = {"script", "style", "noscript", "template", "nav", "head", "svg", "iframe", "dialog"}
BLOCKS = HEADINGS | {"p", "li", "div", "tr", "br", "ul", "ol", "table", "section", "dt", "dd"}
EMPTY = {"br", "img", "meta", "link", "input", "hr", "wbr", "col", "area", "source", "embed"}
INLINE = {"a", "abbr", "b", "cite", "code", "em", "font", "i", "label", "mark", "small", "span"}
INLINE |= {"strong", "sub", "sup", "u"}
ONE = {"p", "li", "dt", "dd", "tr", "td", "th", "option"}  # the next of them ends one
DEEP = 400  # tags open at once
AWAY = re.compile(
    r"display:none|visibility:(hidden|collapse)|(font-size|opacity):(0*\.0\d*|0+\.?)(?![.\d])",
    re.I,
)


@dataclass
class PageText:
    """Sections as (heading, text), links as written, attributes by name in lower case."""

    title: str = ""
    language: str = "en"
    sections: list[tuple[str, str]] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.page, self.open, self.within = PageText(), [], ""
        self.heading, self.text = [], []

    def handle_starttag(self, tag, attrs):
        own = {name: value or "" for name, value in attrs}
        if tag == "html":
            self.page.language = own.get("lang", "en").split("-")[0].lower()
        if tag == "meta" and own.get("name"):
            self.page.attributes[own["name"].lower()] = own.get("content", "")
        if (
            tag == "link"
            and own.get("rel") == "canonical"
            and own.get("href", "")[:4] == "http"
        ):
            self.page.attributes["canonical"] = own["href"]
        if tag == "a" and own.get("href") and "nofollow" not in own.get("rel", ""):
            self.page.links.append(own["href"])
        if self.open and (
            self.open[-1][0] == tag in ONE or self.open[-1][0] == "p" and tag in BLOCKS
        ):
            self.open.pop()
        style = re.sub(r"\s|/\*.*?\*/", "", own.get("style", "")) + ";"
        away = own.get("aria-hidden") == "true" or AWAY.search(style)
        unseen = tag in UNSEEN or "hidden" in own or bool(away) or self._unseen()
        if tag not in EMPTY:
            self.open.append((tag, unseen))
        if len(self.open) > DEEP:
            raise Unreadable(f"more than {DEEP} tags are open at once")
        if tag in HEADINGS and not self._unseen():
            self._close()
            self.within = tag
        self._break(tag)

    def handle_endtag(self, tag):
        for at in range(len(self.open) - 1, -1, -1):
            if self.open[at][0] == tag:
                del self.open[at:]  # what was left open inside ends here, as in browsers
                break
            if tag in INLINE and self.open[at][0] not in INLINE:
                break  # no </span> ends a <div>
        if tag == self.within:
            self.within = ""
        self._break(tag)

    def handle_data(self, data):
        if self.open and self.open[-1][0] == "title":
            self.page.title += data.strip()
        elif not self._unseen():
            (self.heading if self.within else self.text).append(data)

    def _unseen(self):
        return bool(self.open) and self.open[-1][1]

    def _break(self, tag):
        if tag in BLOCKS and not self.within:
            self.text.append("\n")

    def _close(self):
        heading, text = (tidy("".join(one)) for one in (self.heading, self.text))
        if text:
            self.page.sections.append((heading.replace("\n", " "), text))
        self.heading, self.text = [], []


def read(body: bytes, kind: str) -> PageText:
    """What a body of this media type says. Unreadable for one that is not text, too long, or
    of a kind that is not read.
    """
    name = kind.split(";")[0].strip().lower()
    if name == "application/pdf":
        text = tidy(pdf_text_of(body))
        return PageText(sections=[("", text)] if text else [])
    if name not in ("text/html", "text/csv", "text/plain"):
        raise Unreadable(f"{name} is not read; HTML, CSV, PDF and plain text are")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"no UTF-8: {error.reason}") from None
    if len(text) > CHARACTERS:
        raise Unreadable(f"{len(text)} characters; at most {CHARACTERS} are read")
    if name == "text/html":
        reader = _Reader()
        try:
            reader.feed(text + "<br>")  # what is still open then, a comment say, is none
        except AssertionError as error:  # as the parser says of some marked sections
            raise Unreadable(f"no HTML: {error}") from None
        reader._close()
        return reader.page
    if name == "text/plain":
        return PageText(sections=[("", tidy(text))])
    rows = csv.DictReader(io.StringIO(text, newline=""))
    try:
        if not {"question", "answer"} <= set(rows.fieldnames or ()):
            raise Unreadable(f"columns {rows.fieldnames}; question and answer are wanted")
        pairs = [(tidy(row["question"] or ""), tidy(row["answer"] or "")) for row in rows]
    except csv.Error as error:
        raise Unreadable(f"no CSV: {error}") from None
    return PageText(sections=[pair for pair in pairs if all(pair)])


def tidy(text: str) -> str:
    """The text with one blank between words and one break between lines, none at its ends."""
    lines = (" ".join(line.replace("\u200b", "").split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)
