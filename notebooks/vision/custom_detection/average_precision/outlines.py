"""Masks from outlines and run lengths, as COCO's tools make them.

COCO's rule for a polygon: its outline is walked in steps of a fifth of a pixel, the places
where it crosses a column are kept, and a column's pixels are in or out in turn from crossing to
crossing. So neither a scan line nor Pillow gives the same pixels at the rim, and an AP of masks
that is to be equal needs this rule. Run lengths count down the columns, first those outside.
"""

import numpy as np

FINE = 5  # steps of a pixel along an outline


def mask_of(shape, size) -> np.ndarray:
    """The (H, W) mask of a list of polygons, of a run-length dict, or of nothing, in a
    (width, height) photo.
    """
    wide, high = size
    if isinstance(shape, dict):
        counts, (rows, columns) = shape["counts"], shape["size"]
        counts = _unpacked(counts) if isinstance(counts, str | bytes) else counts
        return _from_runs(counts, rows, columns)
    found = np.zeros((high, wide), dtype=bool)
    for part in shape or []:
        found |= polygon_mask(part, size)
    return found


def polygon_mask(outline, size) -> np.ndarray:
    """The (H, W) mask of a (K, 2) outline."""
    wide, high = size
    corners = np.asarray(outline, dtype=np.float64).reshape(-1, 2)
    if not len(corners):
        return np.zeros((high, wide), dtype=bool)
    corners = np.trunc(FINE * corners + 0.5).astype(np.int64)
    walk = [_edge(a, b) for a, b in zip(corners, np.roll(corners, -1, 0), strict=True)]
    u, v = np.concatenate(walk).T
    step = np.flatnonzero(u[1:] != u[:-1]) + 1
    column = (np.where(u[step] < u[step - 1], u[step], u[step] - 1) + 0.5) / FINE - 0.5
    row = np.minimum(v[step], v[step - 1])
    row = np.ceil(np.clip((row + 0.5) / FINE - 0.5, 0, high)).astype(np.int64)
    kept = (np.floor(column) == column) & (column >= 0) & (column <= wide - 1)
    crossings = np.bincount(
        (column[kept] * high + row[kept]).astype(np.int64), minlength=high * wide
    )
    inside = np.cumsum(crossings[: high * wide]) % 2 == 1
    return inside.reshape(wide, high).T


def _edge(a, b):
    """(L, 2) whole points from one corner to the next, along its longer direction."""
    (dx, dy), steep = np.abs(b - a), 0
    if dx < dy:
        steep = 1
    flipped = a[steep] > b[steep]
    start, end = (b, a) if flipped else (a, b)
    length = max(dx, dy)
    along = np.arange(length + 1)
    slope = (end[1 - steep] - start[1 - steep]) / length if length else 0.0
    other = np.trunc(start[1 - steep] + slope * along + 0.5).astype(np.int64)
    walk = [start[steep] + along, other]
    found = np.stack(walk[::-1] if steep else walk, 1)
    return found[::-1] if flipped else found


def run_lengths(mask) -> dict:
    """COCO's uncompressed run lengths of an (H, W) mask."""
    mask = np.asarray(mask, dtype=bool)
    flat = np.concatenate([[False], mask.T.ravel()])
    ends = np.flatnonzero(flat[1:] != flat[:-1])
    counts = np.diff(np.concatenate([[0], ends, [mask.size]]))
    return {"size": list(mask.shape), "counts": counts.tolist()}


def _from_runs(counts, rows: int, columns: int) -> np.ndarray:
    if sum(counts) != rows * columns or min(counts, default=0) < 0:
        raise ValueError(
            f"run lengths that sum to {sum(counts)} came; {rows} × {columns} pixels are needed"
        )
    inside = np.arange(len(counts)) % 2 == 1
    return np.repeat(inside, counts).reshape(columns, rows).T


def _unpacked(text) -> list[int]:
    """The counts of COCO's compressed run lengths: five bits a character, differences from
    the third on.
    """
    raw = text.encode("ascii") if isinstance(text, str) else text
    counts, at = [], 0
    while at < len(raw):
        value, shift, more = 0, 0, True
        while more:
            if at >= len(raw) or not 48 <= raw[at] < 48 + 64:
                raise ValueError(
                    f"the run lengths {raw[:20]!r} end too early or hold what none has"
                )
            byte = raw[at] - 48
            value |= (byte & 31) << shift
            more, shift, at = bool(byte & 32), shift + 5, at + 1
            if not more and byte & 16:
                value |= -1 << shift
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
    return counts
