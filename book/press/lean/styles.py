"""One style sheet for the book, with the rules that its pages use."""

import re
from collections.abc import Iterable
from pathlib import Path

import tinycss2

NAME = re.compile(r"[.#]((?:\\.|[\w-])+)")
INSIDE = re.compile(r":(?:not|is|where|has|host|host-context|nth-[\w-]+)\((?:[^()]|\([^()]*\))*\)")
QUOTED = re.compile(r"\[[^\]]*\]|\"[^\"]*\"")
TAG = re.compile(r"(?:^|[\s>+~])([a-z][\w-]*)")
IMPORT = re.compile(r"@import\s+(?:url\()?[\"']([^\"']+)[\"']\)?;")
# a custom property of plain words: values with quotes or addresses stay
DECLARED = re.compile(r"(?<=[{;])(\s*)(--[\w-]+)\s*:[^;{}\"'()]*(?:\([^;{}\"'()]*\)[^;{}\"'()]*)*(?:;|(?=\}))")
NESTED = {"media", "supports", "layer"}


def used(pages: Iterable[str], scripts: Iterable[str]) -> set[str]:
    """Every name that a selector may ask for: classes, ids and elements of the pages, and all words of the scripts."""
    found = {"html", "body"}
    for page in pages:
        for names in set(re.findall(r'\b(?:class|id)="([^"<>]*)"', page)):
            found.update(names.split())
        found.update(re.findall(r"<([a-z][\w-]*)", page))
    for script in scripts:
        found.update(re.findall(r"[A-Za-z_][\w-]*", script))
    return found


def trimmed(sheet: str, names: set[str]) -> str:
    """The rules of a sheet that can apply where only `names` occur; comments and empty rules go."""
    return "".join(_rule(node, names) for node in tinycss2.parse_stylesheet(sheet, True, True))


def _rule(node: tinycss2.ast.Node, names: set[str]) -> str:
    if node.type == "at-rule" and node.content is not None and node.lower_at_keyword in NESTED:
        inside = tinycss2.parse_rule_list(node.content, True, True)
        kept = "".join(_rule(one, names) for one in inside)
        return f"@{node.at_keyword}{tinycss2.serialize(node.prelude)}{{{kept}}}" if kept else ""
    if node.type != "qualified-rule":
        return node.serialize() if node.type == "at-rule" and node.lower_at_keyword != "charset" else ""
    kept = [one for one in selectors(tinycss2.serialize(node.prelude)) if applies(one, names)]
    body = re.sub(r"/\*.*?\*/|(?<=[;{])\s+|\s+$", "", tinycss2.serialize(node.content).strip(), flags=re.DOTALL)
    return f"{','.join(kept)}{{{body}}}\n" if kept and body else ""


def selectors(prelude: str) -> list[str]:
    """The selectors of a rule, parted at the commas that stand in no brackets."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(prelude):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append(prelude[start:at])
            start = at + 1
    return [" ".join(part.split()) for part in [*parts, prelude[start:]]]


def applies(selector: str, names: set[str]) -> bool:
    """Whether all classes, ids and elements that a selector demands occur; what stands in `:not(…)` is not demanded."""
    plain = QUOTED.sub("", INSIDE.sub("", selector))
    wanted = {name.replace("\\", "") for name in NAME.findall(plain)}
    wanted |= set(TAG.findall(NAME.sub("", re.sub(r"::?[\w-]+(\([^)]*\))?", "", plain))))
    return wanted <= names


def without_unused_variables(sheet: str, others: Iterable[str]) -> str:
    """The sheet without the declarations of custom properties that neither it nor the texts `others` read."""
    elsewhere = {name for text in others for name in re.findall(r"--[\w-]+", text)}
    while True:
        read = elsewhere | set(re.findall(r"var\(\s*(--[\w-]+)", sheet))
        less = DECLARED.sub(lambda found, read=read: found.group() if found[2] in read else found[1], sheet)
        if less == sheet:
            return sheet
        sheet = less


def without_unused_letters(sheet: str) -> str:
    """The sheet without the fonts that no rule of it names."""
    faces = re.compile(r"@font-face[^{}]*\{[^{}]*\}")
    rest = faces.sub("", sheet)

    def named(face: re.Match) -> str:
        family = re.search(r"font-family:\s*[\"']?([^;\"'}]+)", face.group())[1].replace("\\", "").strip()
        return face.group() if family in rest else ""

    return faces.sub(named, sheet)


def read(path: Path) -> str:
    """The text of a sheet, with the sheets that it imports in their places."""
    text = path.read_text(encoding="utf-8")
    return IMPORT.sub(lambda found: read((path.parent / found[1]).resolve()), text)
