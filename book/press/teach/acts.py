"""Acts: short questions inside a section, answered before the text goes on. A Markdown cell tagged `act` holds one:

- `choose`: a question, then options as a task list, `- [x]` the right one, each with its reply as a quote below it
- `order`: a question, then a numbered list in the right order, which readers get in another
- `predict`: a question for a number that the run measures, the `metric` of its metadata; the reader's guess stands
  beside it at the section's end and in the recap, and is close within the factor `within`

A quote ends the last two: the reply to every answer. Of it come the act of the page, to which `book/_static/acts.js`
gives its controls, the cells of the student's notebook, and a slide."""

import html
import inspect
import json
import random
import re
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import indent

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from helpers.show import number

from ..errors import PressError
from ..files import breaches
from ..repository import Chapter, tags
from .answering import RIGHT, Acts
from .checkpoints import RECAP, heading

KINDS = {"choose": "Choose", "order": "Put in order", "predict": "Predict"}
LISTED = {"choose": re.compile(r"^- \[([ x])\] ", re.M), "order": re.compile(r"^(\d+)\. ", re.M)}
MANY = {"choose": range(2, 7), "order": range(3, 9), "predict": range(1)}
SCHEMA = Path(__file__).with_name("act.schema.json")
LETTERS = "abcdefgh"
CALL = "from start_here_{stem} import acts\n\nacts.{call}"


# One act: its metadata, question, items as shown, letters that are right; replies by letter, or one under "".
Act = namedtuple("Act", "about question items right replies")


def read(cell: NotebookNode) -> Act:
    """The act in a cell; PressError says what is not well-formed."""
    about = dict(cell.metadata.get("act", {}))
    for what in breaches(SCHEMA, about, "its metadata"):
        raise PressError(f"act {about.get('id')}: {what}")
    kind = about["kind"]
    question, *rest = LISTED[kind].split(cell.source) if kind in LISTED else [cell.source]
    question, reply = (question.strip(), "") if rest else _quoted(question)
    marks, found = rest[::2], [_quoted(item) for item in rest[1::2]]
    if kind == "order" and found:
        reply, found[-1] = found[-1][1], (found[-1][0], "")
    texts, own = [text for text, _ in found], [said for _, said in found]
    many = MANY[kind]
    needs = {
        "a question": question,
        f"{many[0]} to {many[-1]} items, none twice": len(texts) in many and len({*texts, ""}) == len(texts) + 1,
        "one option marked [x]": kind != "choose" or marks.count("x") == 1,
        "a reply, `> …`, below each option, or else at its end": bool(reply) != any(own) and (reply or all(own)),
    }
    for what in [what for what, holds in needs.items() if not holds]:
        raise PressError(f"act {about.get('id')} needs {what}")
    return _act(about, question, texts, marks, own if kind == "choose" else [reply])


def _quoted(text: str) -> tuple[str, str]:
    """A text without its last lines that are a quote, and their words."""
    lines = inspect.cleandoc(text).rstrip().splitlines()
    end = len(lines)
    while end and lines[end - 1].startswith(">"):
        end -= 1
    return "\n".join(lines[:end]).strip(), "\n".join(line[1:].strip() for line in lines[end:])


def _act(about: dict, question: str, texts: list[str], marks: list[str], replies: list[str]) -> Act:
    """The act with letters; what is to be ordered is shuffled, for one id always alike."""
    places, chance = list(range(len(texts))), random.Random(about["id"])
    while about["kind"] == "order" and places == sorted(places):
        chance.shuffle(places)
    right = [marks.index("x")] if "x" in marks else map(places.index, range(len(texts)))
    items = {letter: texts[place] for letter, place in zip(LETTERS, places, strict=False)}
    replies = dict(zip(items if len(replies) > 1 else [""], replies, strict=True))
    return Act(about, question, items, "".join(LETTERS[place] for place in right), replies)


def of(cells: list[NotebookNode]) -> list[Act]:
    """All acts of some cells."""
    return [read(cell) for cell in cells if "act" in tags(cell)]


def sections(cells: list[NotebookNode]) -> Iterator[tuple[str, list[NotebookNode]]]:
    """Title and cells of each section, in order; "" before the first heading."""
    titles = [heading(cell) for cell in cells]
    starts = sorted({0, *(at for at, title in enumerate(titles) if title)})
    yield from ((titles[start], cells[start:end]) for start, end in zip(starts, [*starts[1:], None], strict=True))


def predicted(cells: list[NotebookNode]) -> list[str]:
    """The ids of what readers predict in some cells."""
    return [one["id"] for one in (cell.metadata.get("act", {}) for cell in cells) if one.get("kind") == "predict"]


def asked(act: Act) -> str:
    """The question as Markdown with a letter for each item, for notebooks and slides."""
    listed = "".join(f"\n- **{letter}** {indent(text, '  ').strip()}" for letter, text in act.items.items())
    return f"**{KINDS[act.about['kind']]}.** {act.question}" + "\n" * bool(listed) + listed


def answered(act: Act) -> str:
    """The answer as Markdown: each option's reply, or the right order and why; of a prediction what it teaches."""
    said = [f"{RIGHT[letter == act.right]} {reply}" for letter, reply in act.replies.items() if letter]
    rows = said or [act.items[letter] for letter in act.right]
    return _numbered(rows) + act.replies.get("", "")


def _numbered(rows: list[str]) -> str:
    return "".join(f"1. {indent(row, '   ').strip()}\n" for row in rows) + "\n"


def printed(cells: list[NotebookNode], metric: Callable[[str], dict]) -> list[NotebookNode]:
    """The cells of a page with its acts, the places where guesses stand beside what `metric` says of a name."""
    made = []
    for title, own in sections(cells):
        made += [_printed(cell, metric) if "act" in tags(cell) else cell for cell in own]
        ends = [f'<div class="rebuilt-act-measured" data-of="{name}"></div>' for name in predicted(own)]
        ends += ['<div class="rebuilt-act-recap"></div>'] * (title == RECAP and bool(predicted(cells)))
        made += [new_markdown_cell(end) for end in ends]
    return made


def _printed(cell: NotebookNode, metric: Callable[[str], dict]) -> NotebookNode:
    """One act as a page has it: Markdown in the boxes that the script looks for."""
    act, measured = read(cell), ""
    told = {name: act.about[name] for name in ("id", "kind")} | {"right": act.right}
    if name := act.about.get("metric"):
        found = metric(name)
        told |= {key: found[key] for key in ("value", "unit")} | {"within": act.about.get("within", 2)}
        told["text"] = number(float(found["value"]), found["unit"])
        measured = f"Measured: {told['text']}.\n\n"
    kind, own = act.about["kind"], f"act-{act.about['id']}"
    top = f'<div class="rebuilt-act" id="{own}" data-act="{html.escape(json.dumps(told))}">'
    head = f'<p class="rebuilt-act-kind">Your turn: {KINDS[kind].lower()}</p>'
    head += f'\n<div class="rebuilt-act-question" id="{own}-question">'
    options = f'<div class="rebuilt-act-options {kind}">\n\n{_numbered([*act.items.values()])}</div>\n'
    fold = f'<details class="rebuilt-act-answer {kind}"><summary>Answer</summary>'
    fold += f"\n\n{measured}{answered(act)}\n\n</details>"
    source = f"{top}\n{head}\n\n{act.question}\n\n</div>\n{options * bool(act.items)}{fold}\n</div>"
    return NotebookNode(cell | {"source": source})


def tried(cell: NotebookNode, stem: str) -> list[NotebookNode]:
    """The cells of a student's notebook: the question, and a call that takes the answer."""
    act = read(cell)
    name, letters = act.about["id"], [f'"{letter}"' for letter in act.items]
    what = f"{', '.join(letters[:-1])} or {letters[-1]}" if letters else "a number"
    what = 'the letters in your order, such as "{}"'.format("".join(act.items)) if len(act.right) > 1 else what
    call = f"{'answer' if letters else 'guess'}({name!r}, None)  # {what}".replace("'", '"')
    code = CALL.format(stem=stem, call=call)
    return [NotebookNode(cell | {"source": asked(act)}), new_code_cell(code, id=f"{cell['id']}-answer")]


def compared(cells: list[NotebookNode], stem: str) -> dict[str, list[NotebookNode]]:
    """By the id of the cell that ends a section: the student's cells that set guesses beside what was measured."""
    made = {}
    for title, own in sections(cells):
        calls = [f'compare("{name}", receipt)' for name in predicted(own)]
        calls += ["recap(receipt)"] * (title == RECAP and bool(predicted(cells)))
        told = [CALL.format(stem=stem, call=call) for call in calls]
        made[own[-1]["id"]] = [new_code_cell(one, id=f"{own[-1]['id']}-{at}") for at, one in enumerate(told)]
    return made


def module(chapter: Chapter) -> str:
    """What the module beside a student's notebook needs for its acts; "" where it has none."""
    rows = ""
    for act in of(chapter.cells):
        own = {key: act.about.get(key) for key in ("metric", "within")} | {"right": act.right, "replies": act.replies}
        rows += f"    {act.about['id']!r}: {own | {'letters': ''.join(act.items)}!r},\n"
    return f"\n\nRIGHT = {RIGHT!r}\n\n\n{inspect.getsource(Acts)}\n\nacts = Acts({{\n{rows}}})\n" if rows else ""
