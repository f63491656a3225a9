"""Gates on what pages say: figures in words, numbers that are not typed, no comparison without a check. `said.yml` has
what looks measured; inputs (360 Hz, 10 s of speech) do not, or say so: `<!-- typed: reason -->` at the end of a line or
paragraph. A comparison in the indicative ("ours is faster") stands beside a check in the code cell before or after it,
or a cell writes it (`show.md`), or its paragraph says why it is known: `<!-- known: reason -->`."""

import ast
import html
import re
from collections.abc import Iterator
from pathlib import Path

from ...repository import Repository, read_notebook, read_yaml
from .. import cells, gate, markdown
from ..python import argument, calls, literal_text, parse

WANTED = read_yaml(Path(__file__).parents[1] / "said.yml")


def _pattern(text: str | list[str]) -> re.Pattern:
    """An expression of `said.yml`, its parts in their places."""
    text = text if isinstance(text, str) else "|".join(text)
    while "@" in text:
        text = re.sub("@([A-Z_]+)@", lambda found: WANTED["parts"][found[1]], text)
    return re.compile(text)


MEASURED = {what: _pattern(text) for what, text in WANTED["measured"].items()}
EMPTY, RESULT, OPEN, RAW = (_pattern(WANTED["others"][name]) for name in ("empty alt", "result", "open", "raw markup"))
ARTICLE = '<article class="bd-article">'
SHORTEST, SHORTEST_IMAGE = 20, 12  # letters of an alt text
BARE = ("plt.show", "pyplot.show", "matplotlib.pyplot.show", "fig.show", "figure.show")
MAKERS = ("figure", "subplots", "gcf")
UNREAD = re.compile(r"<(pre|code|script|style|svg|textarea|mjx-container)\b.*?</\1>|<!--.*?-->", re.DOTALL)
ESCAPE = re.compile(r"(?P<begins>^[ \t]*)?<!--\s*typed:\s*(?P<reason>.*?)\s*-->[ \t]*$", re.MULTILINE)
SPLITS = re.compile(r"(?<=\S)\n<!--(?:[^\n]|\n(?!\n))*?-->(?:[ \t]*\n)?[ \t]*\S")
QUOTED = re.compile(r"[\"“„]([^\"“”]+)[\"”]")
SENTENCE = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z0-9(*_])")
KNOWN = re.compile(r"<!--\s*known:\s*(.{8,}?)\s*-->")


@gate
def alt(repository: Repository) -> Iterator[tuple]:
    """Every figure and image has alt text that states the finding."""
    for chapter, index, cell in cells(repository):
        found = _figures(parse(cell.source)) if cell.cell_type == "code" else _images(cell.source)
        yield from ((chapter.notebook, what, index) for what in found)
    for chapter in [chapter for chapter in repository.chapters if chapter.executed.exists()]:
        for index, cell in enumerate(read_notebook(chapter.executed).cells):
            found = (what for output in cell.get("outputs", []) for what in _output(output.get("data", {})))
            yield from ((chapter.executed, what, index) for what in found)
    for page in repository.pages:
        yield from ((page, what) for what in _images(page.read_text(encoding="utf-8")))


def trivial(text: str, shortest: int = SHORTEST) -> bool:
    """Whether an alt text says nothing: absent, short, or only naming what kind of thing it is."""
    plain = " ".join(text.split())
    return len(plain) < shortest or " " not in plain or bool(EMPTY.fullmatch(plain))


def _figures(tree: ast.Module) -> Iterator[str]:
    instead = "shows a figure without words; only plot.show(fig, alt=…) is allowed"
    for name, call in calls(tree, "plot.show", *BARE):
        text = literal_text(argument(call, 1, "alt"))
        if name in BARE:
            yield f"`{name}()` {instead}"
        elif text is None:
            yield "plot.show needs alt= as a literal text or f-string, so that a reviewer reads it in its place"
        elif trivial(text):
            yield f"alt={text!r}: at least {SHORTEST} letters that state the finding are needed"
    for name, _ in calls(tree, "savefig"):
        yield f"`{name}` writes a figure past plot.show; only plot.show(fig, alt=…) is allowed"
    made = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and calls(node.value, *MAKERS)]
    bound = {name.id for node in made for name in ast.walk(node.targets[0]) if isinstance(name, ast.Name)} | {"fig"}
    if any(getattr(node, "id", "") in bound for _, call in calls(tree, "display") for node in call.args):
        yield f"display(fig) {instead}"


def _images(text: str) -> Iterator[str]:
    for line, words in markdown.images(text):
        if trivial(words, SHORTEST_IMAGE):
            yield f"line {line}: an image with the alt text {words!r}; {SHORTEST_IMAGE} letters or more are needed"


def _output(data: dict) -> Iterator[str]:
    page, pictures = str(data.get("text/html", "")), [kind for kind in data if kind.startswith("image/")]
    if pictures and "<img" not in page and "<svg" not in page:
        yield f"a bare {pictures[0]} output has no alt text"
    for words in map(markdown.alt_of, re.findall(r"<img\b[^>]*>", page + str(data.get("text/markdown", "")))):
        if trivial(words):
            yield f"an <img> of the output has the alt text {words!r}"
    for tag in re.findall(r"<svg\b[^>]*>(?:\s*<title)?", page):
        if not re.search(r"<title|aria-label|aria-hidden", tag):
            yield "an <svg> of the output has neither <title> nor aria-label"


@gate
def numbers(repository: Repository) -> Iterator[tuple]:
    """No measured number is typed outside a quoted claim."""
    quotes = {}
    for chapter in repository.chapters:
        claims = [claim for claim in chapter.card.get("claims") or () if isinstance(claim, dict)]
        quotes[chapter] = [str(claim.get("quote", "")) for claim in claims]
    for chapter, index, cell in cells(repository, "markdown", "code"):
        for text in [cell.source] if cell.cell_type == "markdown" else _texts_in_code(cell.source):
            yield from ((chapter.notebook, what, index, line) for line, what in typed(text, quotes[chapter]))
    for page in repository.pages:
        found = typed(page.read_text(encoding="utf-8"), sum(quotes.values(), []))
        yield from ((page, what, None, line) for line, what in found)


def _texts_in_code(source: str) -> Iterator[str]:
    """The prose that a cell shows: alt texts, captions, Markdown."""
    for name, call in calls(parse(source), "plot.show", "show.md", "md", "Markdown"):
        for place in [(1, "alt"), (2, "caption")] if name == "plot.show" else [(0, "template")]:
            yield literal_text(argument(call, *place)) or ""


def typed(text: str, quotes: list[str]) -> list[tuple[int, str]]:
    """(line, what is wrong) of each typed number, not quoted, and without an escape at the end of its line or block."""
    marks = ESCAPE.finditer(text)  # one that begins a line belongs to the line before
    escapes = {text.count("\n", 0, one.start()) + (one["begins"] is None): one["reason"] for one in marks}
    bare = "an escape without a reason: <!-- typed: why this is no measurement -->"
    split = "a comment that begins a line splits its paragraph in two; let it stand behind its sentence"
    problems = [(line, bare) for line, reason in escapes.items() if len(reason) < 8]
    problems += [(text.count("\n", 0, match.start()) + 2, split) for match in SPLITS.finditer(text)]
    for first, words in markdown.prose(text):
        plain, last = _without_quotes(words, quotes), first + words.rstrip().count("\n")
        excused = range(first, last + 1) if last in escapes else escapes
        for what, match in [(what, match) for what, pattern in MEASURED.items() for match in pattern.finditer(plain)]:
            line = first + plain.count("\n", 0, match.start())
            if line not in excused:
                problems.append((line, f"“{' '.join(match[0].split())}” looks like {what} that was measured"))
    return sorted(set(problems))


def _without_quotes(plain: str, quotes: list[str]) -> str:
    """The text with the words of a claim blanked where they stand in quotation marks."""
    known = "\n".join(" ".join(re.findall(r"\w+", quote.lower())) for quote in quotes)

    def blanked(match: re.Match) -> str:
        said = " ".join(re.findall(r"\w+", match[1].lower()))
        return re.sub(r"[^\n]", " ", match[0]) if said and said in known else match[0]

    return QUOTED.sub(blanked, plain)


@gate
def results(repository: Repository) -> Iterator[tuple]:
    """A sentence that compares results stands beside a check or is written by a cell."""
    for chapter, index, cell in cells(repository, "markdown"):
        code = [(number, one.source) for number, one in enumerate(chapter.cells) if one.cell_type == "code"]
        beside = [source for number, source in code if number < index][-1:]
        beside += [source for number, source in code if number > index][:1]
        checked = any(calls(parse(source), "check.that", "check.close") for source in beside)
        if not cell.metadata.get("exercise") and not checked:
            for line, sentence in told(cell.source):
                what = f"“{sentence[:90]}” tells a result that no check beside it holds"
                yield chapter.notebook, what, index, line


def told(text: str) -> list[tuple[int, str]]:
    """(line, sentence) of each comparison of results that gives no reason of its own."""
    excused = {text.count("\n", 0, found.start()) + 1 for found in KNOWN.finditer(text)}
    found = []
    for line, words in markdown.prose(text):
        if not excused & {*range(line, line + words.count("\n") + 1)}:
            sentences = SENTENCE.split(" ".join(words.split()))
            found += [(line, one) for one in sentences if RESULT.search(one) and not OPEN.search(one)]
    return found


@gate
def rendered(repository: Repository) -> Iterator[tuple]:
    """The built pages show no raw markup and no sentence whose list is empty."""
    for path in sorted((repository.build / "html").glob("*/**/*.html")):
        article = path.read_text(encoding="utf-8").partition(ARTICLE)[2].partition("</article>")[0]
        text = html.unescape(re.sub(r"<[^>]*>", "", UNREAD.sub("code", article)))
        for found in RAW.finditer(text):
            around = " ".join(text[max(0, found.start() - 40) : found.end() + 40].split())
            yield path, f"a reader sees {found[0]!r} in “…{around}…”; markup is drawn, and what is empty is not said"
