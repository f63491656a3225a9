"""Cameras that look at the middle from all around, and where a point lies in their pictures.

A picture's corners are (-1, -1) below left and (1, 1) above right; rows of pixels count from
the top.
"""

import math

import torch

FOCUS = 1 / math.tan(math.radians(30))  # of a field of view of 60 degrees
DISTANCE = 2.7


def around(
    count: int, seed: int | None = None, elevation: tuple[float, float] = (0, 360)
) -> torch.Tensor:
    """(count, 3, 3): the cameras' axes (right, up, forward). Azimuths of -180° to 180° and
    elevations of `elevation`, both evenly spaced, as in PyTorch3D's tutorial; with a seed drawn
    instead, for views that no fit has seen.
    """
    if count < 1:
        raise ValueError(f"{count} views; at least one is needed")
    if seed is None:
        azimuth, up = torch.linspace(-180, 180, count), torch.linspace(*elevation, count)
    else:
        chance = torch.Generator().manual_seed(seed)
        azimuth = torch.rand(count, generator=chance) * 360 - 180
        up = torch.rand(count, generator=chance) * (elevation[1] - elevation[0]) + elevation[0]
    return axes(torch.deg2rad(azimuth), torch.deg2rad(up))


def axes(azimuth: torch.Tensor, elevation: torch.Tensor) -> torch.Tensor:
    """(B, 3, 3): right, up and forward of cameras at these angles in radians, which look at the
    middle.
    """
    zero = torch.zeros_like(azimuth)
    right = torch.stack([azimuth.cos(), zero, -azimuth.sin()], -1)
    forward = torch.stack(
        [-elevation.cos() * azimuth.sin(), -elevation.sin(), -elevation.cos() * azimuth.cos()],
        -1,
    )
    return torch.stack([right, torch.linalg.cross(right, forward), forward], -2)


def project(vertices: torch.Tensor, cameras: torch.Tensor) -> torch.Tensor:
    """(B, V, 3): x and y in each camera's picture, and the distance along its view. `vertices`:
    (V, 3), `cameras`: (B, 3, 3). ValueError for a vertex behind a camera, which has no place in
    its picture, for what is no finite number, and for no vertices or no cameras.
    """
    if vertices.dim() != 2 or vertices.shape[1] != 3 or not vertices.is_floating_point():
        raise ValueError(
            f"vertices are {vertices.dtype} of the shape {tuple(vertices.shape)}; "
            "floating point of (V, 3) is allowed"
        )
    if cameras.dim() != 3 or cameras.shape[1:] != (3, 3):
        raise ValueError(f"cameras have the shape {tuple(cameras.shape)}; (B, 3, 3) is allowed")
    if not len(vertices) or not len(cameras):
        raise ValueError(
            f"{len(vertices)} vertices and {len(cameras)} cameras: one of each is the least"
        )
    seen = vertices @ cameras.to(vertices).transpose(1, 2)
    depth = seen[..., 2:] + DISTANCE
    if not (depth > 0.05).all():
        if not depth.isfinite().all():
            raise ValueError("a vertex or a camera holds what is no finite number")
        raise ValueError(
            "a vertex lies behind a camera: the mesh is larger than its distance allows"
        )
    return torch.cat([FOCUS * seen[..., :2] / depth, depth], -1)


def pixels(size: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(x of each column, y of each row) at the middles of the pixels."""
    middle = (2 * torch.arange(size, device=like.device, dtype=like.dtype) + 1) / size - 1
    return middle, -middle
