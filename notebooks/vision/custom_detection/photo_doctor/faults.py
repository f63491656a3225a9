"""The faults that people bring with their own photos, each planted on purpose.

A fault takes annotated photos and a folder, writes what it changes there, and gives the photos
back as a careless pipeline would have them. What the annotation said stays in the frame in
which a person saw the photo.
"""

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from .profiles import from_srgb

ORIENTATION = 274  # EXIF's tag
TURNS = {
    3: 180,
    6: 90,
    8: 270,
}  # tag to degrees against the clock in which the pixels are stored


def rotated(photos, folder, seed=0):
    """The camera was held sideways: pixels stored turned, a tag that says so, boxes as a
    viewer shows the photo.
    """
    draw, made = np.random.default_rng(seed), []
    for one in photos:
        tag = int(draw.choice([*TURNS]))
        with Image.open(one.file) as opened:
            shown = opened.convert("RGB")
        exif = Image.Exif()
        exif[ORIENTATION] = tag
        stored = shown.rotate(TURNS[tag], expand=True)
        file = _saved(stored, folder, one, exif=exif)
        made.append(one.but(file=file, size=stored.size, stated=None))
    return made


def rescaled(photos, folder, seed=0, factor=0.5):
    """The boxes were drawn on a copy of another size."""
    return [one.moved(factor).but(stated=None) for one in photos]


def shifted(photos, folder, seed=0, by=(30.0, 20.0)):
    """The photos were cropped after the boxes had been drawn: each is off by as much."""
    return [one.moved(by=by) for one in photos]


def relabelled(photos, folder, seed=0):
    """One tool counts classes from 0, another from 1: each class has its neighbour's name."""
    names = sorted({label for one in photos for label in one.labels})
    after = dict(zip(names, names[1:] + names[:1], strict=True))
    return [one.but(labels=[after[label] for label in one.labels]) for one in photos]


def small(photos, folder, seed=0, grid=3):
    """A wider view: `grid` × `grid` photos in one, which is then resized as ever."""
    order = np.random.default_rng(seed).permutation(len(photos))
    made = []
    for start in range(0, len(order) - grid**2 + 1, grid**2):
        chosen = [photos[at] for at in order[start : start + grid**2]]
        wide, high = np.max([one.size for one in chosen], 0).tolist()
        canvas, boxes, labels = Image.new("RGB", (grid * wide, grid * high), "white"), [], []
        for at, one in enumerate(chosen):
            corner = (at % grid * wide, at // grid * high)
            with Image.open(one.file) as opened:
                canvas.paste(opened.convert("RGB"), corner)
            boxes.append(one.boxes + np.array([*corner, *corner]))
            labels += one.labels
        file = _saved(canvas, folder, chosen[0])
        made.append(
            chosen[0].but(
                file=file,
                size=canvas.size,
                boxes=np.concatenate(boxes),
                labels=labels,
                shapes=[],
                crowd=None,
                areas=None,
                stated=None,
            )
        )
    return made


def larger(photos, folder, seed=0, factor=2):
    """More megapixels of the same view, boxes with them."""
    made = []
    for one in photos:
        with Image.open(one.file) as opened:
            size = tuple(factor * side for side in opened.size)
            grown = opened.convert("RGB").resize(size, Image.Resampling.BICUBIC)
        made.append(
            one.moved(factor).but(file=_saved(grown, folder, one), size=size, stated=None)
        )
    return made


def squeezed(photos, folder, seed=0, quality=4):
    """A lossless photo became a JPEG of a low quality."""
    return [
        _changed(one, folder, lambda shown: shown, quality=quality, subsampling=2)
        for one in photos
    ]


def blurred(photos, folder, seed=0, sigma=14.0):
    """Out of focus, or moved."""
    return [
        _changed(one, folder, lambda shown: shown.filter(ImageFilter.GaussianBlur(sigma)))
        for one in photos
    ]


def profiled(photos, folder, seed=0):
    """The bytes are those of a wide colour space, and a profile in the file says so."""
    made = []
    for one in photos:
        with Image.open(one.file) as opened:
            shown, profile = from_srgb(opened.convert("RGB"))
        made.append(one.but(file=_saved(shown, folder, one, icc_profile=profile)))
    return made


def duplicated(photos, folder, seed=0, of=()):
    """Photos of `of`, a little brighter, cropped and saved anew, take the place of as many."""
    kept = np.random.default_rng(seed).permutation(len(photos))[: max(0, len(photos) - len(of))]
    made = [photos[at] for at in sorted(kept.tolist())]
    for one in list(of)[: len(photos)]:
        with Image.open(one.file) as opened:
            shown = (
                opened.convert("RGB")
                .crop((4, 3, *opened.size))
                .point(lambda value: min(255, value + 6))
            )
        file = _saved(shown, folder, one, quality=80)
        moved = one.moved(by=(-4, -3))
        boxes = np.clip(moved.boxes, 0, None)
        made.append(moved.but(file=file, size=shown.size, boxes=boxes, stated=None))
    return made


EACH = (rotated, rescaled, shifted, relabelled, small, larger, squeezed, blurred, profiled)
FAULTS = {one.__name__: one for one in (*EACH, duplicated)}


def planted(name: str, photos, folder, seed=0, more=None):
    """Photos with the faults of a name such as "rotated_profiled", in their order; `more` is
    for `duplicated`.
    """
    for each in name.split("_"):
        extra = more or {} if each == "duplicated" else {}
        photos = FAULTS[each](photos, Path(folder) / each, seed, **extra)
    return photos


def _changed(one, folder, change, **how):
    with Image.open(one.file) as opened:
        return one.but(file=_saved(change(opened.convert("RGB")), folder, one, **how))


def _saved(shown, folder, one, quality=95, **how) -> Path:
    """The path of a JPEG, written beside others of its fault, with the tag and the profile of
    the photo that it was made of.
    """
    file = Path(folder) / f"{Path(one.file).stem}.jpg"
    file.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(one.file) as before, io.BytesIO() as made:
        kept = {"exif": before.getexif(), "icc_profile": before.info.get("icc_profile")}
        shown.save(made, "JPEG", quality=quality, **({"subsampling": 0} | kept | how))
        file.write_bytes(made.getvalue())
    return file
