"""A rasteriser with gradients, after Liu et al. (2019): every triangle counts a little beside
its edge, too.

A triangle at a squared distance d from a pixel covers it with the probability sigmoid(-d /
sigma), d below 0 inside. The silhouette is the probability that any triangle does; the colour a
mean of all of them, by probability and by depth. Only pairs of a pixel and a triangle that are
near each other are looked at: the others would count below 1e-4.
"""

import math
from collections import namedtuple

import torch
from cameras import pixels, project
from meshes import complete
from torch.nn.functional import logsigmoid

FAINT = 1e-4  # of the probability; what lies beyond is left out
NEAR, FAR = (
    1.0,
    100.0,
)  # depths between which the colours' weights fall, as in the published settings
FLAT = (
    1e-9  # of a triangle's doubled area in the picture: seen from its edge, it covers nothing
)

# `face` and `pixel` (P,): which triangle of which view meets which pixel; `most` are the
# triangles of one pixel.
Pairs = namedtuple("Pairs", "face pixel points most")


def render(
    vertices: torch.Tensor,
    faces: torch.Tensor,
    cameras: torch.Tensor,
    size: int,
    sigma: float = 1e-4,
    colours: torch.Tensor | None = None,
    gamma: float = 1e-4,
    most: int = 50,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(silhouettes (B, S, S), pictures (B, S, S, 3) on white or None): of the mesh `vertices`
    (V, 3), `faces` (F, 3) with `colours` (V, 3) at its vertices, from B cameras, S = `size`
    pixels wide. `sigma`: how soft an edge is; `gamma`: how much a nearer triangle hides;
    `most`: only the so many nearest triangles of a pixel count. ValueError for sizes that are
    none, and an empty mesh.
    """
    if size < 1 or sigma <= 0 or gamma <= 0 or most < 1:
        raise ValueError(
            f"size {size}, sigma {sigma}, gamma {gamma}, most {most}: all must be above 0"
        )
    complete(vertices, faces, colours)
    seen = project(vertices, cameras)
    corners = seen[:, faces].flatten(0, 1)  # (B·F, 3, 3)
    pairs = near_pairs(corners.detach(), len(cameras), size, sigma, most)
    own = corners[pairs.face]
    distance, inner = signed_distance(pairs.points, own[..., :2])
    count = len(cameras) * size * size
    missed = own.new_zeros(count).index_add(0, pairs.pixel, logsigmoid(distance / sigma))
    silhouettes = (1 - missed.exp()).view(-1, size, size)
    if colours is None:
        return silhouettes, None
    inverse = inner / own[..., 2]  # depth is not linear in a picture, its inverse is
    weight = inverse / inverse.sum(1, keepdim=True)
    shades = (weight[..., None] * colours[faces].repeat(len(cameras), 1, 1)[pairs.face]).sum(1)
    height = (FAR - 1 / inverse.sum(1)) / (FAR - NEAR)
    return silhouettes, _blend(
        distance / sigma, height, shades, pairs.pixel, count, gamma
    ).view(-1, size, size, 3)


def _blend(ratio, height, shades, pixel, count, gamma) -> torch.Tensor:
    """(count, 3): the mean colour of each pixel's triangles and the white behind them, by
    probability and nearness.
    """
    top = height.new_full((count,), 1e-10).scatter_reduce(0, pixel, height.detach(), "amax")
    weight = torch.sigmoid(-ratio) * ((height - top[pixel]) / gamma).exp()
    behind = ((1e-10 - top) / gamma).exp().clamp(min=1e-10)
    whole = behind.index_add(0, pixel, weight)
    return (
        behind[:, None].expand(-1, 3).index_add(0, pixel, weight[:, None] * shades)
        / whole[:, None]
    )


def near_pairs(corners: torch.Tensor, views: int, size: int, sigma: float, most: int) -> Pairs:
    """The pairs of a triangle (B·F, 3, 3) and a pixel no farther from it than a probability of
    `FAINT`.
    """
    reach = math.sqrt(sigma * math.log(1 / FAINT - 1))
    flat = corners[..., :2]
    low = (
        ((flat.amin(1) - reach + 1) * size / 2 - 0.5).ceil().long().clamp(min=0)
    )  # columns, and rows from below
    high = ((flat.amax(1) + reach + 1) * size / 2 - 0.5).floor().long().clamp(max=size - 1)
    wide = (high - low + 1).clamp(min=0)
    a, b, c = flat.unbind(1)
    wide[_cross(b - a, c - a).abs() <= FLAT] = 0
    count = wide.prod(1)
    face = torch.arange(len(corners), device=corners.device).repeat_interleave(count)
    place = torch.arange(len(face), device=corners.device) - (count.cumsum(0) - count)[face]
    column, row = low[face, 0] + place % wide[face, 0], low[face, 1] + place // wide[face, 0]
    middles, _ = pixels(size, corners)
    points = torch.stack([middles[column], middles[row]], 1)
    distance, inner = signed_distance(points, flat[face])
    keep = distance <= reach**2
    face, points = face[keep], points[keep]
    pixel = (
        (face // (len(corners) // views)) * size * size
        + (size - 1 - row[keep]) * size
        + column[keep]
    )
    return _nearest(
        Pairs(face, pixel, points, 0), (inner[keep] / corners[face, :, 2]).sum(1), most
    )


def _nearest(pairs: Pairs, inverse_depth: torch.Tensor, most: int) -> Pairs:
    """The pairs of the `most` nearest triangles of each pixel."""
    order = torch.argsort(inverse_depth, descending=True)
    order = order[torch.argsort(pairs.pixel[order], stable=True)]
    face, pixel, points = pairs.face[order], pairs.pixel[order], pairs.points[order]
    _, many = torch.unique_consecutive(pixel, return_counts=True)
    rank = torch.arange(len(pixel), device=pixel.device) - (
        many.cumsum(0) - many
    ).repeat_interleave(many)
    keep = rank < most
    return Pairs(face[keep], pixel[keep], points[keep], int(many.max()) if len(many) else 0)


def signed_distance(
    points: torch.Tensor, corners: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """(squared distance to the triangle's edge, below 0 inside (P,); weights of its corners at
    the nearest inner point, (P, 3)). `points` (P, 2), `corners` (P, 3, 2).
    """
    ahead = corners.roll(-1, 1)
    side, to_point = ahead - corners, points[:, None] - corners
    along = ((to_point * side).sum(-1) / (side * side).sum(-1).clamp(min=1e-20)).clamp(0, 1)
    squared = (to_point - along[..., None] * side).square().sum(-1).amin(1)
    turns = _cross(side, to_point)  # (P, 3): twice the areas of the point with each side
    inside = (turns > 0).all(1) | (turns < 0).all(1)
    weights = (turns / turns.sum(1, keepdim=True)).roll(-1, 1).clamp(min=0)
    return torch.where(inside, -squared, squared), weights / weights.sum(1, keepdim=True)


def _cross(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def silhouette_reference(vertices, faces, cameras, size: int, sigma: float) -> torch.Tensor:
    """(B, S, S): the silhouettes by the plainest loop, every triangle for every pixel; slow,
    float64.
    """
    seen = project(vertices.double(), cameras.double())
    across, down = pixels(size, seen)
    whole = torch.ones(len(cameras), size, size, dtype=torch.float64)
    for view, corners in enumerate(seen[:, faces, :2]):
        for row in range(size):
            for column in range(size):
                point = torch.stack([across[column], down[row]]).expand(len(faces), 2)
                distance, _ = signed_distance(point, corners)
                whole[view, row, column] = (1 - torch.sigmoid(-distance / sigma)).prod()
    return 1 - whole
