"""Three scenes: a Cornell box, plates of different gloss under lamps of different size, and a
closed room.

The box follows the field's usual layout (a red and a green wall, two blocks, one lamp in the
ceiling), in a unit cube. The plates follow the study of E. Veach and L. Guibas (1995): a small
lamp over a rough plate is what sampling the lamp is good at, a large lamp over a smooth plate
what sampling the reflection is good at.
"""

import math

import scenes
import torch

WHITE, RED, GREEN, BLACK = (
    (0.73, 0.73, 0.73),
    (0.63, 0.06, 0.05),
    (0.14, 0.45, 0.09),
    (0.0, 0.0, 0.0),
)


def build(quads, camera, dtype=torch.float32):
    """A `Scene` of rows (corner, edge_u, edge_v, diffuse, emission[, glossy, exponent])."""
    full = [(*quad, BLACK, 1.0) if len(quad) == 5 else quad for quad in quads]
    corner, edge_u, edge_v, diffuse, emission, glossy, exponent = (
        torch.tensor(column, dtype=dtype) for column in zip(*full, strict=True)
    )
    return scenes.Scene(corner, edge_u, edge_v, diffuse, glossy, exponent, emission, camera)


def walls(left=WHITE, right=WHITE, other=WHITE, emission=BLACK):
    """The six inner sides of the unit cube, normals inward: floor, ceiling, back, left, right
    and, last, front (towards z = 1).
    """
    return [
        ((0, 0, 0), (0, 0, 1), (1, 0, 0), other, emission),
        ((0, 1, 0), (1, 0, 0), (0, 0, 1), other, emission),
        ((0, 0, 0), (1, 0, 0), (0, 1, 0), other, emission),
        ((0, 0, 0), (0, 1, 0), (0, 0, 1), left, emission),
        ((1, 0, 0), (0, 0, 1), (0, 1, 0), right, emission),
        ((0, 0, 1), (0, 1, 0), (1, 0, 0), other, emission),
    ]


def block(centre, size, height, turn_degrees, diffuse=WHITE):
    """Four sides and the top of a block that stands on the floor at `centre` (x, z), turned
    about the vertical, normals outward.
    """
    cosine, sine = math.cos(math.radians(turn_degrees)), math.sin(math.radians(turn_degrees))

    def corner(x, y, z):
        return (
            centre[0] + size * (cosine * x + sine * z),
            y,
            centre[1] + size * (cosine * z - sine * x),
        )

    def side(start, along_u, along_v):
        u, v = (
            tuple(b - a for a, b in zip(start, end, strict=True)) for end in (along_u, along_v)
        )
        return (start, u, v, diffuse, BLACK)

    foot = [corner(x, 0.0, z) for x, z in ((-0.5, -0.5), (-0.5, 0.5), (0.5, 0.5), (0.5, -0.5))]
    head = [(x, height, z) for x, _, z in foot]
    sides = [side(foot[i], foot[(i + 1) % 4], head[i]) for i in range(4)]
    return [*sides, side(head[0], head[1], head[3])]


def lamp(centre=(0.5, 0.5), size=0.25, radiance=(17.0, 12.0, 4.0), height=0.998, diffuse=BLACK):
    """A square lamp that faces down, its centre at (x, z); it stays inside the unit cube."""
    low, high = (
        [middle - size / 2 for middle in centre],
        [middle + size / 2 for middle in centre],
    )
    if min(low) < 0 or max(high) > 1:
        raise ValueError(
            f"the lamp reaches from {low} to {high}; "
            "both must stay in 0 to 1, or it shines through a wall"
        )
    return ((low[0], height, low[1]), (size, 0, 0), (0, 0, size), diffuse, radiance)


def cornell_box(width=64, height=64, lamps=None, blocks=True, dtype=torch.float32):
    """The box as a `scenes.Scene`, open towards the camera; `lamps` are rows as `lamp` makes
    them (one in the middle by default).
    """
    camera = scenes.Camera((0.5, 0.5, 2.4), (0.5, 0.5, 0.0), width, height, 39.3)
    solids = (
        block((0.33, 0.36), 0.3, 0.6, 17) + block((0.66, 0.67), 0.3, 0.3, -17) if blocks else []
    )
    return build(walls(RED, GREEN)[:5] + solids + (lamps or [lamp()]), camera, dtype)


LAMP_ROW = (1.35, -0.9)  # (y, z) of the middles of the three lamps over the plates
PLATES = (((0.12, 0.75), 20.0), ((0.28, 0.1), 300.0), ((0.5, -0.45), 4000.0))


def plate(eye, middle, exponent):
    """A plate (a row for `build`) about `middle` (y, z), tilted so that `eye` (y, z) sees the
    row of lamps mirrored there.
    """
    to_eye, to_lamps = (
        (y - middle[0], z - middle[1], math.hypot(y - middle[0], z - middle[1]))
        for y, z in (eye, LAMP_ROW)
    )
    up, front = (to_eye[i] / to_eye[2] + to_lamps[i] / to_lamps[2] for i in (0, 1))
    up, front = up / math.hypot(up, front), front / math.hypot(up, front)
    corner = (-1, middle[0] - front / 4, middle[1] + up / 4)
    grey, gloss = (0.05, 0.05, 0.05), (0.7, 0.7, 0.7)
    return (corner, (2, 0, 0), (0, front / 2, -up / 2), grey, BLACK, gloss, exponent)


def glossy_plates(width=64, height=64, dtype=torch.float32):
    """Three plates of exponents 20, 300 and 4,000, from the front to the back; each mirrors
    three lamps of widths 0.5, 0.12 and 0.03 and equal power to the camera. No walls stand
    around them, so hardly any light scatters twice.
    """
    camera = scenes.Camera((0.0, 1.0, 3.0), (0.0, 0.5, 0.0), width, height, 34.0)
    quads = [((-3, -0.05, -3), (0, 0, 6), (6, 0, 0), (0.4, 0.4, 0.4), BLACK)]
    quads += [plate(camera.eye[1:], middle, exponent) for middle, exponent in PLATES]
    for x, side in ((-0.75, 0.5), (0.0, 0.12), (0.7, 0.03)):
        radiance = (0.5 / side**2,) * 3
        low, behind = LAMP_ROW[0] - side / 2, LAMP_ROW[1]
        quads.append(((x - side / 2, low, behind), (side, 0, 0), (0, side, 0), BLACK, radiance))
    return build(quads, camera, dtype)


def closed_room(albedo, emission, width=4, height=4, dtype=torch.float64):
    """The unit cube seen from its middle, all six walls of one albedo and emission: the white
    furnace.
    """
    grey, glow = (albedo,) * 3, (emission,) * 3
    camera = scenes.Camera((0.5, 0.5, 0.5), (0.3, 0.4, 0.0), width, height, 90.0)
    return build(walls(grey, grey, grey, glow), camera, dtype)
