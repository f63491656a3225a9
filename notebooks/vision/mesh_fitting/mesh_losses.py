"""What a fit is judged and held together by: distances between surfaces, overlap of
silhouettes, and four regularisers.

Every function gives one number, whose gradient reaches the vertices.
"""

import torch
from torch.nn.functional import cosine_similarity

NEAREST = 2048  # points whose distances to all others are in memory at once


def chamfer(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The mean squared distance from each point of `a` to the nearest of `b`, plus that from
    `b` to `a`; of batches the mean over them. Points (N, 3) and (M, 3), or (B, N, 3) and (B, M,
    3). ValueError for anything else, or no points.
    """
    if (
        a.dim() not in (2, 3)
        or a.dim() != b.dim()
        or a.shape[-1] != 3
        or b.shape[-1] != 3
        or a.shape[:-2] != b.shape[:-2]
    ):
        raise ValueError(
            f"points have the shapes {tuple(a.shape)} and {tuple(b.shape)}; "
            "(N, 3) or (B, N, 3) is allowed"
        )
    if not a.numel() or not b.numel():
        raise ValueError("no points: the distance to a surface without points is not defined")
    pairs = [(a, b)] if a.dim() == 2 else list(zip(a, b, strict=True))
    return torch.stack(
        [_one_way(one, other) + _one_way(other, one) for one, other in pairs]
    ).mean()


def _one_way(points: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        exact = {"compute_mode": "donot_use_mm_for_euclid_dist"}
        nearest = torch.cat(
            [torch.cdist(part, others, **exact).argmin(1) for part in points.split(NEAREST)]
        )
    return (points - others[nearest]).square().sum(1).mean()


def laplacian(vertices: torch.Tensor, faces: torch.Tensor) -> torch.Tensor:
    """The mean length of the uniform Laplacian: how far each vertex lies from the middle of its
    neighbours. ValueError for a mesh without triangles.
    """
    _some(faces, "triangles")
    sides = faces[:, [[0, 1], [1, 2], [2, 0]]].sort(dim=2).values.reshape(-1, 2).unique(dim=0)
    both = torch.cat([sides, sides.flip(1)])
    count = vertices.new_zeros(len(vertices), 1).index_add(
        0, both[:, 0], vertices.new_ones(len(both), 1)
    )
    middle = torch.zeros_like(vertices).index_add(
        0, both[:, 0], vertices[both[:, 1]]
    ) / count.clamp(min=1)
    return torch.linalg.vector_norm(middle - vertices, dim=1).mean()


def _some(rows: torch.Tensor, name: str) -> None:
    if not len(rows):
        raise ValueError(f"no {name}: a mean over none of them is not defined")


def edge_length(vertices: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """The mean squared length of the edges (E, 2); ValueError for none."""
    _some(edges, "edges")
    return (vertices[edges[:, 0]] - vertices[edges[:, 1]]).square().sum(1).mean()


def normal_consistency(
    vertices: torch.Tensor, faces: torch.Tensor, neighbours: torch.Tensor
) -> torch.Tensor:
    """The mean of 1 − cos of the angle between the normals of `neighbours` (E, 2): 0 for a
    plane, up to 2 for a fold; ValueError for none.
    """
    _some(neighbours, "neighbours")
    a, b, c = vertices[faces].unbind(1)
    normals = torch.linalg.cross(b - a, c - a)
    return (1 - cosine_similarity(normals[neighbours[:, 0]], normals[neighbours[:, 1]])).mean()


def iou(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The mean overlap of silhouettes (B, S, S) over their union, each pixel in or out at one
    half; 1 for two empty. ValueError for other shapes, no views, or what is no finite number.
    """
    if one.shape != other.shape or not one.numel():
        raise ValueError(
            f"silhouettes have the shapes {tuple(one.shape)} and {tuple(other.shape)}; two "
            "alike, (B, S, S), are allowed, B and S at least 1"
        )
    if not (one.isfinite() & other.isfinite()).all():
        raise ValueError("a silhouette holds what is no finite number")
    one, other = one > 0.5, other > 0.5
    both, either = (one & other).sum((-2, -1)), (one | other).sum((-2, -1))
    return torch.where(
        either > 0, both / either.clamp(min=1), torch.ones_like(both, dtype=torch.float32)
    ).mean()
