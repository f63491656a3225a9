"""Silhouettes of a mesh with their gradients as a GPU would make them, the naive way, and a
broken one.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import cameras
import meshes
import soft_raster as sr
import torch

METRICS = {}  # no claim of the card is a rate or a time of a GPU


def ours(sizes, device):
    """Pairs of a pixel and a triangle that are near each other; their distances, and a product
    a pixel
    """
    vertices, faces, views = _scene(sizes, device)
    return lambda: sr.render(vertices, faces, views, sizes["pixels"])[0]


def naive(sizes, device):
    """Every triangle for every pixel, a row of the picture at a time"""
    vertices, faces, views = _scene(sizes, device)
    size = sizes["pixels"]
    across, down = cameras.pixels(size, vertices)
    rows = torch.stack([across.repeat(size), down.repeat_interleave(size)], 1).view(
        size, size, 2
    )

    def call():
        corners = cameras.project(vertices, views)[0, faces, :2]
        found = []
        for row in rows:
            points = row[:, None].expand(size, len(faces), 2).reshape(-1, 2)
            distance, _ = sr.signed_distance(points, corners.repeat(size, 1, 1))
            missed = torch.nn.functional.logsigmoid(distance / 1e-4).view(size, -1).sum(1)
            found.append(1 - missed.exp())
        return torch.stack(found)[None]

    return call


def broken(sizes, device):
    """As ours, but the picture is read by the host row by row"""
    there = ours(sizes, device)
    return lambda: torch.stack([torch.stack([row.cpu() for row in one]) for one in there()])


def _scene(sizes, device):
    vertices, faces = meshes.icosphere(sizes["level"])
    return vertices.to(device), faces.to(device), cameras.around(1).to(device)
