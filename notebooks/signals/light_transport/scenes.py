"""Scenes of flat parallelograms, and the nearest one that each ray meets.

A point of a parallelogram is `corner + a * edge_u + b * edge_v` with a and b in [0, 1]. In the
frame (edge_u, edge_v, normal) of each one, a ray's start and direction are linear in both, so
all rays against all parallelograms are two matrix products and one maximum: R rays against Q
parallelograms take about 40 R Q operations.

Nobody is met twice by chance: what is flat cannot be met again by a ray that leaves it, so the
parallelogram left is excluded by its number. There is no epsilon along the ray that would need
a scale.

Shapes: `Q` parallelograms, `R` rays, `L` lamps; colours are linear RGB, radiance is in W/(m2
sr), lengths are in the scene's unit.
"""

import dataclasses

import torch

# Of an edge: cracks between neighbours are closed by it, and hits are put back inside by it.
MARGIN = 1e-6
FAR = 1e9  # times how far outside a ray passes: enough that no miss is the nearest


@dataclasses.dataclass(frozen=True)
class Camera:
    """A pinhole: `eye` and `target` as points, `width` and `height` in pixels, `view_degrees`
    across the height.
    """

    eye: tuple
    target: tuple
    width: int
    height: int
    view_degrees: float


@dataclasses.dataclass(frozen=True)
class Scene:
    """Parallelograms with their materials, and a camera. Each field has Q rows.

    `corner_Q3`, `edge_u_Q3`, `edge_v_Q3`: float; the normal is edge_u x edge_v, and only the
    side that it points to reflects and emits. `diffuse_Q3` and `glossy_Q3` are the shares
    reflected, their sum at most 1; `exponent_Q` is the glossy lobe's.
    """

    corner_Q3: torch.Tensor
    edge_u_Q3: torch.Tensor
    edge_v_Q3: torch.Tensor
    diffuse_Q3: torch.Tensor
    glossy_Q3: torch.Tensor
    exponent_Q: torch.Tensor
    emission_Q3: torch.Tensor
    camera: Camera

    def __post_init__(self):
        share = self.diffuse_Q3 + self.glossy_Q3
        if not bool(
            ((self.diffuse_Q3 >= 0) & (self.glossy_Q3 >= 0) & (share <= 1 + MARGIN)).all()
        ):
            raise ValueError(
                f"diffuse + glossy reaches {float(share.max()):.3g}; "
                "each must be at least 0 and the sum at most 1, "
                "or a wall would give back more light than it got"
            )
        if not bool(torch.isfinite(self.emission_Q3).all() and (self.emission_Q3 >= 0).all()):
            raise ValueError(
                "an emission is negative or not finite; radiance is a number of at least 0"
            )
        cross = torch.linalg.cross(self.edge_u_Q3, self.edge_v_Q3)
        if not bool((cross.norm(dim=1) > 0).all()):
            raise ValueError("a parallelogram has no area; parallel edges have no normal")

    @property
    def normal_Q3(self):
        """Unit normals (Q, 3), to the side that reflects."""
        return torch.nn.functional.normalize(
            torch.linalg.cross(self.edge_u_Q3, self.edge_v_Q3), dim=1
        )

    @property
    def area_Q(self):
        """Areas (Q,), in the scene's unit squared."""
        return torch.linalg.cross(self.edge_u_Q3, self.edge_v_Q3).norm(dim=1)

    def to(self, device=None, dtype=None):
        """The same scene on another device or in another dtype."""
        moved = {
            field.name: getattr(self, field.name).to(device=device, dtype=dtype)
            for field in dataclasses.fields(self)
            if field.name != "camera"
        }
        return dataclasses.replace(self, **moved)

    def frames(self):
        """(matrix (3Q, 3), offset (3Q, 1)): `matrix @ point + offset` are all a's, all b's
        (here from -1 to 1 inside), and all heights above the parallelograms.
        """
        axes = torch.stack([self.edge_u_Q3 / 2, self.edge_v_Q3 / 2, self.normal_Q3], dim=2)
        to_frame_Q33 = torch.linalg.inv(axes)
        middle_Q3 = self.corner_Q3 + (self.edge_u_Q3 + self.edge_v_Q3) / 2
        offset_Q3 = -torch.einsum("qij,qj->qi", to_frame_Q33, middle_Q3)
        matrix = to_frame_Q33.permute(1, 0, 2).reshape(-1, 3).contiguous()
        return matrix, offset_Q3.T.reshape(-1, 1).contiguous()


def nearest(frames, starts_R3, directions_R3, leaving_R=None):
    """(nearness (R,), number (R,), starts and directions in all frames (3, Q, R)): 1 / distance
    of the nearest parallelogram, negative where there is none.

    With n = 1 / distance, a ray is inside where max(|a|, |b|) of `start * n + direction` is at
    most n: no mask, and what lies behind is left out, too. The number rides in the last bits
    of n, so that one maximum finds both; it decides between neighbours closer than 4e-6 of
    their distance.
    """
    matrix, offset = frames
    size = len(offset) // 3
    start = torch.addmm(offset, matrix, starts_R3.T).view(3, size, -1)
    direction = (matrix @ directions_R3.T).view(3, size, -1)
    near = (direction[2] / start[2]).neg_()
    if leaving_R is not None:
        near.scatter_(0, leaving_R[None], -1.0)
    side = torch.addcmul(direction[0], start[0], near).abs_()
    other = torch.addcmul(direction[1], start[1], near).abs_()
    outside = torch.maximum(side, other, out=side).sub_(near, alpha=1 + 2 * MARGIN)
    found = torch.sub(near, outside.clamp_(min=0), alpha=FAR, out=other)
    found = torch.fmax(found, found.new_tensor(-1.0), out=found)  # not a number: in its plane
    whole = torch.int32 if found.dtype == torch.float32 else torch.int64
    bits = (1 << (size - 1).bit_length()) - 1
    numbers = torch.arange(size, device=found.device, dtype=whole)[:, None]
    packed = found.view(whole).bitwise_and_(~bits).bitwise_or_(numbers)
    best = packed.view(found.dtype).amax(0)
    number = best.view(whole).bitwise_and(bits).clamp_max(size - 1).long()
    return best, number, start, direction


def intersect(frames, starts_R3, directions_R3, leaving_R=None):
    """(distance (R,), number (R,), a (R,), b (R,)) of the nearest parallelogram; distance is
    inf where there is none.

    Distances count in lengths of `directions_R3`, so a direction to a point has that point at
    1. `leaving_R` holds the numbers of the parallelograms that rays start on, which they cannot
    meet again.
    """
    best, number, start, direction = nearest(frames, starts_R3, directions_R3, leaving_R)
    at = number[None, None].expand(3, 1, -1)
    own, along = start.gather(1, at)[:, 0], direction.gather(1, at)[:, 0]
    distance = torch.where(best > 0, -own[2] / along[2], torch.inf)
    a, b = (own[:2] + distance * along[:2] + 1) / 2
    return distance, number, a, b


def intersect_reference(scene, start, direction):
    """(distance, number) of the nearest parallelogram of one ray, by a loop that solves a 3 x 3
    system for each; (inf, -1) if none.
    """
    best = (float("inf"), -1)
    for number in range(len(scene.corner_Q3)):
        columns = torch.stack(
            [scene.edge_u_Q3[number], scene.edge_v_Q3[number], -direction], dim=1
        )
        if abs(float(torch.linalg.det(columns))) < 1e-14:
            continue
        a, b, distance = torch.linalg.solve(columns, start - scene.corner_Q3[number]).tolist()
        if 0 <= a <= 1 and 0 <= b <= 1 and 0 < distance < best[0]:
            best = (distance, number)
    return best


def point_on(scene, number_R, a_R, b_R):
    """Points (R, 3) at (a, b) of the numbered parallelograms, put inside by the margin, so that
    no corner leaks light.
    """
    a = a_R.clamp(MARGIN, 1 - MARGIN)[:, None]
    b = b_R.clamp(MARGIN, 1 - MARGIN)[:, None]
    return (
        scene.corner_Q3[number_R]
        + a * scene.edge_u_Q3[number_R]
        + b * scene.edge_v_Q3[number_R]
    )


def camera_rays(camera, pixel_R, jitter_R2):
    """(starts (R, 3), unit directions (R, 3)) through pixels counted row by row, at `jitter` in
    [0, 1) of each (a box filter).
    """
    like = {"device": jitter_R2.device, "dtype": jitter_R2.dtype}
    eye = torch.tensor(camera.eye, **like)
    forward = torch.nn.functional.normalize(torch.tensor(camera.target, **like) - eye, dim=0)
    right = torch.nn.functional.normalize(
        torch.linalg.cross(forward, torch.tensor((0.0, 1.0, 0.0), **like)), dim=0
    )
    up = torch.linalg.cross(right, forward)
    half = torch.tan(torch.deg2rad(torch.tensor(camera.view_degrees / 2, **like)))
    x = ((pixel_R % camera.width + jitter_R2[:, 0]) * 2 - camera.width) / camera.height * half
    y = (camera.height - (pixel_R // camera.width + jitter_R2[:, 1]) * 2) / camera.height * half
    directions = forward + x[:, None] * right + y[:, None] * up
    return eye.expand_as(directions), torch.nn.functional.normalize(directions, dim=1)
