"""How a surface reflects: a diffuse share and a glossy lobe about the mirror direction
(modified Phong, Lafortune and Willems 1994).

    f(out, in) = diffuse / pi + glossy (n + 2) / (2 pi) max(0, in . mirror(out))^n

Both parts are at most their share of the light that arrives, so walls never give back more than
they got. `out` points to where the light goes (the eye), `in` to where it comes from; both are
unit vectors that leave the surface. R rays a call.
"""

import dataclasses
import math

import torch


@dataclasses.dataclass(frozen=True)
class Surface:
    """The materials at R points: `normal_R3`, `diffuse_R3`, `glossy_R3`, `exponent_R`, and
    which part a sample takes.
    """

    normal_R3: torch.Tensor
    diffuse_R3: torch.Tensor
    glossy_R3: torch.Tensor
    exponent_R: torch.Tensor
    glossy_chance_R: torch.Tensor


def surface_at(scene, number_R):
    """The `Surface` at points of the numbered parallelograms; the lobe is chosen by its share
    of what both reflect.
    """
    diffuse_R3, glossy_R3 = scene.diffuse_Q3[number_R], scene.glossy_Q3[number_R]
    both = (diffuse_R3 + glossy_R3).sum(1).clamp_min(1e-12)
    return Surface(
        scene.normal_Q3[number_R],
        diffuse_R3,
        glossy_R3,
        scene.exponent_Q[number_R],
        glossy_R3.sum(1) / both,
    )


def mirror(normal_R3, direction_R3):
    """The directions (R, 3) that a perfect mirror pairs with `direction_R3`."""
    return 2 * (normal_R3 * direction_R3).sum(1, keepdim=True) * normal_R3 - direction_R3


def evaluate(surface, out_R3, in_R3):
    """(f times the cosine at `in` (R, 3), density of `sample` at `in` (R,), per steradian);
    both 0 below the surface.
    """
    cosine = (surface.normal_R3 * in_R3).sum(1).clamp_min(0)
    along = (mirror(surface.normal_R3, out_R3) * in_R3).sum(1).clamp(0, 1)
    lobe = along**surface.exponent_R / (2 * math.pi)
    value = (
        surface.diffuse_R3 / math.pi
        + surface.glossy_R3 * ((surface.exponent_R + 2) * lobe)[:, None]
    )
    chance = surface.glossy_chance_R
    density = (1 - chance) * cosine / math.pi + chance * (surface.exponent_R + 1) * lobe
    return value * cosine[:, None], torch.where(cosine > 0, density, 0.0)


def around(axis_R3, cosine_R, turn_R):
    """Unit vectors (R, 3) at the given cosine from each axis, turned about it by `turn` in [0,
    1) of a circle.

    The two vectors across the axis follow Duff et al. (2017), without a branch that depends on
    the direction.
    """
    x, y, z = axis_R3.unbind(1)
    sign = torch.where(z >= 0, 1.0, -1.0).to(z.dtype)
    scale = -1 / (sign + z)
    cross = x * y * scale
    first = torch.stack([1 + sign * x * x * scale, sign * cross, -sign * x], dim=1)
    second = torch.stack([cross, sign + y * y * scale, -y], dim=1)
    sine = (1 - cosine_R * cosine_R).clamp_min(0).sqrt()
    angle = 2 * math.pi * turn_R
    across = first * (sine * angle.cos())[:, None] + second * (sine * angle.sin())[:, None]
    return across + axis_R3 * cosine_R[:, None]


def sample(surface, out_R3, uniform_R3):
    """Directions (R, 3) drawn with the density that `evaluate` gives; those of the lobe may
    fall below the surface (weight 0).

    `uniform_R3` holds three numbers in [0, 1) a ray: which part, how far from its axis, how far
    round.
    """
    glossy = uniform_R3[:, 0] < surface.glossy_chance_R
    away = 1 - uniform_R3[:, 1]
    power = torch.where(glossy, 1 / (surface.exponent_R + 1), 0.5)
    axis = torch.where(glossy[:, None], mirror(surface.normal_R3, out_R3), surface.normal_R3)
    return around(axis, away**power, uniform_R3[:, 2])
