"""Each format's annotation as `Photo`s: VIA (old and new), COCO, Pascal VOC, YOLO.

A parser gets what a file holds and a function that finds photos by name. It keeps every object,
also one whose box has no area; what it cannot make a box of becomes a note of its photo. Boxes
are as written: VOC's corners are not moved by one, since tools disagree on whether they count
from 1.
"""

import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path

import numpy as np

from .records import Photo, box_of, pixel_size


def via(found: dict, locate, split: str = "") -> list[Photo]:
    """Photos of a VGG Image Annotator file: `regions` a dict (old form) or a list (new
    form).
    """
    photos = []
    entries = found.get("_via_img_metadata", found)
    for entry in entries.values():
        regions = entry.get("regions") or {}
        regions = regions.values() if isinstance(regions, dict) else regions
        boxes, labels, shapes, notes = [], [], [], []
        for at, region in enumerate(regions):
            try:
                outline = outline_of(region["shape_attributes"])
                boxes.append(box_of(outline))
            except (KeyError, ValueError, TypeError) as error:
                notes.append(
                    ("unreadable region", f"region {at}: {error or type(error).__name__}")
                )
                continue
            labels.append(label_of(region.get("region_attributes") or {}))
            shapes.append([outline])
        file = locate(entry["filename"])
        photos.append(
            Photo(file, pixel_size(file), boxes, labels, shapes, None, split, None, notes)
        )
    return photos


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
        rx, ry = (float(shape.get(one, shape.get("r", 0))) for one in ("rx", "ry"))
        turn = np.linspace(0, 2 * np.pi, 64, endpoint=False)
        around = np.stack([rx * np.cos(turn), ry * np.sin(turn)], 1)
        cos, sin = np.cos(shape.get("theta", 0)), np.sin(shape.get("theta", 0))
        return around @ np.array([[cos, sin], [-sin, cos]]) + [shape["cx"], shape["cy"]]
    raise ValueError(f"the shape {kind!r} has no box")


def label_of(attributes: dict) -> str:
    """The label among VIA's free attributes: the first that is a text; "object" where none
    is.
    """
    for value in attributes.values():
        if isinstance(value, dict):  # a checkbox: {"balloon": true}
            value = next((name for name, on in value.items() if on), "")
        if str(value).strip():
            return str(value).strip()
    return "object"


def coco(found: dict, locate, split: str = "") -> list[Photo]:
    """Photos of a COCO file: boxes x, y, width, height become corners."""
    names = {one["id"]: one["name"] for one in found.get("categories", [])}
    marked = defaultdict(list)
    for one in found.get("annotations", []):
        marked[one["image_id"]].append(one)
    photos = []
    for image in found["images"]:
        file, own, notes = locate(image["file_name"]), marked.pop(image["id"], []), []
        stated = (
            tuple(int(image[one]) for one in ("width", "height")) if "width" in image else None
        )
        boxes, kept, shapes = [], [], []
        for one in own:
            shape = shape_of(one.get("segmentation"))
            if one.get("bbox") is None and not isinstance(shape, list):
                notes.append(("unreadable region", f"annotation {one.get('id')} has no box"))
                continue
            x, y, w, h = one.get("bbox") or (0, 0, 0, 0)
            boxes.append(
                [x, y, x + w, y + h] if one.get("bbox") else box_of(np.concatenate(shape))
            )
            kept.append(one)
            shapes.append(shape)
        labels = [names.get(one["category_id"], str(one["category_id"])) for one in kept]
        crowd = np.array([bool(one.get("iscrowd")) for one in kept], dtype=bool)
        size = pixel_size(file) or stated
        photos.append(Photo(file, size, boxes, labels, shapes, crowd, split, stated, notes))
    for image_id, own in marked.items():  # annotations of photos that the list does not have
        boxes = [[x, y, x + w, y + h] for x, y, w, h in (one["bbox"] for one in own)]
        labels = [names.get(one["category_id"], str(one["category_id"])) for one in own]
        notes = [("unknown photo", f"image_id {image_id} is in no list of images")]
        photos.append(
            Photo(locate(f"image {image_id}"), None, boxes, labels, notes=notes, split=split)
        )
    return photos


def shape_of(segmentation):
    """COCO's segmentation as a list of polygons, a run-length dict, or None."""
    if isinstance(segmentation, dict):
        return segmentation
    parts = [np.asarray(one, dtype=np.float64).reshape(-1, 2) for one in segmentation or []]
    return parts or None


def voc(text: str, path: Path, locate, split: str = "") -> Photo:
    """The photo of one Pascal VOC file."""
    if "<!ENTITY" in text or "<!DOCTYPE" in text:
        raise ValueError(
            "it declares entities, which no annotation needs and which can grow without end"
        )
    root = ElementTree.fromstring(text)
    if root.tag != "annotation":
        raise ValueError(f"its root is <{root.tag}>, and VOC's is <annotation>")
    name = (root.findtext("filename") or path.stem).strip()
    notes, boxes, labels = [], [], []
    sides = [root.findtext(f"size/{one}") for one in ("width", "height")]
    stated = tuple(int(float(one)) for one in sides) if all(sides) else None
    for at, one in enumerate(root.iter("object")):
        try:
            corners = [
                float(one.findtext(f"bndbox/{side}"))
                for side in ("xmin", "ymin", "xmax", "ymax")
            ]
        except (TypeError, ValueError):
            notes.append(("unreadable region", f"object {at} has no box"))
            continue
        boxes.append(corners)
        labels.append((one.findtext("name") or "object").strip())
    file = locate(name, path.stem)
    size = pixel_size(file) or stated
    return Photo(file, size, boxes, labels, split=split, stated=stated, notes=notes)


def yolo(text: str, file: Path, names: list[str], split: str = "") -> Photo:
    """The photo of one YOLO file: class, middle and sides as shares of the photo's; or a
    polygon.
    """
    size, boxes, labels, shapes, notes = pixel_size(file), [], [], [], []
    wide, high = size or (1, 1)
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            index, *values = (float(one) for one in line.split())
            if len(values) in (4, 5):  # a fifth is a score
                x, y, w, h = values[:4]
                box, shape = [x - w / 2, y - h / 2, x + w / 2, y + h / 2], None
            else:
                shape = np.array(values).reshape(-1, 2)
                box = box_of(shape)
                shape = [shape * [wide, high]]
        except ValueError:
            notes.append(
                ("unreadable region", f"line {number}: {line[:40]!r} is no class and box")
            )
            continue
        boxes.append(np.array(box) * [wide, high, wide, high])
        known = index.is_integer() and 0 <= index < len(names)
        labels.append(names[int(index)] if known else f"{index:g}")
        shapes.append(shape)
    if size is None and boxes:
        notes.append(
            (
                "size unknown",
                "boxes are shares of a photo that cannot be opened, kept as shares",
            )
        )
    return Photo(file, size, boxes, labels, shapes, None, split, None, notes)
