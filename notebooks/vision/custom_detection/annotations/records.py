"""A photo with its annotation, in one form for all formats.

Legend: N objects of a photo.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from PIL import Image

FLAWS = (
    OSError,
    SyntaxError,
    ValueError,
    Image.DecompressionBombError,
)  # of files that are no photo


@dataclass(eq=False)
class Photo:
    """A photo and what is marked in it.

    file: where it should lie. size: (width, height) in pixels as its file says, before any EXIF
    rotation; where there is none as the annotation says, else None. boxes: (N, 4) float64, x0,
    y0, x1, y1 in pixels of the annotation, as written there. labels: N texts. shapes: for each
    object a list of (K, 2) polygons, a run-length dict of COCO, or None. crowd: N truth values,
    COCO's `iscrowd`. split: the name of its list, such as "train". stated: the size in the
    annotation. notes: what could not be read, as pairs (kind, words).
    """

    file: Path
    size: tuple[int, int] | None = None
    boxes: np.ndarray = field(default_factory=lambda: np.zeros((0, 4)))
    labels: list[str] = field(default_factory=list)
    shapes: list = field(default_factory=list)
    crowd: np.ndarray | None = None
    split: str = ""
    stated: tuple[int, int] | None = None
    notes: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self):
        self.boxes = np.asarray(self.boxes, dtype=np.float64).reshape(-1, 4)
        self.labels = list(self.labels)
        self.shapes = list(self.shapes) or [None] * len(self.boxes)
        if self.crowd is None:
            self.crowd = np.zeros(len(self.boxes), dtype=bool)
        if not len(self.boxes) == len(self.labels) == len(self.shapes) == len(self.crowd):
            counts = (
                f"{len(self.boxes)} boxes, {len(self.labels)} labels, {len(self.shapes)} shapes"
            )
            raise ValueError(
                f"{self.file}: {counts}, {len(self.crowd)} crowd; one each is needed"
            )

    def but(self, **changes) -> "Photo":
        """A copy with some fields changed."""
        return replace(self, **changes)

    def __repr__(self):
        size = "size unknown" if self.size is None else f"{self.size[0]} × {self.size[1]}"
        return f"Photo({Path(self.file).name}, {size}, {len(self.boxes)} boxes)"


def pixel_size(path: Path) -> tuple[int, int] | None:
    """(width, height) from a file's header; None where it is missing or no picture."""
    try:
        with Image.open(path) as opened:
            return opened.size
    except FLAWS:
        return None


def box_of(points) -> list[float]:
    """The box around (K, 2) points."""
    points = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    return [*points.min(0), *points.max(0)]
