"""The gate on cards: the schema, and that card, notebook, registry and references say the same."""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

import jsonschema
import yaml

from ...repository import Chapter, Repository, read_yaml, tags
from .. import Problem, gate, markdown
from ..python import FUNCTIONS, parse, parse_file

SCHEMA = Path(__file__).resolve().parents[1] / "card.schema.json"
ROLES = {"exercise": (1, 1), "hint": (2, 2), "stub": (1, 1), "checker": (1, 1), "solution": (1, 1), "wrong": (2, 9)}


@cache
def validator() -> jsonschema.Draft202012Validator:
    """The validator of a card."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@gate(
    "card",
    "cards are valid and agree with notebook, registry and references",
    why="claims, run-sheets, bundles and pages are made from the card alone",
    mend="correct the card, or the notebook where the card is right",
)
def card(repository: Repository) -> Iterator[Problem]:
    """What is wrong with a card, or missing beside a notebook."""
    for path in sorted((repository.root / "notebooks").glob("*/*/*.yml")):
        if not path.with_suffix(".ipynb").exists():
            yield Problem(repository.relative(path), "a card without its notebook of the same name")
    for chapter in repository.chapters:
        where = repository.relative(chapter.card_path)
        if not chapter.card_path.exists():
            yield Problem(where, "is missing; every notebook has a card of its name beside it")
            continue
        content = read_yaml(chapter.card_path)
        yield from (Problem(where, what, line=line) for line, what in odd_numbers(chapter.card_path))
        errors = sorted(validator().iter_errors(content), key=lambda error: list(map(str, error.absolute_path)))
        for error in errors:
            place = ".".join(map(str, error.absolute_path)) or "the card"
            yield Problem(where, f"{place}: {error.message}")
        if not errors:
            yield from (Problem(where, what) for what in _disagreements(repository, chapter))
            yield from _exercises(repository, chapter)


def odd_numbers(path: Path) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) of each number that YAML 1.1 reads as a text or as another number."""
    scalars = yaml.SafeLoader("")
    for node in _scalars(yaml.compose(path.read_text(encoding="utf-8"), yaml.SafeLoader)):
        kind = node.tag.rpartition(":")[2]
        if node.style or kind not in ("str", "int", "float") or not re.search(r"\d", node.value):
            continue
        meant, read = _number(node.value), scalars.construct_object(node) if kind != "str" else None
        if meant != read:
            told = "a text" if read is None else f"{read!r}"
            example = "5.0e-2 or 1.0e+9, with a point and a signed exponent"
            yield node.start_mark.line + 1, f"{node.value} is read as {told}; decimal digits are allowed, or {example}"


def _scalars(node: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    if isinstance(node, yaml.ScalarNode):
        yield node
    for part in node.value if isinstance(node, yaml.CollectionNode) else []:
        for inner in part if isinstance(part, tuple) else [part]:
            yield from _scalars(inner)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _disagreements(repository: Repository, chapter: Chapter) -> Iterator[str]:
    content = chapter.card
    if content["part"] != chapter.part:
        yield f"part: {content['part']}; the notebook lies in {chapter.part}"
    found = [heading for cell in chapter.cells if cell.cell_type == "markdown" for heading in _headings(cell)]
    title = next((words for level, words in found if level == 1), None)
    if title != content["title"]:
        yield f"title: {content['title']!r}; the notebook's title is {title!r}"
    said = [words for level, words in found if level == 2]
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
    for name in content["data"]:
        if name not in known:
            yield f"data: {name} is not in data/registry.tsv"
    yield from _claims(chapter)


def _headings(cell) -> list[tuple[int, str]]:
    return markdown.headings(cell.source)


def _claims(chapter: Chapter) -> Iterator[str]:
    claims = chapter.card["claims"]
    for name in _twice([claim["id"] for claim in claims]):
        yield f"claims: the id {name} is used twice"
    trees = [parse(cell.source) for cell in chapter.cells if cell.cell_type == "code"]
    trees += [parse_file(path) for path in chapter.modules()]
    found = [_recorded(tree) for tree in trees]
    for name, metric in [(claim["id"], claim["metric"]) for claim in claims]:
        if not any(metric in texts or any(one.fullmatch(metric) for one in patterns) for texts, patterns in found):
            yield f"claims.{name}: neither a cell nor a module records the metric {metric!r}"


@lru_cache(maxsize=8192)
def _recorded(tree: ast.Module) -> tuple[set[str], list[re.Pattern]]:
    """What a cell or a module may record: its texts, and its f-strings with any word for each value."""
    texts, patterns = set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            known = [part.value if isinstance(part, ast.Constant) else None for part in node.values]
            if sum(len(part) for part in known if part) >= 4:
                patterns.append(re.compile("".join(r"\w+" if part is None else re.escape(part) for part in known)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.add(node.value)
    return texts, patterns


def _twice(names: list[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _exercises(repository: Repository, chapter: Chapter) -> Iterator[Problem]:
    where = repository.relative(chapter.notebook)
    listed = {exercise["id"]: exercise for exercise in chapter.card["exercises"]}
    for name in _twice([exercise["id"] for exercise in chapter.card["exercises"]]):
        yield Problem(repository.relative(chapter.card_path), f"exercises: the id {name} is used twice")
    count = {(name, role): 0 for name in listed for role in ROLES}
    for index, cell in enumerate(chapter.cells):
        roles = [role for role in ROLES if role in tags(cell)]
        about = cell.metadata.get("exercise", {})
        if not roles and not about:
            continue
        if len(roles) != 1 or about.get("id") not in listed:
            known = ", ".join(listed) or "none"
            yield Problem(where, f"needs one tag of {', '.join(ROLES)} and an exercise id of the card ({known})", index)
            continue
        count[about["id"], roles[0]] += 1
        for what in _exercise_cell(roles[0], about, listed[about["id"]], cell):
            yield Problem(where, what, index)
    for (name, role), number in count.items():
        low, high = ROLES[role]
        if not low <= number <= high:
            allowed = str(low) if low == high else f"at least {low}"
            yield Problem(where, f"exercise {name} has {number} cells tagged `{role}`; {allowed} must be there")


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
    if role == "checker":
        yield from _checker(cell.source)
    if role == "solution" and not _calls_a_checker(cell.source):
        yield "a `solution` must call its checker on itself: a run proves it right"


def _checker(source: str) -> Iterator[str]:
    body = parse(source).body
    names = [node.name for node in body if isinstance(node, FUNCTIONS)]
    if not any(name.startswith("check_") for name in names):
        yield "a checker must define a function check_NAME(fn)"
    if any(not isinstance(node, (*FUNCTIONS, ast.Import, ast.ImportFrom)) for node in body):
        yield "a checker must define and import only, so that it runs nothing before the reader's try"


def _calls_a_checker(source: str) -> bool:
    tree = parse(source)
    names = [name for node in ast.walk(tree) if isinstance(node, ast.Call) and (name := getattr(node.func, "id", ""))]
    return any(name.startswith("check_") for name in names)
