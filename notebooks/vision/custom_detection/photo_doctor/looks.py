"""What a photo's file tells without a network: its tag, profile, compression, sharpness, and
how it looks in little.
"""

import functools
import io
from dataclasses import dataclass
from pathlib import Path

import annotations
import numpy as np
from PIL import Image

from .profiles import plain

THUMB = (24, 18)
SHARP = 256  # pixels of the longer side at which sharpness is read


@dataclass(frozen=True, eq=False)
class Look:
    """pixels: of the photo. tag: EXIF's orientation. wide: a colour profile other than sRGB's.
    quality: of a JPEG, 1 to 100, else 100. sharpness: how strongly neighbouring pixels differ,
    against the photo's own contrast. thumb: 24 × 18 grey values, mean 0 and length 1.
    """

    pixels: int
    tag: int
    wide: bool
    quality: float
    sharpness: float
    thumb: np.ndarray


def look(file) -> Look:
    """The `Look` of a photo's file, remembered until the file is changed."""
    state = Path(file).stat()
    return _look(file, state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=4096)
def _look(file, *_) -> Look:
    with annotations.opened(file) as opened:
        size, tag = opened.size, int(opened.getexif().get(274, 1))
        wide = not plain(opened.info.get("icc_profile"))
        quality = jpeg_quality(getattr(opened, "quantization", None))
        grey = opened.convert("L")
    scale = SHARP / max(size)
    even = grey.resize((round(size[0] * scale), round(size[1] * scale)), Image.Resampling.BOX)
    thumb = np.asarray(grey.resize(THUMB, Image.Resampling.BOX), dtype=np.float64).ravel()
    thumb -= thumb.mean()
    thumb /= np.linalg.norm(thumb) or 1.0
    return Look(
        size[0] * size[1],
        tag,
        wide,
        quality,
        sharpness(np.asarray(even, dtype=np.float64)),
        thumb,
    )


def sharpness(grey: np.ndarray) -> float:
    """The spread of the Laplacian over that of the photo."""
    middle = grey[1:-1, 1:-1]
    around = grey[:-2, 1:-1] + grey[2:, 1:-1] + grey[1:-1, :-2] + grey[1:-1, 2:]
    return float((around - 4 * middle).std() / (grey.std() or 1.0))


@functools.cache
def _standard() -> float:
    """The sum of the brightness table at quality 50, which is that of the standard itself."""
    with io.BytesIO() as kept:
        Image.new("L", (8, 8)).save(kept, "JPEG", quality=50)
        return float(sum(Image.open(kept).quantization[0]))


def jpeg_quality(tables) -> float:
    """The quality that gives a quantisation table, by libjpeg's rule; 100 where there is
    none.
    """
    if not tables:
        return 100.0
    percent = 100 * sum(tables[0]) / _standard()
    return float(np.clip((200 - percent) / 2 if percent < 100 else 5000 / percent, 1, 100))


def twins(photos, others, alike: float) -> list[tuple[int, int, float]]:
    """(place in `photos`, in `others`, likeness) of the pairs that look alike in little,
    turned or flipped, too.
    """
    if not photos or not others:
        return []
    grids = np.stack([look(one.file).thumb.reshape(THUMB[::-1]) for one in photos])
    flat = np.stack([look(one.file).thumb for one in others])
    best = np.full((len(photos), len(others)), -1.0)
    for flipped in (grids, grids[:, ::-1], grids[:, :, ::-1], grids[:, ::-1, ::-1]):
        best = np.maximum(best, flipped.reshape(len(photos), -1) @ flat.T)
    return [
        (int(a), int(b), float(best[a, b]))
        for a, b in zip(*np.nonzero(best >= alike), strict=True)
    ]
