"""The instructor's run-sheet: clock times, what is left out, and what to skip when late."""

import html

import nbformat

from helpers.show import Markup

from ...markup import html_table
from ...repository import Chapter, tags
from . import paper
from .schedule import LATE, Block, Plan, clock, skips

KINDS = {"frame": "", "section": "show and run", "exercise": "everyone works", "break": "", "open": "everyone works"}


def run_sheet(chapters: list[Chapter], plans: list[Plan], start: str) -> str:
    """The page with one timetable for each plan, and the instructor's notes of each section."""
    names = ", ".join(chapter.card["title"] for chapter in chapters)
    body = [f"<h1>Run-sheet: {html.escape(names)}</h1>", INTRODUCTION]
    for plan in plans:
        body += [f"<h2>{plan.minutes} minutes, from {html.escape(start)}</h2>", timetable(plan, start)]
        if plan.left_out:
            left = "; ".join(f"{html.escape(block.title)} ({block.minutes:g} min)" for block in plan.left_out)
            body.append(f'<p class="quiet">Left out to fit: {left}.</p>')
    for chapter in chapters:
        body += [f"<h2>Notes: {html.escape(chapter.card['title'])}</h2>", *notes(chapter)]
    return paper.page(f"Run-sheet: {names}", "\n".join(body))


INTRODUCTION = """\
<p>The clock times hold if you begin on time. <strong>When you are late</strong>, look at the last column of the line
you are about to begin: it says what to leave out so that the rest fits. “As above” means that the answer has not
changed. A learner who comes late, or whose kernel was restarted, runs the first cells and the folded <em>Starting
here</em> cell of the current
section, and is with you in seconds.</p>"""


def timetable(plan: Plan, start: str) -> str:
    """The table of one plan."""
    times = clock(plan.blocks, start)
    rows, before = [], None
    for index, (time, block) in enumerate(zip(times, plan.blocks, strict=True)):
        late = Markup(cut_lines(plan.blocks, index))
        said = "as above" if late == before and late else late
        before = late
        rows.append([time, Markup(f"{block.minutes:g}&nbsp;min"), block.title, KINDS[block.kind], said])
    return html_table(f"{plan.minutes} minutes", ["begins", "takes", "what", "how", "if you are late here"], [rows])


def cut_lines(blocks: list[Block], at: int) -> str:
    """What to skip from here on, for each of the usual delays."""
    said, last = [], None
    for late in LATE:
        chosen = skips(blocks, at, late)
        if chosen is None:
            break
        if chosen != last:
            what = ", ".join("the open time" if block.kind == "open" else html.escape(block.title) for block in chosen)
            said.append(f'<span class="late">{late} min: skip {what}</span>')
        last = chosen
    return "<br>".join(said) or f"{LATE[0]} min: nothing left to skip; end {LATE[0]} min later"


def notes(chapter: Chapter) -> list[str]:
    """The chapter's instructor cells under their sections, and the common wrong answers under their exercises."""
    told, heading = [], ""
    titles = {one["id"]: one["title"] for one in chapter.card["exercises"]}
    for cell in chapter.cells:
        about = cell.metadata.get("exercise", {})
        lines = cell.source.splitlines() if cell.cell_type == "markdown" else []
        found = next((line[3:].strip() for line in lines if line.startswith("## ")), "")
        heading = titles.get(about.get("id"), found or heading)
        if "instructor" in tags(cell):
            told.append(f"<h3>{html.escape(heading)}</h3>{paper.markdown(cell.source)}")
        elif "wrong" in tags(cell):
            told.append(_wrong(heading, cell))
    return told


def _wrong(heading: str, cell: nbformat.NotebookNode) -> str:
    code = html.escape(cell.source)
    said = html.escape(cell.metadata["exercise"]["message"])
    return (
        f"<details><summary>{html.escape(heading)}: a common wrong answer; the checker says “… {said} …”</summary>"
        f"<pre><code>{code}</code></pre></details>"
    )
