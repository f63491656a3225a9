"""The gate on figures: each says in words what it shows."""

import ast
import re
from collections.abc import Iterator

from ...repository import Chapter, Repository, read_notebook
from .. import Problem, gate, markdown
from ..python import argument, calls, dotted_name, literal_text, parse

SHORTEST, SHORTEST_IMAGE = 20, 12
EMPTY_PHRASES = re.compile(
    r"^(a |an |the )?(figure|plot|chart|image|picture|graph|alt( text)?)\b.{0,16}$", re.IGNORECASE
)
MAKERS = ("figure", "subplots", "gcf", "plot.figure", "plt.figure", "plt.subplots", "plt.gcf")


@gate(
    "alt",
    "every figure and image has alt text that states the finding",
    why="a reader who cannot see the figure gets the finding all the same",
    mend='show figures with plot.show(fig, alt="what the reader sees in it, in a sentence")',
)
def alt(repository: Repository) -> Iterator[Problem]:
    """Figures shown without words, in sources, executed copies and pages."""
    for chapter in repository.chapters:
        where = repository.relative(chapter.notebook)
        for index, cell in enumerate(chapter.cells):
            found = _code(cell.source) if cell.cell_type == "code" else _markdown(cell.source)
            yield from (Problem(where, what, index) for what in found)
        if chapter.executed.exists():
            yield from _executed(repository, chapter)
    for page in repository.pages:
        yield from (Problem(repository.relative(page), what) for what in _markdown(page.read_text(encoding="utf-8")))


def trivial(text: str | None, shortest: int = SHORTEST) -> bool:
    """Whether an alt text says nothing: absent, short, or only naming what kind of thing it is."""
    plain = " ".join((text or "").split())
    return len(plain) < shortest or " " not in plain or bool(EMPTY_PHRASES.match(plain))


def _code(source: str) -> Iterator[str]:
    tree = parse(source)
    for name, call in calls(tree, "show"):
        if name in ("plt.show", "pyplot.show", "matplotlib.pyplot.show", "fig.show", "figure.show"):
            yield f"`{name}()` shows a figure without words; only plot.show(fig, alt=…) is allowed"
        elif name == "plot.show":
            words = argument(call, 1, "alt")
            text = literal_text(words)
            if text is None:
                yield "plot.show needs alt= as a literal text or f-string, so that a reviewer reads it in its place"
            elif trivial(text):
                yield f"alt={text!r}: at least {SHORTEST} letters that state the finding are needed"
    for name, _ in calls(tree, "savefig"):
        yield f"`{name}` writes a figure past plot.show; only plot.show(fig, alt=…) is allowed"
    figures = _figure_names(tree)
    for _, call in calls(tree, "display"):
        if any(isinstance(node, ast.Name) and (node.id in figures or node.id == "fig") for node in call.args):
            yield "display(fig) shows a figure without words; only plot.show(fig, alt=…) is allowed"


def _figure_names(tree: ast.Module) -> set[str]:
    """The names that this cell binds to a figure."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and dotted_name(node.value.func) in MAKERS:
            first = node.targets[0]
            first = first.elts[0] if isinstance(first, ast.Tuple) and first.elts else first
            found |= {first.id} if isinstance(first, ast.Name) else set()
    return found


def _markdown(text: str) -> Iterator[str]:
    for line, words in markdown.images(text):
        if trivial(words, SHORTEST_IMAGE):
            yield f"line {line}: an image with the alt text {words!r}; {SHORTEST_IMAGE} letters or more are needed"


def _executed(repository: Repository, chapter: Chapter) -> Iterator[Problem]:
    where = repository.relative(chapter.executed)
    for index, cell in enumerate(read_notebook(chapter.executed).cells):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            page = str(data.get("text/html", ""))
            pictures = [kind for kind in data if kind.startswith("image/")]
            if pictures and "<img" not in page and "<svg" not in page:
                yield Problem(where, f"a bare {pictures[0]} output has no alt text", index)
            for tag in re.findall(r"<img\b[^>]*>", page + str(data.get("text/markdown", ""))):
                words = re.search(r"\balt=\"([^\"]*)\"|\balt='([^']*)'", tag)
                if trivial(words and (words.group(1) or words.group(2))):
                    yield Problem(where, f"an <img> of the output has the alt text {words and words.group()!r}", index)
            for tag in re.findall(r"<svg\b[^>]*>(?:\s*<title)?", page):
                if "<title" not in tag and "aria-label" not in tag and "aria-hidden" not in tag:
                    yield Problem(where, "an <svg> of the output has neither <title> nor aria-label", index)
