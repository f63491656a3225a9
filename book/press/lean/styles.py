"""One style sheet for the book: the rules that its pages use, with the letters that they draw of large fonts."""

import base64
import io
import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from posixpath import relpath

import tinycss2

from ..repository import read_patterns

OWN = read_patterns(Path(__file__).with_name("markup.yml"))
NESTED = {"media", "supports", "layer"}


def read(path: Path, home: Path) -> str:
    """The text of a sheet as it would stand in the folder `home`, with the sheets that it imports in their places."""

    def seen(found: re.Match) -> str:
        if found[1]:
            return read(path.parent / found[1], home)
        return f"url({found[2]}{relpath((path.parent / found[3]).as_posix(), home.as_posix())}{found[2]})"

    return OWN.ADDRESS.sub(seen, path.read_text(encoding="utf-8"))


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


def trimmed(sheet: str | list, names: set[str]) -> str:
    """The rules of a sheet that can apply where only `names` occur; comments and empty rules go."""
    return "".join(_rule(node, names) for node in tinycss2.parse_rule_list(sheet, True, True))


def _rule(node: tinycss2.ast.Node, names: set[str]) -> str:
    if node.type == "at-rule" and node.content is not None and node.lower_at_keyword in NESTED:
        kept = trimmed(node.content, names)
        return f"@{node.at_keyword}{tinycss2.serialize(node.prelude)}{{{kept}}}" if kept else ""
    if node.type != "qualified-rule":
        return node.serialize() if node.type == "at-rule" and node.lower_at_keyword != "charset" else ""
    selectors = [list(tokens) for comma, tokens in groupby(node.prelude, lambda token: token == ",") if not comma]
    kept = [" ".join(tinycss2.serialize(one).split()) for one in selectors if _demanded(one) <= names]
    body = re.sub(r"/\*.*?\*/|(?<=[;{])\s+|\s+$", "", tinycss2.serialize(node.content).strip(), flags=re.DOTALL)
    return f"{','.join(kept)}{{{body}}}\n" if kept and body else ""


def _demanded(selector: list[tinycss2.ast.Node]) -> set[str]:
    """All classes, ids and elements that must occur; not what stands in brackets, such as those of `:not(…)`."""
    pairs = zip(["", *selector], selector, strict=False)
    return {one.value for before, one in pairs if one.type == "hash" or one.type == "ident" and before != ":"}


def without_unused_variables(sheet: str, others: Iterable[str]) -> str:
    """The sheet without the declarations of custom properties that neither it nor the texts `others` read."""
    elsewhere = {name for text in others for name in re.findall(r"--[\w-]+", text)}
    while True:
        read = elsewhere | set(re.findall(r"var\(\s*(--[\w-]+)", sheet))
        less = OWN.DECLARED.sub(lambda found, read=read: found.group() if found[2] in read else found[1], sheet)
        if less == sheet:
            return sheet
        sheet = less


def with_letters(sheet: str, home: Path) -> str:
    """The sheet that stands in `home` with its fonts in it, cut to the letters that it draws by `content`. Fonts that
    no rule names or that draw nothing go; those not there as TTF or WOFF (WOFF2 needs Brotli) are left."""
    rules = OWN.FACE.sub("", sheet)
    drawn = "".join(OWN.ESCAPED.sub(lambda code: chr(int(code[1], 16)), text) for text in OWN.CONTENT.findall(rules))

    def face(rule: re.Match) -> str:
        if OWN.FAMILY.search(rule[1])[1].replace("\\", "").strip() not in rules:
            return ""
        source = OWN.SOURCE.search(rule[1])
        paths = [home / f"{source[1]}{kind}" for kind in (".ttf", ".woff")] if source else []
        found = next(filter(Path.is_file, paths), None)
        if found is None:
            return rule[0]
        font, about = subset(found, drawn), re.sub(r"\s*(?:src|font-display):[^;]*;?", "", rule[1]).strip().rstrip(";")
        data = f'src:url("data:font/woff;base64,{base64.b64encode(font).decode()}") format("woff")'
        return f"@font-face{{{about};{data}}}" if font else ""

    return OWN.FACE.sub(face, sheet)


def subset(path: Path, letters: str) -> bytes:
    """The font with these letters alone, as WOFF; empty where it has none of them."""
    from fontTools import subset as tools
    from fontTools.ttLib import TTFont

    font, file = TTFont(path, recalcTimestamp=False), io.BytesIO()  # the same letters are the same bytes at any time
    have = set(map(ord, letters)) & set(font.getBestCmap())
    options = tools.Options(layout_features=[], hinting=False, notdef_outline=False, name_IDs=[0, 13, 14])
    options.drop_tables, font.flavor = [*options.drop_tables, "FFTM"], "woff"
    cutter = tools.Subsetter(options)
    cutter.populate(unicodes=have)
    cutter.subset(font)
    font.save(file)
    return file.getvalue() if have else b""
