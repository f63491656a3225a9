"""A renderer of another kind for the pictures that a fit is given: a z-buffer, no softness, no
gradient.

Each pixel is cut into small ones; each of these takes the nearest triangle over it, found by
half planes and by depth.
"""

import numpy as np
import torch
from cameras import project
from meshes import complete

FINE = 4  # small pixels along a pixel's side


def render(
    vertices, faces, cameras, size: int, colours=None, fine: int = FINE
) -> tuple[torch.Tensor, torch.Tensor]:
    """(silhouettes (B, S, S) from 0 to 1, pictures (B, S, S, 3) on white), float32; arguments
    as of `soft_raster.render`. Without `colours` the mesh is grey. ValueError for sizes
    that are none, and an empty mesh.
    """
    if size < 1 or fine < 1:
        raise ValueError(f"size {size}, fine {fine}: both must be above 0")
    complete(vertices, faces, colours)
    seen = project(vertices.double(), cameras.double()).numpy()
    shades = np.full((len(vertices), 3), 0.5) if colours is None else colours.double().numpy()
    pictures = [_one(view, faces.numpy(), shades, size * fine) for view in seen]
    covered = np.stack([own[0] for own in pictures]), np.stack([own[1] for own in pictures])
    fewer = [
        one.reshape(len(seen), size, fine, size, fine, *one.shape[3:]).mean((2, 4))
        for one in covered
    ]
    return tuple(torch.from_numpy(one).float() for one in fewer)


def _one(
    seen: np.ndarray, faces: np.ndarray, shades: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """(what is covered, its colours) of one view: what lies nearest is painted last."""
    places = np.column_stack(
        [(seen[:, 0] + 1) * size / 2 - 0.5, (1 - seen[:, 1]) * size / 2 - 0.5]
    )
    corners = places[faces]
    low = np.maximum(np.ceil(corners.min(1)), 0).astype(int)
    wide = np.maximum(np.minimum(np.floor(corners.max(1)), size - 1).astype(int) - low + 1, 0)
    count = wide.prod(1)
    face = np.repeat(np.arange(len(faces)), count)
    nth = np.arange(len(face)) - np.repeat(count.cumsum() - count, count)
    x, y = low[face, 0] + nth % wide[face, 0], low[face, 1] + nth // wide[face, 0]
    shares = _shares(corners[face], x, y)
    over = (shares >= 0).all(1)  # no number, of a triangle seen from its edge, is not
    face, x, y, shares = face[over], x[over], y[over], shares[over]
    inverse = shares / seen[faces[face], 2]
    order = np.argsort(inverse.sum(1), kind="stable")
    top = np.full((size, size), -1)
    top[y[order], x[order]] = order
    covered, picture = top >= 0, np.ones((size, size, 3))
    last = top[covered]
    weights = inverse[last] / inverse[last].sum(1, keepdims=True)
    picture[covered] = (weights[..., None] * shades[faces[face[last]]]).sum(1)
    return covered.astype(float), picture


def _shares(corners: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(P, 3): the shares of the corners (P, 3, 2) in the points; one is below 0 outside."""
    (ax, ay), (bx, by), (cx, cy) = corners.transpose(1, 2, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
        u = ((bx - x) * (cy - y) - (by - y) * (cx - x)) / area
        v = ((cx - x) * (ay - y) - (cy - y) * (ax - x)) / area
    return np.stack([u, v, 1 - u - v], 1)
