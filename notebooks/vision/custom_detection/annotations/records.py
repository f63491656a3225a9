"""A photo with its annotation, in one form for all formats.

Legend: N objects of a photo.
"""

import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from PIL import Image

MOST_PIXELS = 100_000_000  # of one photo: 300 MB once it is decoded
FLAWS = (OSError, SyntaxError, ValueError)  # of files that are no photo


@dataclass(eq=False)
class Photo:
    """A photo and what is marked in it.

    file: where it should lie. size: (width, height) in pixels as its file says, before any EXIF
    rotation; where there is none as the annotation says, else None. boxes: (N, 4) float64, x0,
    y0, x1, y1 in pixels of the annotation, as written there. labels: N texts. shapes: for each
    object a list of (K, 2) polygons, a run-length dict of COCO, or None. crowd: N truth values,
    COCO's `iscrowd`. areas: (N,) COCO's `area`, NaN where none is told. split: the name of its
    list, such as "train". stated: the size in the annotation. notes: what could not be read, as
    pairs (kind, words).
    """

    file: Path
    size: tuple[int, int] | None = None
    boxes: np.ndarray = field(default_factory=lambda: np.zeros((0, 4)))
    labels: list[str] = field(default_factory=list)
    shapes: list = field(default_factory=list)
    crowd: np.ndarray | None = None
    areas: np.ndarray | None = None
    split: str = ""
    stated: tuple[int, int] | None = None
    notes: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self):
        self.boxes = np.asarray(self.boxes, dtype=np.float64).reshape(-1, 4)
        self.labels = list(self.labels)
        self.shapes = list(self.shapes) or [None] * len(self.boxes)
        none = np.zeros(len(self.boxes))
        for name, kind, missing in (
            ("crowd", bool, none),
            ("areas", np.float64, none + np.nan),
        ):
            given = getattr(self, name)
            given = missing if given is None or not len(given) else given
            setattr(self, name, np.asarray(given, dtype=kind))
        parts = ("boxes", "labels", "shapes", "crowd", "areas")
        counts = {name: len(getattr(self, name)) for name in parts}
        if len({*counts.values()}) > 1:
            raise ValueError(f"{self.file}: {counts}; as many of each are needed")

    def but(self, **changes) -> "Photo":
        """A copy with some fields changed."""
        return replace(self, **changes)

    def moved(self, scale: float = 1.0, by=(0.0, 0.0)) -> "Photo":
        """A copy whose boxes and outlines are scaled, then moved by pixels; a run-length mask,
        which cannot be, goes.
        """
        by, shapes = np.asarray(by, dtype=np.float64), []
        for one in self.shapes:
            shapes.append(
                [part * scale + by for part in one] if isinstance(one, list) else None
            )
        boxes = self.boxes * scale + np.tile(by, 2)
        return self.but(boxes=boxes, shapes=shapes, areas=self.areas * scale**2)

    def __repr__(self):
        size = "size unknown" if self.size is None else f"{self.size[0]} × {self.size[1]}"
        return f"Photo({Path(self.file).name}, {size}, {len(self.boxes)} boxes)"


@contextmanager
def opened(path):
    """The photo of a file, its header read; ValueError where that claims more than
    `MOST_PIXELS`, of which then none is decoded.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a doubtful header is told by `problems`
        try:
            with Image.open(path) as photo:
                wide, high = photo.size
                if wide * high > MOST_PIXELS:
                    raise Image.DecompressionBombError(f"{wide} × {high} pixels")
                yield photo
        except Image.DecompressionBombError as error:
            size = f"{Path(path).stat().st_size:,} bytes"
            raise BombError(f"{Path(path).name} of {size}: {error}") from None


class BombError(ValueError):
    """A small file that claims more pixels than a memory holds."""


def pixel_size(path: Path) -> tuple[int, int] | None:
    """(width, height) from a file's header; None where it is missing, no picture or a bomb."""
    try:
        with opened(path) as photo:
            return photo.size
    except FLAWS:
        return None


def box_of(points) -> list[float]:
    """The box around (K, 2) points."""
    points = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    return [*points.min(0), *points.max(0)]
