"""`read`: a file or a folder of annotations, its format recognised by what it holds.

A folder may hold splits, each in a folder of its own or named by lists. A photo that is listed
and missing stays in the list: `problems` names it. A file that cannot be read at all stays,
too, as a photo with no boxes and a note. ValueError, only where nothing of a single file or no
annotation is found.
"""

import json
import re
import xml.etree.ElementTree as ElementTree
from functools import partial
from pathlib import Path

from . import formats
from .records import Photo

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff")
NAMES = (
    "data.yaml",
    "dataset.yaml",
    "classes.txt",
    "obj.names",
    "labels.txt",
)  # YOLO's classes
SPLITS = ("train", "val", "valid", "validation", "test", "trainval")
BROKEN = (*formats.UNREADABLE, ElementTree.ParseError, RecursionError)


def read(path) -> list[Photo]:
    """All photos that an annotation file, or all those in a folder, tell of."""
    path = Path(path)
    if not path.exists():
        raise ValueError(f"{path} does not exist; a file or a folder of annotations is needed")
    if path.is_file():
        return _file(path, path.parent, strict=True)
    inside = (one for one in path.rglob("*") if one.is_file())
    files = sorted(one for one in inside if not one.name.startswith("."))
    marked = [one for one in files if one.suffix.lower() in (".json", ".xml")]
    shares = [one for one in files if one.suffix.lower() == ".txt" and _is_yolo(one)]
    found = [photo for one in marked + shares for photo in _file(one, path)]
    if shares:  # a photo without a file has no objects
        seen = {one.file for one in found}
        alone = [one for one in files if one.suffix.lower() in PICTURES and one not in seen]
        found += [Photo(one, formats.pixel_size(one), split=_split(one, path)) for one in alone]
    splits = _lists(files)
    for photo in found:
        own = splits.get(photo.file.stem, [])
        if len(own) > 1:
            photo.notes.append(("in two splits", f"{photo.file.name} is in {', '.join(own)}"))
        photo.split = photo.split or (own[0] if own else "")
    if not found:
        raise ValueError(f"{path} holds no annotations of VIA, COCO, Pascal VOC or YOLO")
    return found


def _is_yolo(path: Path) -> bool:
    """A text beside a photo, or in `labels`, or whose first line is five numbers and more."""
    if "ImageSets" in path.parts or path.name.lower() in NAMES:
        return False
    lines = text_of(path)[0].split("\n", 1)
    words = lines[0].split()
    numbers = len(words) >= 5 and all(re.fullmatch(r"[-+.\deE]+", one) for one in words)
    return numbers or "labels" in path.parts or _picture(path).is_file()


def text_of(path: Path) -> tuple[str, list[tuple[str, str]]]:
    """A file's text, and a note where its encoding is another than UTF-8."""
    raw = path.read_bytes()
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16"), [("encoding", "UTF-16, read as such; UTF-8 is expected")]
    try:
        return raw.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        return raw.decode("latin-1"), [("encoding", "no UTF-8, read as Latin-1")]


def _file(path: Path, home: Path, strict: bool = False) -> list[Photo]:
    """The photos of one file; one that cannot be read is a note, or a ValueError where
    `strict`.
    """
    locate, split = partial(_locate, path, home), _split(path, home)
    try:
        text, notes = text_of(path)
        if path.suffix.lower() == ".json":
            pairs = json.loads(text, object_pairs_hook=partial(_once, notes))
            photos = _json(pairs, locate, split)
        elif path.suffix.lower() == ".xml":
            declared = re.sub(r"^\s*<\?xml[^>]*\?>", "", text)  # the encoding is known by now
            photos = [formats.voc(declared, path, locate, split)]
        else:
            names = _classes(path, home)
            photos = [formats.yolo(text, _picture(path), names, split)]
            if not names:
                notes.append(("no class names", "none of " + ", ".join(NAMES) + " is there"))
    except BROKEN as error:
        told = f"{path.name}: {error or type(error).__name__}"
        if strict:
            raise ValueError(f"{told}; VIA, COCO, Pascal VOC or YOLO is needed") from None
        return [Photo(path, notes=[("unreadable annotation", told)], split=split)]
    for photo in photos[:1] if path.suffix.lower() == ".json" else photos:
        photo.notes += notes  # what is wrong with a file of many photos is told once
    return photos


def _once(notes: list, pairs) -> dict:
    """A JSON object; a name that is in it twice, of which one is lost, is a note."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        lost = sorted({name for name in names if names.count(name) > 1})
        notes.append(("name twice", f"of the entries {', '.join(lost)[:150]} the last is read"))
    return made


def _json(found, locate, split) -> list[Photo]:
    if isinstance(found, dict) and isinstance(found.get("images"), list):
        return formats.coco(found, locate, split)
    entries = found.get("_via_img_metadata", found) if isinstance(found, dict) else {}
    entries = entries.values() if isinstance(entries, dict) else []
    if any(isinstance(one, dict) and "filename" in one for one in entries):
        return formats.via(found, locate, split)
    raise ValueError("neither COCO's `images` nor VIA's entries with `filename` are in it")


def _locate(source: Path, home: Path, name: str, stem: str | None = None) -> Path:
    """Where a photo lies that an annotation names: beside it, or in a folder of pictures
    near it.
    """
    name = Path(str(name).replace("\\", "/"))
    near = [source.parent, source.parent.parent, home]
    places = [
        top / folder for top in near for folder in ("", "images", "JPEGImages", source.stem)
    ]
    for place in places:
        for one in (name, Path(name.name)):
            if not one.is_absolute() and ".." not in one.parts and (place / one).is_file():
                return place / one
    for place in places if stem else []:  # VOC files whose <filename> was never changed
        for ending in PICTURES:
            if (place / f"{stem}{ending}").is_file():
                return place / f"{stem}{ending}"
    return source.parent / name.name


def _split(path: Path, home: Path) -> str:
    """The split that a path tells: the folder below `home`, or a word in the file's name."""
    words = [*path.relative_to(home).parts[:-1], *re.split(r"[_.-]", path.stem)]
    plain = [re.sub(r"\d{4}$", "", word.lower()) for word in words]
    return next((one for word in plain for one in SPLITS if word == one), "")


def _lists(files: list[Path]) -> dict[str, list[str]]:
    """Stem to splits, from VOC's lists; `trainval` speaks only where no other does."""
    found = {}
    for path in sorted(files, key=lambda one: one.stem == "trainval"):
        if "ImageSets" in path.parts and path.suffix == ".txt" and path.stem in SPLITS:
            for line in text_of(path)[0].splitlines():
                if line.strip() and not (path.stem == "trainval" and line.split()[0] in found):
                    found.setdefault(line.split()[0], []).append(path.stem)
    return found


def _picture(label: Path) -> Path:
    """The photo of a YOLO file: beside it, or in `images` where it lies in `labels`."""
    parts = list(label.parts)
    if "labels" in parts:
        parts[len(parts) - 1 - parts[::-1].index("labels")] = "images"
    for stem in (label, Path(*parts)):
        for ending in PICTURES:
            for one in (stem.with_suffix(ending), stem.with_suffix(ending.upper())):
                if one.is_file():
                    return one
    return Path(*parts).with_suffix(".jpg")


def _classes(label: Path, home: Path) -> list[str]:
    """YOLO's class names, from the nearest list (a name a line) or YAML file (`names`); empty
    where there is none.
    """
    inside = [one for one in label.parents if one.is_relative_to(home)]
    for place in (*inside, home.parent, home.parent.parent):
        for name in NAMES:
            if not (place / name).is_file():
                continue
            text = text_of(place / name)[0]
            if not name.endswith(".yaml"):
                return [line.strip() for line in text.rstrip().splitlines()]
            import yaml

            try:
                names = (yaml.safe_load(text) or {}).get("names") or []
                if isinstance(names, dict):  # number to name, in any order
                    most = max(map(int, names))
                    names = [
                        names.get(at, names.get(str(at))) for at in range(min(most, 9999) + 1)
                    ]
            except (yaml.YAMLError, *BROKEN) as error:
                raise ValueError(f"{place / name}: {error}") from None
            plain = isinstance(names, list)
            return (
                [
                    str(one) if isinstance(one, str | int) else str(at)
                    for at, one in enumerate(names)
                ]
                if plain
                else []
            )
    return []
