"""The rival that needs no gradient: carve (Laurentini 1994, the visual hull). What any picture
shows as empty is cut away; what is left is the largest shape that all silhouettes allow.

Here along rays from the middle, so that the carved mesh has the triangles of a fitted sphere.
That suits a car whose every part is seen from its middle, and no other shape. Colours take no
part.
"""

import meshes
import torch
from cameras import project
from torch.nn.functional import grid_sample

LOOKS = 128  # along a ray


def carve(given, level: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(vertices, faces) of a sphere of this level, each vertex where its ray leaves what all
    silhouettes of the `mesh_fitting.Pictures` cover. ValueError where one of them does not
    cover the middle, from which the rays start.
    """
    rays, faces = meshes.icosphere(level)
    steps = torch.linspace(0, meshes.REACH, LOOKS)
    points = (rays[:, None] * steps[:, None]).flatten(0, 1)
    places = project(points, given.cameras)[..., :2] * points.new_tensor([1, -1])
    shade = grid_sample(given.silhouettes[:, None], places[:, None], align_corners=False)
    inside = (shade[:, 0, 0] > 0.5).all(0).view(-1, LOOKS)
    if not inside[:, 0].all():
        raise ValueError("a silhouette does not cover the middle: no ray can start there")
    last = LOOKS - 1 - inside.to(torch.uint8).flip(1).argmax(1)
    return rays * steps[last][:, None], faces
