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
NO_BOXES = {
    *NAMES,
    "train.txt",
    "val.txt",
    "test.txt",
    "trainval.txt",
    "readme.txt",
    "license.txt",
}


def read(path) -> list[Photo]:
    """All photos that an annotation file, or all those in a folder, tell of."""
    path = Path(path)
    if not path.exists():
        raise ValueError(f"{path} does not exist; a file or a folder of annotations is needed")
    if path.is_file():
        return _file(path, path.parent, strict=True)
    files = sorted(
        one for one in path.rglob("*") if one.is_file() and not one.name.startswith(".")
    )
    found = []
    for one in files:
        if one.suffix.lower() in (".json", ".xml"):
            found += _file(one, path)
    splits = _lists(files)
    for photo in found:
        photo.split = photo.split or splits.get(Path(photo.file).stem, "")
    found = found or _yolo_folder(path, files)
    if not found:
        raise ValueError(f"{path} holds no annotations of VIA, COCO, Pascal VOC or YOLO")
    return found


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
            photos = _json(json.loads(text), locate, split)
        elif path.suffix.lower() == ".xml":
            declared = re.sub(r"^\s*<\?xml[^>]*\?>", "", text)  # the encoding is known by now
            photos = [formats.voc(declared, path, locate, split)]
        else:
            names = _classes(home)
            photos = [formats.yolo(text, _picture(path), names, split)]
    except (
        ElementTree.ParseError,
        json.JSONDecodeError,
        ValueError,
        KeyError,
        TypeError,
    ) as error:
        told = f"{path.name}: {error}"
        if strict:
            raise ValueError(f"{told}; VIA, COCO, Pascal VOC or YOLO is needed") from None
        return [Photo(path, notes=[("unreadable annotation", told)], split=split)]
    for photo in photos:
        photo.notes += notes
    return photos


def _json(found, locate, split) -> list[Photo]:
    if isinstance(found, dict) and isinstance(found.get("images"), list):
        return formats.coco(found, locate, split)
    entries = found.get("_via_img_metadata", found) if isinstance(found, dict) else {}
    if entries and all(isinstance(one, dict) and "filename" in one for one in entries.values()):
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
    known = ("train", "val", "valid", "validation", "test", "trainval")
    return next(
        (one for word in words for one in known if re.fullmatch(rf"{one}(\d{{4}})?", word)), ""
    )


def _lists(files: list[Path]) -> dict[str, str]:
    """Stem to split, from VOC's lists; `trainval` speaks only where no other does."""
    found = {}
    for path in sorted(files, key=lambda one: one.stem == "trainval"):
        if "ImageSets" in path.parts and path.suffix == ".txt":
            for line in text_of(path)[0].splitlines():
                if line.strip():
                    found.setdefault(line.split()[0], path.stem)
    return found


def _yolo_folder(home: Path, files: list[Path]) -> list[Photo]:
    names, found, seen = _classes(home), [], set()
    for path in files:
        if path.suffix.lower() == ".txt" and path.name.lower() not in NO_BOXES:
            found += _file(path, home)
            seen.add(found[-1].file)
    for path in files if found else []:  # a photo without a file has no objects
        if path.suffix.lower() in PICTURES and path not in seen:
            found.append(Photo(path, formats.pixel_size(path), split=_split(path, home)))
    del names
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


def _classes(home: Path) -> list[str]:
    """YOLO's class names: lines of a list, or `names` of a YAML file; empty where there is
    none.
    """
    for place in (home, home.parent, home.parent.parent):
        for name in NAMES:
            if (place / name).is_file():
                text = text_of(place / name)[0]
                if not name.endswith(".yaml"):
                    return [line.strip() for line in text.splitlines() if line.strip()]
                import yaml

                names = (yaml.safe_load(text) or {}).get("names") or []
                return [
                    str(one) for one in (names.values() if isinstance(names, dict) else names)
                ]
    return []
