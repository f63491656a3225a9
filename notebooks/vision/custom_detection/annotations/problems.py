"""`problems`: what is wrong with annotations and their photos; it reports and drops nothing."""

from collections import namedtuple

import numpy as np

from .records import FLAWS, BombError, Photo, opened

# kind: a few words; file: of the photo; index: of its object, or None; words: what was found
Problem = namedtuple("Problem", "kind file index words")


def problems(dataset: list[Photo]) -> list[Problem]:
    """Every problem of a data set, in the order of its photos; an empty list where there is
    none.
    """
    found, seen = [], {}
    for photo in dataset:
        for kind, words in photo.notes:
            found.append(Problem(kind, photo.file, None, words))
        if not any(kind == "unreadable annotation" for kind, _ in photo.notes):
            found += [Problem(kind, photo.file, None, words) for kind, words in _of_file(photo)]
            found += [
                Problem(kind, photo.file, at, words) for kind, at, words in _of_boxes(photo)
            ]
        if photo.file in seen:
            found.append(
                Problem("listed twice", photo.file, None, "the photo is in the list before")
            )
        seen[photo.file] = True
    return found


def _of_file(photo: Photo):
    """What is wrong with the file itself. The header alone is read before its size is known."""
    path = photo.file
    if not path.is_file():
        yield "missing photo", f"{path.name} is listed and not there"
        return
    if not path.stat().st_size:
        yield "empty photo", "a file of 0 bytes"
        return
    try:
        with opened(path) as shown:
            kind, (wide, high) = shown.format, shown.size
            turned = shown.getexif().get(274, 1)
            shown.load()
    except BombError as error:
        yield "decompression bomb", str(error)
        return
    except FLAWS as error:
        yield "corrupt photo", str(error)
        return
    endings = {"JPEG": (".jpg", ".jpeg"), "PNG": (".png",)}.get(kind)
    if endings and path.suffix.lower() not in endings:
        yield "wrong ending", f"{path.name} is a {kind}"
    if turned not in (0, 1):
        yield (
            "EXIF rotation",
            f"orientation tag {turned}: viewers turn this photo, most loaders do not",
        )
    if photo.stated and photo.stated != (wide, high):
        yield "other size", f"{wide} × {high} pixels, its annotation says {photo.stated}"


def _of_boxes(photo: Photo):
    """What is wrong with the boxes and the outlines."""
    x0, y0, x1, y1 = photo.boxes.T
    if not len(photo.boxes):
        yield "no objects", None, "nothing is marked: right for an empty scene, else forgotten"
    for at in np.flatnonzero(~np.isfinite(photo.boxes).all(1)):
        yield "box not finite", int(at), f"{photo.boxes[at]}"
    for at in np.flatnonzero((x1 <= x0) | (y1 <= y0)):
        yield "box without area", int(at), f"{photo.boxes[at]}"
    if size := (photo.stated or photo.size):
        wide, high = size
        out = (x0 < 0) | (y0 < 0) | (x1 > wide) | (y1 > high)
        if photo.stated and photo.size and photo.stated != photo.size:
            out &= (x1 > photo.size[0]) | (y1 > photo.size[1]) | (x0 < 0) | (y0 < 0)
        for at in np.flatnonzero(out):
            yield "box outside", int(at), f"{photo.boxes[at]} in {wide} × {high}"
    _, first = np.unique(np.round(photo.boxes, 3), axis=0, return_index=True)
    for at in sorted({*range(len(photo.boxes))} - {*first.tolist()}):
        yield "box twice", at, f"{photo.boxes[at]} is marked before"
    for at, shape in enumerate(photo.shapes):
        if isinstance(shape, list) and any(len(part) < 3 for part in shape):
            yield "polygon too short", at, "an outline needs three points"
        if isinstance(shape, dict) and photo.size and shape.get("size") != [*photo.size[::-1]]:
            yield "mask of another size", at, f"{shape.get('size')} rows and columns"
