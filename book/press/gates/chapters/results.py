"""The gate on told results: a sentence that says which of two is better follows from a check or is written by a cell.

A comparison in the indicative ("ours is faster", "the FFT wins") is a result. It stands beside a check (`check.that`,
`check.close`) in the code cell before or after it, or a cell writes it from its values (`show.md`). What is known
without a run, by counting or from a source, says so: `<!-- known: reason -->` in its paragraph.
"""

import re
from collections.abc import Iterator

from ...repository import Chapter, Repository
from .. import Problem, gate, markdown
from ..python import calls, parse

MORE = r"(?:faster|slower|quicker|better|worse|cheaper|leaner|higher|lower|fewer|(?:more|less) accurate)"
VERB = r"(?:is|are|was|were|comes?|came|runs?|ran|takes?|took|needs?|finds?|found|learns?|gets?|got|does|do|did|stays?)"
RESULT = re.compile(
    r"\b(?:wins|won|outperforms?|overtakes?|improves?|worsens?|halves|doubles)\b"
    r"|\b(?:loses?|lost) (?:to|most|least|more|less)\b"
    rf"|\bbeats? (?:the|a|an|one|every|all|both|it|its|them|ours|each)\b"
    rf"|\b{VERB}\b(?:\s+[\w-]+){{0,3}}?\s+{MORE}\b",
    re.IGNORECASE,
)
OPEN = re.compile(  # a question, a wish, a condition or a task says no result
    r"\?\s*$|:\s*$|\b(?:if|may|might|can|could|would|should|must|need not|whether|which|once|unless|until)\b"
    r"|\b(?:predict|ask|copy|draw|articles?)\b|[\"“]",
    re.IGNORECASE,
)
SENTENCE = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z0-9(*_])")
KNOWN = re.compile(r"<!--\s*known:\s*(.{8,}?)\s*-->")


@gate(
    "results",
    "a sentence that compares results stands beside a check or is written by a cell",
    why="a typed comparison stays when the numbers above it turn, and then the page says what did not happen",
    mend="check it in the cell beside it (check.that), write it from the values (show.md), or say why no run decides "
    "it: <!-- known: reason --> in its paragraph",
)
def results(repository: Repository) -> Iterator[Problem]:
    """Comparisons in Markdown cells without a check in the code cell before or after them."""
    for chapter in repository.chapters:
        for index, cell in enumerate(chapter.cells):
            if cell.cell_type == "markdown" and not cell.metadata.get("exercise") and not _checked(chapter, index):
                for line, sentence in told(cell.source):
                    what = f"“{sentence[:90]}” tells a result that no check beside it holds"
                    yield Problem(repository.relative(chapter.notebook), what, index, line)


def told(text: str) -> list[tuple[int, str]]:
    """(line, sentence) of each comparison of results that gives no reason of its own."""
    excused = {text.count("\n", 0, found.start()) + 1 for found in KNOWN.finditer(text)}
    found = []
    for line, words in markdown.prose(text):
        if excused & set(range(line, line + words.count("\n") + 1)):
            continue
        for sentence in SENTENCE.split(" ".join(words.split())):
            if RESULT.search(sentence) and not OPEN.search(sentence):
                found.append((line, sentence))
    return found


def _checked(chapter: Chapter, index: int) -> bool:
    """Whether the nearest code cell before or after this Markdown cell checks something."""
    cells = chapter.cells
    before = next((cell for cell in reversed(cells[:index]) if cell.cell_type == "code"), None)
    after = next((cell for cell in cells[index + 1 :] if cell.cell_type == "code"), None)
    names = {
        name for cell in (before, after) if cell for name, _ in calls(parse(cell.source), "check.that", "check.close")
    }
    return bool(names)
