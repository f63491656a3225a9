"""Densities, energy, reciprocity, and that samples follow the density that is said."""

import math

import pytest
import reflection
import torch

SHAPES = [(0.8, 0.0, 1.0), (0.0, 0.8, 20.0), (0.3, 0.6, 60.0)]


def surface(shape, count):
    """`count` points of one material whose normal is the y axis, float64."""
    diffuse, glossy, exponent = shape
    full = torch.full((count, 3), 1.0, dtype=torch.float64)
    normal = torch.tensor((0.0, 1.0, 0.0), dtype=torch.float64).expand(count, 3)
    chance = torch.full((count,), glossy / (diffuse + glossy), dtype=torch.float64)
    return reflection.Surface(
        normal, diffuse * full, glossy * full, exponent * full[:, 0], chance
    )


def grid(across=400, around=400):
    """(directions of the upper half, steradians of each), by the middle of equal cells."""
    cosine = (torch.arange(across, dtype=torch.float64) + 0.5) / across
    angle = (torch.arange(around, dtype=torch.float64) + 0.5) / around * 2 * math.pi
    cosine, angle = (
        value.reshape(-1) for value in torch.meshgrid(cosine, angle, indexing="ij")
    )
    sine = (1 - cosine**2).sqrt()
    return torch.stack([sine * angle.cos(), cosine, sine * angle.sin()], dim=1), 2 * math.pi / (
        across * around
    )


def seen_from(degrees, count):
    """`count` times the direction at the angle from the normal."""
    angle = math.radians(degrees)
    return torch.tensor((math.sin(angle), math.cos(angle), 0.0), dtype=torch.float64).expand(
        count, 3
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_the_density_seen_from_above_sums_to_one(shape):
    directions, steradians = grid()
    _, density = reflection.evaluate(
        surface(shape, len(directions)), seen_from(0, len(directions)), directions
    )
    assert float(density.sum() * steradians) == pytest.approx(
        1, abs=1e-3
    )  # the grid's own error


@pytest.mark.parametrize("degrees", [0, 40, 85])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_more_is_reflected_than_the_shares_say(shape, degrees):
    directions, steradians = grid()
    value, _ = reflection.evaluate(
        surface(shape, len(directions)), seen_from(degrees, len(directions)), directions
    )
    assert float(value[:, 0].sum() * steradians) <= shape[0] + shape[1] + 1e-3


@pytest.mark.parametrize("shape", SHAPES)
def test_light_may_go_either_way(shape):
    one, other = (
        seen_from(20, 1),
        torch.nn.functional.normalize(
            torch.tensor([[-0.3, 0.8, 0.2]], dtype=torch.float64), dim=1
        ),
    )
    there, _ = reflection.evaluate(surface(shape, 1), one, other)
    back, _ = reflection.evaluate(surface(shape, 1), other, one)
    torch.testing.assert_close(there / other[:, 1:2], back / one[:, 1:2])


@pytest.mark.parametrize("degrees", [0, 60])
@pytest.mark.parametrize("shape", SHAPES)
def test_samples_follow_the_density(shape, degrees):
    """The share of samples in each of four quarters of the upper half, against the density's
    integral there.
    """
    directions, steradians = grid()
    _, density = reflection.evaluate(
        surface(shape, len(directions)), seen_from(degrees, len(directions)), directions
    )
    count = 40_000
    uniform = torch.rand(
        count, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    drawn = reflection.sample(surface(shape, count), seen_from(degrees, count), uniform)
    for sign in (1, -1):
        for steep in (True, False):
            expected = float(
                density[
                    (sign * directions[:, 0] > 0) & ((directions[:, 1] > 0.8) == steep)
                ].sum()
                * steradians
            )
            got = (
                ((sign * drawn[:, 0] > 0) & (drawn[:, 1] > 0) & ((drawn[:, 1] > 0.8) == steep))
                .double()
                .mean()
            )
            assert float(got) == pytest.approx(expected, abs=5 * 0.5 / math.sqrt(count))


def test_directions_about_any_axis_have_the_cosine_that_is_asked():
    axis = torch.nn.functional.normalize(
        torch.randn(101, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64),
        dim=1,
    )
    axis[0] = torch.tensor((0.0, 0.0, -1.0))
    cosine = torch.linspace(0, 1, 101, dtype=torch.float64)
    drawn = reflection.around(axis, cosine, torch.linspace(0, 1, 101, dtype=torch.float64))
    torch.testing.assert_close((drawn * axis).sum(1), cosine)
    torch.testing.assert_close(drawn.norm(dim=1), torch.ones_like(cosine))
