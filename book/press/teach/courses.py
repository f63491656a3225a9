"""Courses, a term and days of one subject, for `book/courses.md`: `courses.yml` says which chapters are taught when,
the cards their objectives, minutes and exercises. Refused are a chapter that is none, prerequisites in a circle, and a
session over its minutes. A test runs the notebooks of each course in order, where there is no network."""

from collections import namedtuple
from pathlib import Path

from ..errors import PressError
from ..files import write_text
from ..ledger import Entry
from ..ledger.tables import block
from ..repository import Chapter, Repository, read_yaml
from . import syllabi
from .workshop.paper import render
from .workshop.schedule import plan

DATA = ("courses", "cases", "questions", "checklists", "never_run")
OWN, CASES, QUESTIONS, CHECKLISTS, NEVER = (read_yaml(Path(__file__).with_name(f"{name}.yml")) for name in DATA)
ANSWERS = "_data/courses/{}.html"  # for teachers, below the book's root


# One meeting: no plan where it is the project's; homework: chapter, exercise by its card, hidden cases.
Session = namedtuple("Session", "title chapters plan homework project")
# A course that can be taught; `before`: which of its chapters each needs, the last taught first.
Course = namedtuple("Course", "about chapters before sessions questions")


def read(name: str, chapters: list[Chapter], own: dict | None = None) -> Course:
    """The course of this name, of `courses.yml` or of `own`; PressError says why it cannot be taught."""
    about, known = (own or OWN["courses"])[name], {one.stem: one for one in chapters}
    taught = [stem for session in about["sessions"] for stem in session.get("chapters", ())]
    named = {*taught, *about.get("after", {}), *(one for firsts in about.get("after", {}).values() for one in firsts)}
    if lost := named - known.keys() or named - {*taught}:
        raise PressError(f"the course {name}: {', '.join(sorted(lost))} is no chapter, or none that it teaches")
    before: dict[str, list[str]] = {}
    for stem in taught:
        firsts = dict.fromkeys([*about.get("after", {}).get(stem, ()), *known[stem].card.get("after", ())])
        if late := [first for first in firsts if first in taught and first not in before]:
            raise PressError(f"the course {name}: {stem} needs {late[0]}, which is not before it, or needs it, too")
        before[stem] = sorted((one for one in firsts if one in taught), key=taught.index, reverse=True)
    known = {stem: known[stem] for stem in taught}
    asked = [(chapter, one) for stem, chapter in known.items() for one in QUESTIONS.get(stem, ())]
    sessions = [_session(name, one, about["minutes"], known) for one in about["sessions"]]
    return Course(about, [*known.values()], before, sessions, asked)


def _session(name: str, about: dict, minutes: int, known: dict[str, Chapter]) -> Session:
    chapters, tasks = [known[stem] for stem in about.get("chapters", ())], []
    for key in about.get("homework", ()):
        stem, _, which = key.partition("/")
        found = [one for one in known[stem].card["exercises"] if one["id"] == which] if stem in known else []
        if not found or key not in CASES:
            raise PressError(f"the course {name}: homework {key} is no exercise of its chapters with hidden cases")
        tasks.append((known[stem], found[0], CASES[key]["cases"]))
    made = plan(chapters, minutes, core=True) if chapters else None
    return Session(about["title"], chapters, made, tasks, about["project"])


def whole(repository: Repository, name: str) -> Course | None:
    """A course; None in a book of some chapters that lacks one of its own."""
    made = read(name, Repository(repository.root).chapters)
    return made if {one.stem for one in made.chapters} <= {one.stem for one in repository.chapters} else None


def shown(repository: Repository, name: str = "") -> str:
    """A course as its page shows it; where it is, in a book that lacks a chapter of it."""
    if (made := whole(repository, name) if name else None) is None:
        return block("teach/courses.html", "elsewhere", repository.site)
    drawn = syllabi.chapter_map(made.chapters, made.before)
    return block("teach/courses.html", "course", made, drawn, syllabi.timetable, f"../{ANSWERS.format(name)}")


def publish(repository: Repository, source: Path) -> None:
    """Write each course's page for teachers below `source/_data`: questions with answers, hidden cases, rubric."""
    for name in OWN["courses"] if "book/courses" in repository.toc_files else ():
        if made := whole(repository, name):
            text = render("answers.html", course=made, rubric=OWN["rubric"], site=repository.site)
            write_text(source / ANSWERS.format(name), text)


def parts(repository: Repository, entries: list[Entry], name: str = "rubric") -> str:
    """What all courses share: `rubric`, `project`; one of the `checklists.yml` by its name; or what was `never` run."""
    paths = sorted((repository.root / ".github" / "workflows").glob("*.yml"))
    flows = {path.name: read_yaml(path)["jobs"] for path in paths}
    values = {"rubric": OWN["rubric"], "project": OWN["project"], "never": (NEVER, entries, flows)}
    macro, given = (name, values[name]) if name in values else ("checklist", CHECKLISTS[name])
    return block("teach/courses.html", macro, given, f"{repository.url}/blob/{repository.release}")
