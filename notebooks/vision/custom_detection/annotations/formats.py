"""Each format's annotation as `Photo`s: VIA (old and new), COCO, Pascal VOC, YOLO.

A parser gets what a file holds and a function that finds photos by name. It keeps every object,
also one whose box has no area; what it cannot make a box of becomes a note of its photo, and
takes nothing else along. Boxes are as written: VOC's corners are not moved by one, since tools
disagree on whether they count from 1.
"""

import xml.etree.ElementTree as ElementTree
from collections import defaultdict, namedtuple
from pathlib import Path

import numpy as np

from .records import Photo, box_of, pixel_size

# What garbage in a file that can be parsed raises, here and in `reading`.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

# One object. odd: what is to be told of it, as a pair (kind, words)
Mark = namedtuple(
    "Mark", "box label shape crowd area odd", defaults=(None, False, np.nan, None)
)


def photo_of(file, regions, reader, stated=None, split="", notes=()) -> Photo:
    """The photo with what `reader` makes of each region; a region that it cannot read is a
    note.
    """
    marks, notes = [], list(notes)
    for at, region in enumerate(regions):
        try:
            one = reader(region)
            corners = [float(value) for value in one.box]
            if len(corners) != 4:
                raise ValueError(f"{len(corners)} numbers are no box")
        except UNREADABLE as error:
            notes.append(("unreadable region", f"object {at}: {error!r}"[:200]))
            continue
        marks.append(one._replace(box=corners))
        notes += [one.odd] if one.odd else []
    boxes, labels, shapes, crowd, areas, _ = zip(*marks, strict=True) if marks else [()] * 6
    size = pixel_size(file) or stated
    return Photo(file, size, boxes, labels, shapes, crowd, areas, split, stated, notes)


def whole(sides) -> tuple[int, int] | None:
    """Width and height as a file states them; None where it does not."""
    try:
        wide, high = (int(float(one)) for one in sides)
    except UNREADABLE:
        return None
    return wide, high


def via(found: dict, locate, split: str = "") -> list[Photo]:
    """Photos of a VGG Image Annotator file: `regions` a dict (old form) or a list (new
    form).
    """
    photos = []
    for key, entry in found.get("_via_img_metadata", found).items():
        entry, notes = entry if isinstance(entry, dict) else {}, []
        if "filename" not in entry:
            notes.append(("unknown photo", f"the entry {key!r} names no file"))
        regions = entry.get("regions") or []
        regions = list(regions.values()) if isinstance(regions, dict) else regions
        if not isinstance(regions, list):
            notes.append(("unreadable region", f"the entry {key!r}: regions {regions!r}"[:200]))
            regions = []
        file = locate(entry.get("filename", key))
        photos.append(photo_of(file, regions, via_mark, None, split, notes))
    return photos


def via_mark(region: dict) -> Mark:
    """VIA's region: the box around its outline."""
    outline = outline_of(region["shape_attributes"])
    return Mark(box_of(outline), label_of(region.get("region_attributes")), [outline])


def outline_of(shape: dict) -> np.ndarray:
    """The (K, 2) outline of a VIA shape."""
    kind = shape["name"]
    if kind in ("polygon", "polyline"):
        points = [shape["all_points_x"], shape["all_points_y"]]
        return np.array(points, dtype=np.float64).T.reshape(-1, 2)
    if kind == "rect":
        x, y, w, h = (float(shape[one]) for one in ("x", "y", "width", "height"))
        return np.array([[x, y], [x + w, y], [x + w, y + h], [x, y + h]])
    if kind in ("circle", "ellipse"):
        rx, ry = (float(shape[one if kind == "ellipse" else "r"]) for one in ("rx", "ry"))
        turn = np.linspace(0, 2 * np.pi, 64, endpoint=False)
        around = np.stack([rx * np.cos(turn), ry * np.sin(turn)], 1)
        cos, sin = np.cos(shape.get("theta", 0)), np.sin(shape.get("theta", 0))
        return around @ np.array([[cos, sin], [-sin, cos]]) + [shape["cx"], shape["cy"]]
    raise ValueError(f"the shape {kind!r} has no box")


def label_of(attributes) -> str:
    """The label among VIA's free attributes: the first that is a text; "object" where none
    is.
    """
    for value in attributes.values() if isinstance(attributes, dict) else ():
        if isinstance(value, dict):  # a checkbox: {"balloon": true}
            value = next((name for name, on in value.items() if on), "")
        if str(value).strip():
            return str(value).strip()
    return "object"


def coco(found: dict, locate, split: str = "") -> list[Photo]:
    """Photos of a COCO file: boxes x, y, width, height become corners."""
    names = {one["id"]: str(one.get("name", one["id"])) for one in found.get("categories", [])}
    marked, photos, seen = defaultdict(list), [], set()
    for one in found.get("annotations", []):
        marked[one.get("image_id") if isinstance(one, dict) else None].append(one)

    def reader(one):
        return coco_mark(one, names)

    for image in found["images"]:
        number, notes = image.get("id"), []
        if number in seen:
            notes.append(("listed twice", f"the image id {number!r} is in the list before"))
        seen.add(number)
        file = locate(image.get("file_name", f"image {number}"))
        stated = whole((image.get("width"), image.get("height")))
        photos.append(photo_of(file, marked.pop(number, []), reader, stated, split, notes))
    for number, own in marked.items():  # annotations of photos that the list does not have
        notes = [("unknown photo", f"image_id {number!r} is in no list of images")]
        photos.append(photo_of(locate(f"image {number}"), own, reader, None, split, notes))
    return photos


def coco_mark(one: dict, names: dict) -> Mark:
    """COCO's annotation; a segmentation that cannot be read does not take the box along."""
    shape, odd, kind = None, None, one.get("category_id")
    try:
        shape = shape_of(one.get("segmentation"))
    except UNREADABLE as error:
        odd = ("unreadable outline", f"annotation {one.get('id')}: {error}")
    if one.get("bbox"):
        x, y, w, h = map(float, one["bbox"])
        box = [x, y, x + w, y + h]
    elif isinstance(shape, list):
        box = box_of(np.concatenate(shape))
    else:
        raise ValueError(f"annotation {one.get('id')} has no box")
    if kind not in names:
        odd = (
            "unknown class",
            f"annotation {one.get('id')}: {kind!r} is in no list of classes",
        )
    area = one.get("area")
    area = float(area) if isinstance(area, int | float) else np.nan
    return Mark(box, names.get(kind, str(kind)), shape, bool(one.get("iscrowd")), area, odd)


def shape_of(segmentation):
    """COCO's segmentation as a list of polygons, a run-length dict, or None."""
    if isinstance(segmentation, dict):
        return segmentation
    parts = [np.asarray(one, dtype=np.float64).reshape(-1, 2) for one in segmentation or []]
    return parts or None


def voc(text: str, path: Path, locate, split: str = "") -> Photo:
    """The photo of one Pascal VOC file, with the parts of objects that have a box, too."""
    if "<!ENTITY" in text or "<!DOCTYPE" in text:
        raise ValueError(
            "it declares entities, which no annotation needs and which can grow without end"
        )
    root = ElementTree.fromstring(text)
    if root.tag != "annotation":
        raise ValueError(f"its root is <{root.tag}>, and VOC's is <annotation>")
    name = (root.findtext("filename") or path.stem).strip()
    stated = whole(root.findtext(f"size/{one}") for one in ("width", "height"))
    regions = [one for one in root.iter() if one.tag in ("object", "part")]
    return photo_of(locate(name, path.stem), regions, voc_mark, stated, split)


def voc_mark(one) -> Mark:
    """VOC's object."""
    ends = (one.findtext(f"bndbox/{side}") for side in ("xmin", "ymin", "xmax", "ymax"))
    return Mark([float(end) for end in ends], (one.findtext("name") or "object").strip())


def yolo(text: str, file: Path, names: list[str], split: str = "") -> Photo:
    """The photo of one YOLO file: class, middle and sides as shares of the photo's; or a
    polygon.
    """
    size, lines = pixel_size(file), [line for line in text.splitlines() if line.strip()]
    sides, notes = np.array(size or (1, 1)), []
    if size is None and lines:
        words = "boxes are shares of a photo that cannot be opened, kept as shares"
        notes.append(("size unknown", words))

    def reader(line):
        index, *values = map(float, line.split())
        known = index.is_integer() and 0 <= index < len(names)
        label = names[int(index)] if known else f"{index:g}"
        # without a list no class is known by name, and that is told of the set, not of each
        odd = None if known or not names else ("unknown class", f"{label} in {line[:40]!r}")
        if len(values) in (4, 5):  # a fifth is a score
            x, y, w, h = values[:4]
            box, shape = np.array([x - w / 2, y - h / 2, x + w / 2, y + h / 2]), None
        else:
            shape = np.array(values).reshape(-1, 2)
            box, shape = np.array(box_of(shape)), [shape * sides]
        return Mark(box * np.tile(sides, 2), label, shape, odd=odd)

    return photo_of(file, lines, reader, None, split, notes)
