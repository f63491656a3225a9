"""The gate on figures: each says in words what it shows."""

import ast
import re
from collections.abc import Iterator

from ...repository import Chapter, Repository, read_notebook
from .. import cells, gate, markdown
from ..python import argument, calls, literal_text, parse

SHORTEST, SHORTEST_IMAGE = 20, 12
EMPTY_PHRASES = re.compile(r"^(a |an |the )?(figure|plot|chart|image|picture|graph|alt( text)?)\b.{0,16}$", re.I)
MAKERS = ("figure", "subplots", "gcf")


@gate
def alt(repository: Repository) -> Iterator[tuple]:
    """Every figure and image has alt text that states the finding."""
    for chapter, index, cell in cells(repository):
        found = _code(cell.source) if cell.cell_type == "code" else _markdown(cell.source)
        yield from ((chapter.notebook, what, index) for what in found)
    for chapter in [chapter for chapter in repository.chapters if chapter.executed.exists()]:
        yield from _executed(chapter)
    for page in repository.pages:
        yield from ((page, what) for what in _markdown(page.read_text(encoding="utf-8")))


def trivial(text: str | None, shortest: int = SHORTEST) -> bool:
    """Whether an alt text says nothing: absent, short, or only naming what kind of thing it is."""
    plain = " ".join((text or "").split())
    return len(plain) < shortest or " " not in plain or bool(EMPTY_PHRASES.match(plain))


def _code(source: str) -> Iterator[str]:
    tree = parse(source)
    for name, call in calls(tree, "show"):
        text = literal_text(argument(call, 1, "alt"))
        if name in ("plt.show", "pyplot.show", "matplotlib.pyplot.show", "fig.show", "figure.show"):
            yield f"`{name}()` shows a figure without words; only plot.show(fig, alt=…) is allowed"
        elif name == "plot.show" and text is None:
            yield "plot.show needs alt= as a literal text or f-string, so that a reviewer reads it in its place"
        elif name == "plot.show" and trivial(text):
            yield f"alt={text!r}: at least {SHORTEST} letters that state the finding are needed"
    for name, _ in calls(tree, "savefig"):
        yield f"`{name}` writes a figure past plot.show; only plot.show(fig, alt=…) is allowed"
    figures = {"fig", *_figure_names(tree)}
    for _, call in calls(tree, "display"):
        if any(isinstance(node, ast.Name) and node.id in figures for node in call.args):
            yield "display(fig) shows a figure without words; only plot.show(fig, alt=…) is allowed"


def _figure_names(tree: ast.Module) -> Iterator[str]:
    """The names that this cell binds to a figure: `fig = plt.figure()`, `fig, ax = plt.subplots()`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(call is node.value for _, call in calls(node.value, *MAKERS)):
            first = node.targets[0]
            first = first.elts[0] if isinstance(first, ast.Tuple) else first
            yield getattr(first, "id", "")


def _markdown(text: str) -> Iterator[str]:
    for line, words in markdown.images(text):
        if trivial(words, SHORTEST_IMAGE):
            yield f"line {line}: an image with the alt text {words!r}; {SHORTEST_IMAGE} letters or more are needed"


def _executed(chapter: Chapter) -> Iterator[tuple]:
    numbered = enumerate(read_notebook(chapter.executed).cells)
    for index, data in [(index, out.get("data", {})) for index, cell in numbered for out in cell.get("outputs", [])]:
        page = str(data.get("text/html", ""))
        pictures = [kind for kind in data if kind.startswith("image/")]
        if pictures and "<img" not in page and "<svg" not in page:
            yield chapter.executed, f"a bare {pictures[0]} output has no alt text", index
        for tag in re.findall(r"<img\b[^>]*>", page + str(data.get("text/markdown", ""))):
            words = markdown.alt_of(tag)
            if trivial(words):
                yield chapter.executed, f"an <img> of the output has the alt text {words!r}", index
        for tag in re.findall(r"<svg\b[^>]*>(?:\s*<title)?", page):
            if not re.search(r"<title|aria-label|aria-hidden", tag):
                yield chapter.executed, "an <svg> of the output has neither <title> nor aria-label", index
