"""Flip, turn, crop and scale a photo *with* what is marked in it: one affine map moves pixels,
boxes, outlines and masks alike, so they cannot come apart.

A map is a (2, 3) matrix from old to new pixels. Under a turn by a right angle, a flip, a crop
or a change of scale a box stays exact. Under any other angle a box is not a box any more: what
comes is the box around its outline where there is one, else the box around its four turned
corners, which is larger than the object.
"""

import math

import torch
import torch.nn.functional as F  # noqa: N812


def matrix(size, flip=False, turn=0.0, scale=1.0, crop=(0.0, 0.0)) -> torch.Tensor:
    """The (2, 3) map of a (width, height) photo: flipped left to right, turned by degrees
    against the clock about its middle, scaled, then moved so that the turned photo's corner
    less `crop` is the origin.
    """
    wide, high = size
    angle = math.radians(turn)
    cos, sin = round(math.cos(angle), 12), round(math.sin(angle), 12)
    linear = torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64) * scale
    if flip:
        linear = linear @ torch.tensor([[-1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    corners = torch.tensor([[0, 0], [wide, 0], [0, high], [wide, high]], dtype=torch.float64)
    least = (corners @ linear.T).amin(0)
    move = -least - torch.tensor(crop, dtype=torch.float64)
    return torch.cat([linear, move[:, None]], 1)


def turned_size(size, turn=0.0, scale=1.0) -> tuple[int, int]:
    """(width, height) of the canvas that holds the turned photo."""
    wide, high = size
    angle = math.radians(turn)
    cos, sin = abs(math.cos(angle)), abs(math.sin(angle))
    sides = (wide * cos + high * sin, wide * sin + high * cos)
    return tuple(max(1, math.ceil(scale * side - 1e-6)) for side in sides)


def points(found, moved) -> torch.Tensor:
    """(K, 2) points where the map puts them."""
    found = torch.as_tensor(found, dtype=torch.float64)
    return found @ moved[:, :2].T + moved[:, 2]


def boxes(found, moved, shapes=None) -> torch.Tensor:
    """(N, 4) boxes where the map puts them, from their outlines where `shapes` has them."""
    found = torch.as_tensor(found, dtype=torch.float64).reshape(-1, 4)
    corners = points(found[:, [0, 1, 2, 1, 0, 3, 2, 3]].reshape(-1, 2), moved).view(-1, 4, 2)
    made = torch.cat([corners.amin(1), corners.amax(1)], 1)
    for at, shape in enumerate(shapes or []):
        if isinstance(shape, list):
            outline = points(torch.cat([torch.as_tensor(part) for part in shape]), moved)
            made[at] = torch.cat([outline.amin(0), outline.amax(0)])
    return made


def pixels(photo, moved, size, mode="bilinear", fill=0.0) -> torch.Tensor:
    """A (C, H, W) photo of floats on a (width, height) canvas; `mode="nearest"` for masks."""
    wide, high = size
    linear, move = moved[:, :2], moved[:, 2]
    back = torch.linalg.inv(linear)
    y, x = torch.meshgrid(torch.arange(high) + 0.5, torch.arange(wide) + 0.5, indexing="ij")
    source = (torch.stack([x, y], 2).double() - move) @ back.T
    grid = 2 * source / torch.tensor([photo.shape[2], photo.shape[1]]) - 1
    inside = (grid.abs() <= 1).all(2)
    read = F.grid_sample(
        photo[None],
        grid[None].to(photo.dtype),
        mode,
        padding_mode="border",
        align_corners=False,
    )[0]
    return torch.where(inside, read, torch.as_tensor(fill, dtype=photo.dtype))


def clipped(found, size, least: float = 0.3):
    """(boxes cut to the canvas, which of them keep at least this share of their area)."""
    limit = torch.tensor([*size, *size], dtype=torch.float64)
    cut = torch.minimum(found.clamp(min=0), limit)
    area, whole = ((one[:, 2:] - one[:, :2]).clamp(min=0).prod(1) for one in (cut, found))
    return cut, (area > 0) & (area >= least * whole)


def drawn(photo, marked, labels, side: int, generator, scales=(0.8, 1.25)):
    """A random crop of (side, side) pixels with its boxes and labels: scaled, flipped,
    turned by a right angle.
    """
    draw = torch.rand(5, generator=generator).tolist()
    size = (photo.shape[2], photo.shape[1])
    scale = scales[0] * (scales[1] / scales[0]) ** draw[0]
    turn = 90.0 * int(4 * draw[1])
    room = [extent - side for extent in turned_size(size, turn, scale)]
    crop = [share * extent for share, extent in zip(draw[2:4], room, strict=True)]
    moved = matrix(size, draw[4] < 0.5, turn, scale, crop)
    made = pixels(photo, moved, (side, side), fill=0.8)
    cut, kept = clipped(boxes(marked, moved), (side, side))
    return made, cut[kept].float(), labels[kept]
