"""The gates on cards: the schema, that card, notebook, registry and references say the same, and that reasons, gains,
where the plain way won and slips of the articles are borne out."""

import ast
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import yaml

from helpers import _records

from ...errors import git
from ...files import breaches, read_json
from ...ledger import gather
from ...print.exercise import foreign, inpage
from ...repository import Chapter, Repository, read_yaml, tags
from ...taught import amiss
from .. import gate, markdown
from ..python import FUNCTIONS, parse, trees

SCHEMA = Path(__file__).parents[1] / "card.schema.json"
ROLES = {"exercise": (1, 1), "hint": (2, 2), "stub": (1, 1), "checker": (1, 1), "solution": (1, 1), "wrong": (2, 9)}
FIXED = ("kind", "better", "value", "null", "slack")  # of a claim, before the run that decides it
NUMBER = re.compile(r"[-+]?(\d+(_\d+)*\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)


@gate
def card(repository: Repository) -> Iterator[tuple]:
    """Cards are valid and agree with notebook, registry and references."""
    for path in sorted((repository.root / "notebooks").glob("*/*/*.yml")):
        if not path.with_suffix(".ipynb").exists():
            yield path, "a card without its notebook of the same name"
    for chapter in repository.chapters:
        where = chapter.card_path
        if not where.exists():
            yield where, "is missing; every notebook has a card of its name beside it"
            continue
        content = read_yaml(where)
        yield from ((where, what, None, line) for line, what in odd_numbers(where))
        errors = breaches(SCHEMA, content, "the card")
        yield from ((where, what) for what in errors)
        if not errors:
            yield from ((where, what) for what in _disagreements(repository, chapter))
            yield from _exercises(chapter)


@gate
def taught(repository: Repository) -> Iterator[tuple]:
    """Reasons, gains, plain ways that won and errata are borne out by notebooks and runs."""
    for entry in gather(repository).entries:
        yield from ((entry.chapter.card_path, what) for what in amiss(entry))


def odd_numbers(path: Path) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) of each number that YAML 1.1 reads as a text or as another number."""
    for token in yaml.scan(path.read_text(encoding="utf-8")):
        if isinstance(token, yaml.ScalarToken) and token.plain and re.search(r"\d", token.value):
            read = yaml.safe_load(token.value)
            read = read if isinstance(read, int | float) else None
            if read != (float(token.value) if NUMBER.fullmatch(token.value) else None):
                told = "a text" if read is None else f"{read!r}"
                allowed = "decimal digits are allowed, or 5.0e-2 or 1.0e+9, with a point and a signed exponent"
                yield token.start_mark.line + 1, f"{token.value} is read as {told}; {allowed}"


def _disagreements(repository: Repository, chapter: Chapter) -> Iterator[str]:
    content = chapter.card
    if content["part"] != chapter.part:
        yield f"part: {content['part']}; the notebook lies in {chapter.part}"
    said = [pair for cell in chapter.cells if cell.cell_type == "markdown" for pair in markdown.headings(cell.source)]
    title = next((words for level, words in said if level == 1), None)
    if title != content["title"]:
        yield f"title: {content['title']!r}; the notebook's title is {title!r}"
    said = [words for level, words in said if level == 2]
    listed = [section["title"] for section in content["sections"]]
    if said != listed:
        odd = [f"not in the notebook: {name!r}" for name in listed if name not in said]
        odd += [f"not in the card: {name!r}" for name in said if name not in listed]
        yield f"sections: must be the notebook's '## ' headings, in order; {'; '.join(odd) or 'the order differs'}"
    if content.get("picture", listed[0]) not in listed:
        yield f"picture: {content['picture']!r} is no section; there are: {', '.join(listed)}"
    if not repository.references.get(content["article"]["key"]):
        yield f"article.key: {content['article']['key']} is not in book/references.bib, with its `url`"
    after = {one.stem: one.card.get("after", ()) for one in repository.chapters}
    yield from (f"after: {name} is no notebook" for name in content.get("after", ()) if name not in after)
    try:
        TopologicalSorter(after).prepare()
    except CycleError as circle:
        if chapter.stem in circle.args[1]:
            yield "after: the notebooks that help before this one come back to it"
    yield from _data(repository, content)
    for kind in ("claims", "exercises"):
        names = [one["id"] for one in content[kind]]
        yield from (f"{kind}: the id {name} is used twice" for name in sorted(set(names)) if names.count(name) > 1)
    found = [_recorded(tree) for tree in trees(chapter)]

    def known(text: str) -> bool:
        return any(text in texts or any(one.fullmatch(text) for one in patterns) for texts, patterns in found)

    acts = [one for one in (cell.metadata.get("act", {}) for cell in chapter.cells) if one.get("metric")]
    for kind, one in [*(("claims.", claim) for claim in content["claims"]), *(("act ", act) for act in acts)]:
        if not known(one["metric"]):
            yield f"{kind}{one['id']}: neither a cell nor a module records the metric {one['metric']!r}"
    for claim in content["claims"]:
        yield from (f"claims.{claim['id']}: {what}" for what in _run(chapter, claim, known))


def _data(repository: Repository, content: dict) -> Iterator[str]:
    known = {row.get("dataset") for row in repository.registry}
    yield from (f"data: {name} is not in data/registry.tsv" for name in content["data"] if name not in known)
    if content["needs"]["disk_mb"] < (mb := repository.megabytes(content["data"])):
        yield f"needs.disk_mb: {content['needs']['disk_mb']}; the data to download are {mb:.1f} MB alone"


def _run(chapter: Chapter, claim: dict, known: Callable[[str], bool]) -> Iterator[str]:
    """What is wrong with the race or study that a claim names, and with what it says of its receipts."""
    asked, metric, awaits = claim.get("run"), claim["metric"], claim.get("awaits")
    files = {path: read_json(path) for path in (chapter.root / "data/receipts" / chapter.stem).glob("*.json")}
    own = [one["metrics"] for path, one in files.items() if asked and _records.run_name(path, one) == asked]
    held = any(metric in metrics for metrics in own)
    if asked and not own and not any(map(known, (name := re.sub(r"-\d+$", "", asked), name.replace("-", "_")))):
        yield f"no race or study of the chapter is named {asked!r}"
    if own and not held and not awaits:
        yield f"no committed receipt of {asked!r} has {metric!r}; `awaits` says why, or `run` names another"
    if awaits and (held or not own):
        yield f"`awaits` is for a committed receipt that lacks the metric; {asked or 'the page'!r} has none such"
    if asked and not claim.get("changed"):
        for commit in {one.get("commit") for path, one in files.items() if _records.run_name(path, one) == asked}:
            before = _asked_at(chapter, str(commit)).get(claim["id"], claim)
            if found := [name for name in FIXED if "kind" in before and before.get(name) != claim.get(name)]:
                yield f"after the run of {commit:.7} {', '.join(found)} changed; `changed` says which, and why"


@lru_cache(maxsize=64)
def _asked_at(chapter: Chapter, commit: str) -> dict[str, dict]:
    """The claims of the chapter's card as a commit has them; none where this clone has no such commit."""
    told = git(chapter.root, "show", f"{commit}:{chapter.card_path.relative_to(chapter.root).as_posix()}")
    return {one["id"]: one for one in (yaml.safe_load(told or "") or {}).get("claims") or []}


@lru_cache(maxsize=8192)
def _recorded(tree: ast.Module) -> tuple[set[str], list[re.Pattern]]:
    """What a cell or a module may record: its texts, and its f-strings with any word for each value."""
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    patterns = []
    for node in [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]:
        known = [part.value if isinstance(part, ast.Constant) else None for part in node.values]
        if sum(len(part) for part in known if part) >= 4:
            patterns.append(re.compile("".join(r"\w+" if part is None else re.escape(part) for part in known)))
    return texts, patterns


def _exercises(chapter: Chapter) -> Iterator[tuple]:
    listed = {exercise["id"]: exercise for exercise in chapter.card["exercises"]}
    count = Counter()
    for index, cell in enumerate(chapter.cells):
        roles, about = [role for role in ROLES if role in tags(cell)], cell.metadata.get("exercise", {})
        if (roles or about) and (len(roles) != 1 or about.get("id") not in listed):
            known = ", ".join(listed) or "none"
            what = f"needs one tag of {', '.join(ROLES)} and an exercise id of the card ({known})"
            yield chapter.notebook, what, index
        elif roles:
            count[about["id"], roles[0]] += 1
            found = _exercise_cell(roles[0], about, listed[about["id"]], cell)
            yield from ((chapter.notebook, what, index) for wrong, what in found if wrong)
    for name, (role, (low, high)) in itertools.product(listed, ROLES.items()):
        if not low <= count[name, role] <= high:
            allowed = str(low) if low == high else f"at least {low}"
            what = f"exercise {name} has {count[name, role]} cells tagged `{role}`; {allowed} must be there"
            yield chapter.notebook, what
    for name, own in inpage(chapter.cells).items():
        for needed in sorted(set(foreign(own))):
            yield chapter.notebook, f"exercise {name} runs in the page, which has no {needed}: Python and `check` alone"


def _exercise_cell(role: str, about: dict, listed: dict, cell) -> Iterator[tuple[bool, str]]:
    for name in ("kind", "minutes"):
        yield about.get(name) != listed[name], f"{name} {about.get(name)!r} in the cell, {listed[name]!r} in the card"
    kind = "markdown" if role in ("exercise", "hint") else "code"
    yield cell.cell_type != kind, f"a `{role}` must not be a {cell.cell_type} cell"
    if role == "hint":
        folded = re.search(r"<details>.*<summary>.*</details>", cell.source, re.DOTALL)
        yield not folded, "a hint must be folded: <details><summary>…</summary> … </details>"
    if role == "wrong":
        said = str(about.get("message", "")).strip()
        yield not said, "a wrong answer needs the `message` that the checker must say"
    if role == "checker":
        body = parse(cell.source).body
        named = any(isinstance(node, FUNCTIONS) and node.name.startswith("check_") for node in body)
        idle = all(isinstance(node, (*FUNCTIONS, ast.Import, ast.ImportFrom)) for node in body)
        yield not named, "a checker must define a function check_NAME(fn)"
        yield not idle, "a checker must define and import only, so that it runs nothing before the reader's try"
    if role == "solution":
        called = [getattr(node, "func", None) for node in ast.walk(parse(cell.source))]
        checked = any(getattr(one, "id", "").startswith("check_") for one in called)
        yield not checked, "a `solution` must call its checker on itself: a run proves it right"
