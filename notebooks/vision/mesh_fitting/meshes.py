"""Triangle meshes as two tensors: the icosphere, what its triangles share, points on a surface,
a car made of formulas.

A mesh is `vertices` (V, 3) and `faces` (F, 3), which name the corners of each triangle,
counter-clockwise as seen from outside. x points forward, y up, z to the side.
"""

import functools
import math
from collections import namedtuple

import torch

# A rounded block: where (x/a)^power + … = 1 around its centre, `power` even. A round one is a
# disc seen along z.
Part = namedtuple("Part", "name centre half power colour round", defaults=(False,))
REACH, LOOKS, HALVINGS = (
    1.6,
    96,
    20,
)  # of the search along a ray: its end, its first looks, its halvings
LEVELS = range(8)


@functools.lru_cache(maxsize=8)
def _sphere(level: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The icosphere in float64."""
    golden = (1 + math.sqrt(5)) / 2
    corners = [(0, a, b * golden) for a in (-1, 1) for b in (-1, 1)]
    corners = [
        tuple(one[(at - turn) % 3] for at in range(3)) for turn in range(3) for one in corners
    ]
    vertices = torch.tensor(corners, dtype=torch.float64)
    near = torch.cdist(vertices, vertices) < 2.01  # edges have length 2
    three = [
        (a, b, c)
        for a in range(12)
        for b in range(a)
        for c in range(b)
        if near[a, b] & near[b, c] & near[a, c]
    ]
    faces = torch.tensor(three)
    a, b, c = vertices[faces].unbind(1)
    inward = (torch.linalg.cross(b - a, c - a) * a).sum(1) < 0
    faces[inward] = faces[inward].flip(1)
    for _ in range(level):
        vertices, faces = _cut(vertices, faces)
    return vertices / vertices.norm(dim=1, keepdim=True), faces


def icosphere(
    level: int, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    """(vertices (10·4^level + 2, 3), faces (20·4^level, 3)) of a sphere of radius 1: the
    icosahedron at level 0, each triangle cut in four at every level more. ValueError for a
    level that is none of 0 to 7.
    """
    if level not in LEVELS:
        raise ValueError(
            f"level is {level!r}; allowed are 0 to {LEVELS[-1]}: "
            "each has four times the triangles"
        )
    vertices, faces = _sphere(level)
    return vertices.to(dtype, copy=True), faces.clone()


def _cut(vertices: torch.Tensor, faces: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The mesh with each triangle cut in four at the middles of its edges, which neighbours
    share.
    """
    sides = faces[:, [[0, 1], [1, 2], [2, 0]]].sort(dim=2).values.reshape(-1, 2)
    unique, place = torch.unique(sides, dim=0, return_inverse=True)
    middles = vertices[unique].mean(dim=1)
    middles = middles / middles.norm(dim=1, keepdim=True) * vertices[0].norm()
    (a, b, c), (ab, bc, ca) = faces.unbind(1), (place.reshape(-1, 3) + len(vertices)).unbind(1)
    four = [
        torch.stack(one, 1) for one in ((a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca))
    ]
    return torch.cat([vertices, middles]), torch.stack(four, 1).reshape(-1, 3)


def edges(faces: torch.Tensor) -> torch.Tensor:
    """(E, 2): every edge once, its smaller vertex first."""
    return torch.unique(
        faces[:, [[0, 1], [1, 2], [2, 0]]].sort(dim=2).values.reshape(-1, 2), dim=0
    )


def neighbours(faces: torch.Tensor) -> torch.Tensor:
    """(E, 2): the two faces beside every edge. ValueError where an edge has one face or three:
    the mesh is not closed.
    """
    sides = faces[:, [[0, 1], [1, 2], [2, 0]]].sort(dim=2).values.reshape(-1, 2)
    _, place, many = torch.unique(sides, dim=0, return_inverse=True, return_counts=True)
    if not (many == 2).all():
        raise ValueError(
            f"{int((many != 2).sum())} edges lie beside one face or more than two; "
            "a closed mesh is wanted"
        )
    return torch.argsort(place, stable=True).reshape(-1, 2) // 3


def euler(vertices: torch.Tensor, faces: torch.Tensor) -> int:
    """V − E + F: 2 for whatever a sphere can be bent into, 0 for a ring."""
    return len(vertices) - len(edges(faces)) + len(faces)


def complete(vertices: torch.Tensor, faces: torch.Tensor, colours=None) -> None:
    """None for a mesh that can be drawn; ValueError for one without triangles, and for colours
    that are not its vertices'.
    """
    if faces.dim() != 2 or faces.shape[1] != 3 or not len(faces):
        raise ValueError(
            f"faces have the shape {tuple(faces.shape)}; (F, 3) with F of at least 1 is allowed"
        )
    if colours is not None and colours.shape != vertices.shape:
        raise ValueError(
            f"colours have the shape {tuple(colours.shape)}; that of the vertices, "
            f"{tuple(vertices.shape)}, is allowed"
        )


def areas(vertices: torch.Tensor, faces: torch.Tensor) -> torch.Tensor:
    """(F,): the area of each face."""
    a, b, c = vertices[faces].unbind(1)
    return torch.linalg.cross(b - a, c - a).norm(dim=1) / 2


def on_surface(
    vertices: torch.Tensor, faces: torch.Tensor, count: int, seed: int = 0
) -> torch.Tensor:
    """(count, 3): points spread evenly over the surface, drawn by area and then within a
    triangle. ValueError for a surface without an area.
    """
    chance, shares = torch.Generator().manual_seed(seed), areas(vertices, faces).cpu()
    if not 0 < float(shares.sum()) < math.inf:
        raise ValueError("the triangles' areas must be finite, and their sum above 0")
    chosen = torch.multinomial(shares, count, replacement=True, generator=chance)
    u, v = torch.rand(2, count, 1, generator=chance).to(vertices)
    u = u.sqrt()
    a, b, c = vertices[faces[chosen.to(faces.device)]].unbind(1)
    return (1 - u) * a + u * (1 - v) * b + u * v * c


def car_parts(length: float = 1.0, height: float = 1.0, cabin: float = 1.0) -> list[Part]:
    """The blocks of a car; the three numbers stretch it."""
    wheel = {
        "half": (0.21, 0.21, 0.11),
        "power": 4,
        "colour": (0.08, 0.08, 0.10),
        "round": True,
    }
    places = [(x * 0.6 * length, -0.24 * height, z * 0.34) for x in (-1, 1) for z in (-1, 1)]
    body = Part("body", (0, 0, 0), (0.98 * length, 0.24 * height, 0.43), 6, (0.76, 0.15, 0.12))
    glass = Part(
        "cabin",
        (-0.12, 0.27 * height, 0),
        (0.52 * cabin, 0.25 * height, 0.37),
        4,
        (0.18, 0.32, 0.47),
    )
    return [body, glass, *(Part("wheel", place, **wheel) for place in places)]


def car(
    level: int = 4, **proportions: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(vertices, faces, colours (V, 3) from 0 to 1) of a car: each vertex of an icosphere moved
    along its own ray from the middle to where the ray leaves the last of the `car_parts`. So
    its wheels are joined to it, and it has no hole.
    """
    rays, faces = icosphere(level, torch.float64)
    if wrong := {name: one for name, one in proportions.items() if not 0 < one <= 1.5}:
        raise ValueError(f"proportions {wrong}; above 0 to 1.5 are allowed")
    parts = car_parts(**proportions)
    steps = torch.linspace(0, REACH, LOOKS, dtype=torch.float64)
    inside = (_depth(rays[:, None] * steps[:, None], parts).amin(-1) < 1).to(torch.uint8)
    last = LOOKS - 1 - inside.flip(1).argmax(1)  # the farthest look that is inside a part
    low, high = steps[last], steps[(last + 1).clamp(max=LOOKS - 1)]
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        within = _depth(rays * middle[:, None], parts).amin(-1) < 1
        low, high = torch.where(within, middle, low), torch.where(within, high, middle)
    vertices = rays * low[:, None]
    owner = _depth(vertices, parts).argmin(-1)
    colours = torch.tensor([part.colour for part in parts], dtype=torch.float64)[owner]
    x, y, z = vertices.unbind(1)
    front = 0.9 * float(x.max())
    colours[(owner == 0) & (x > front) & (z.abs() > 0.15)] = torch.tensor(
        [0.98, 0.90, 0.55], dtype=torch.float64
    )
    return vertices.float(), faces, colours.float()


def _depth(points: torch.Tensor, parts: list[Part]) -> torch.Tensor:
    """(…, parts): below 1 inside a part, 1 on its surface."""
    found = []
    for part in parts:
        centre, half = torch.tensor((part.centre, part.half)).to(points)
        x, y, z = ((points - centre) / half).square().unbind(-1)
        times = part.power // 2
        found.append(
            (x + y) ** times + z**times if part.round else x**times + y**times + z**times
        )
    return torch.stack(found, -1)


def ring(
    around: int = 48, across: int = 24, radius: float = 0.7, thick: float = 0.28
) -> tuple[torch.Tensor, torch.Tensor]:
    """(vertices, faces) of a torus, which no sphere can be bent into."""
    u = torch.arange(around).repeat_interleave(across)
    v = torch.arange(across).repeat(around)
    a, b = 2 * math.pi * u / around, 2 * math.pi * v / across
    out = radius + thick * b.cos()
    vertices = torch.stack([out * a.cos(), thick * b.sin(), -out * a.sin()], 1)
    here, along = u * across + v, ((u + 1) % around) * across + v
    up, both = u * across + (v + 1) % across, ((u + 1) % around) * across + (v + 1) % across
    return vertices, torch.cat(
        [torch.stack([here, along, up], 1), torch.stack([along, both, up], 1)]
    )
