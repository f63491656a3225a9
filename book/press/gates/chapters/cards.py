"""The gate on cards: the schema, and that card, notebook, registry and references say the same."""

import ast
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path

import jsonschema
import yaml

from ...repository import Chapter, Repository, read_yaml, tags
from .. import gate, markdown
from ..python import FUNCTIONS, parse, trees

SCHEMA = Path(__file__).resolve().parents[1] / "card.schema.json"
ROLES = {"exercise": (1, 1), "hint": (2, 2), "stub": (1, 1), "checker": (1, 1), "solution": (1, 1), "wrong": (2, 9)}
NUMBER = re.compile(r"[-+]?(\d+(_\d+)*\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)


@cache
def validator() -> jsonschema.Draft202012Validator:
    """The validator of a card."""
    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


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
        errors = sorted(validator().iter_errors(content), key=lambda error: list(map(str, error.absolute_path)))
        for error in errors:
            place = ".".join(map(str, error.absolute_path)) or "the card"
            yield where, f"{place}: {error.message}"
        if not errors:
            yield from ((where, what) for what in _disagreements(repository, chapter))
            yield from _exercises(chapter)


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
    if content["article"]["key"] not in repository.references:
        yield f"article.key: {content['article']['key']} is not in book/references.bib"
    known = {row.get("dataset") for row in repository.registry}
    yield from (f"data: {name} is not in data/registry.tsv" for name in content["data"] if name not in known)
    for kind in ("claims", "exercises"):
        names = [one["id"] for one in content[kind]]
        yield from (f"{kind}: the id {name} is used twice" for name in sorted(set(names)) if names.count(name) > 1)
    found = [_recorded(tree) for tree in trees(chapter)]
    for name, metric in [(claim["id"], claim["metric"]) for claim in content["claims"]]:
        if not any(metric in texts or any(one.fullmatch(metric) for one in patterns) for texts, patterns in found):
            yield f"claims.{name}: neither a cell nor a module records the metric {metric!r}"


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
    count = {(name, role): 0 for name in listed for role in ROLES}
    for index, cell in enumerate(chapter.cells):
        roles, about = [role for role in ROLES if role in tags(cell)], cell.metadata.get("exercise", {})
        if (roles or about) and (len(roles) != 1 or about.get("id") not in listed):
            known = ", ".join(listed) or "none"
            what = f"needs one tag of {', '.join(ROLES)} and an exercise id of the card ({known})"
            yield chapter.notebook, what, index
        elif roles:
            count[about["id"], roles[0]] += 1
            for what in _exercise_cell(roles[0], about, listed[about["id"]], cell):
                yield chapter.notebook, what, index
    for (name, role), number in count.items():
        low, high = ROLES[role]
        if not low <= number <= high:
            allowed = str(low) if low == high else f"at least {low}"
            what = f"exercise {name} has {number} cells tagged `{role}`; {allowed} must be there"
            yield chapter.notebook, what


def _exercise_cell(role: str, about: dict, listed: dict, cell) -> Iterator[str]:
    for name in ("kind", "minutes"):
        if about.get(name) != listed[name]:
            yield f"{name} {about.get(name)!r} in the cell, {listed[name]!r} in the card"
    if cell.cell_type != ("markdown" if role in ("exercise", "hint") else "code"):
        yield f"a `{role}` must not be a {cell.cell_type} cell"
    if role == "hint" and not re.search(r"<details>.*<summary>.*</details>", cell.source, re.DOTALL):
        yield "a hint must be folded: <details><summary>…</summary> … </details>"
    if role == "wrong" and not str(about.get("message", "")).strip():
        yield "a wrong answer needs the `message` that the checker must say"
    tree = parse(cell.source)
    if role == "checker" and not _checks(node.name for node in tree.body if isinstance(node, FUNCTIONS)):
        yield "a checker must define a function check_NAME(fn)"
    if role == "checker" and not all(isinstance(node, (*FUNCTIONS, ast.Import, ast.ImportFrom)) for node in tree.body):
        yield "a checker must define and import only, so that it runs nothing before the reader's try"
    called = (getattr(node.func, "id", "") for node in ast.walk(tree) if isinstance(node, ast.Call))
    if role == "solution" and not _checks(called):
        yield "a `solution` must call its checker on itself: a run proves it right"


def _checks(names: Iterable[str]) -> bool:
    return any(name.startswith("check_") for name in names)
