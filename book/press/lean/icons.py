"""The icons of the theme: of each font the letters that the book's sheet draws, in the sheet."""

import base64
import io
import re
from pathlib import Path

CONTENT = re.compile(r"(?:content|--fa|--pst-icon-[\w-]+):\s*\"((?:\\[0-9a-f]+\s?|[^\"\\])+)\"")
FACE = re.compile(r"@font-face[^{}]*\{[^{}]*\}")
SOURCE = re.compile(r"url\([\"']?([^)\"'?#]+)\.(?:woff2|ttf|woff)[^)]*\)")


def letters(sheet: str) -> str:
    """Every letter that the sheet draws itself, by `content` or by the icons' own properties."""

    def plain(text: str) -> str:
        return re.sub(r"\\([0-9a-f]{1,6})\s?", lambda code: chr(int(code[1], 16)), text)

    return "".join(sorted(set("".join(plain(text) for text in CONTENT.findall(sheet)))))


def embedded(sheet: str, folder: Path, wanted: str) -> str:
    """The sheet with the fonts in `folder` that it names cut to the letters `wanted`; empty ones are left out."""

    def face(rule: re.Match) -> str:
        source = SOURCE.search(rule.group())
        found = next((path for path in _files(folder, source[1]) if path.is_file()), None) if source else None
        if found is None:
            return rule.group()
        font = subset(found, wanted)
        if not font:
            return ""
        about = [
            part.strip()
            for part in re.split(r";(?!base64)", rule.group().partition("{")[2].rstrip("}"))
            if part.strip() and not part.strip().startswith(("src", "font-display"))
        ]
        data = f'src:url("data:font/woff;base64,{base64.b64encode(font).decode()}") format("woff")'
        return f"@font-face{{{';'.join([*about, data])}}}"

    return FACE.sub(face, sheet)


def _files(folder: Path, address: str) -> list[Path]:
    """Where a font may lie that a sheet calls `address`, in a form that can be read without Brotli."""
    return [folder / f"{Path(address).name}{kind}" for kind in (".ttf", ".woff")]


def subset(path: Path, wanted: str) -> bytes:
    """The font with the letters `wanted` alone, as WOFF; empty where it has none of them."""
    from fontTools import subset as tools
    from fontTools.ttLib import TTFont

    font = TTFont(path)
    have = {ord(letter) for letter in wanted} & set(font.getBestCmap())
    if not have:
        return b""
    options = tools.Options(layout_features=[], hinting=False, notdef_outline=False, name_IDs=[0, 13, 14])
    options.drop_tables += ["FFTM"]
    cutter = tools.Subsetter(options)
    cutter.populate(unicodes=have)
    cutter.subset(font)
    font.flavor = "woff"
    file = io.BytesIO()
    font.save(file)
    return file.getvalue()
