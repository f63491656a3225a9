"""The path tracer against closed answers, a loop, and itself by other estimators."""

import math

import path_tracing
import pytest
import rooms
import scenes
import torch

ROUNDING = 1e-12  # of float64 sums of a few dozen terms


def means(scene, options, runs=10, samples=16, depth=3):
    """(mean, standard error) of the picture's mean radiance by number of scatterings, over
    seeds.
    """
    each = torch.stack(
        [
            path_tracing.render_orders(scene, samples, depth, options, seed).mean((1, 2, 3))
            for seed in range(runs)
        ]
    )
    return each.mean(0), each.std(0) / math.sqrt(runs)


@pytest.mark.parametrize("albedo", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("depth", [0, 1, 2, 17])
def test_furnace_is_the_series_of_albedos_at_each_depth(albedo, depth):
    expected = 2.5 * sum(albedo**k for k in range(depth + 1))
    assert path_tracing.furnace(albedo, 2.5, depth) == pytest.approx(expected, rel=ROUNDING)


@pytest.mark.parametrize("estimator", ["lamp", "multiple"])
def test_a_furnace_of_other_estimators_agrees_within_noise(estimator):
    scene = rooms.closed_room(0.5, 1.0)
    mean, error = means(scene, path_tracing.Options(estimator), samples=64)
    expected = torch.tensor([1.0, 0.5, 0.25, 0.125], dtype=torch.float64)
    # 5 standard errors; 1e-9 where the estimator has no noise. Seen straight, a wall is exact.
    assert bool(((mean - expected).abs() <= 5 * error + 1e-9).all())


def test_depth_zero_shows_the_lamp_alone():
    (image,) = path_tracing.render_orders(
        rooms.cornell_box(16, 16, [rooms.lamp(size=0.6)]), 4, 0
    )
    lit = image.sum(2) > 0
    assert lit.any() and not lit[8:].any()


def test_the_parts_sum_to_the_whole():
    scene = rooms.cornell_box(8, 8)
    direct, bounces = path_tracing.render(scene, 4, 4, seed=3)
    whole = path_tracing.render_orders(scene, 4, 4, seed=3).sum(0)
    torch.testing.assert_close(direct + sum(bounces), whole)
    assert len(bounces) == 3


@pytest.mark.parametrize("depth", [0, 1])
def test_without_a_second_scattering_there_is_no_bounce(depth):
    assert path_tracing.render(rooms.cornell_box(4, 4), 1, depth)[1] == []


@pytest.mark.parametrize(
    "options", [("bsdf", "power"), ("multiple", "power"), ("multiple", "balance")]
)
@pytest.mark.parametrize("room", [rooms.cornell_box, rooms.glossy_plates])
def test_estimators_agree_in_the_mean(room, options):
    lamps = [rooms.lamp(size=0.6)] if room is rooms.cornell_box else None
    scene = room(8, 8, lamps) if lamps else room(8, 8)
    reference, its_error = means(
        scene, path_tracing.Options("multiple", "balance"), runs=10, samples=32
    )
    mean, error = means(scene, path_tracing.Options(*options), runs=10, samples=48)
    assert bool(((mean - reference).abs() <= 5 * (error**2 + its_error**2).sqrt() + 1e-6).all())


@pytest.mark.parametrize(
    ("options", "share"),
    [(("multiple", "balance"), 0.75), (("multiple", "power"), 0.9), (("lamp", "power"), 1.0)],
)
def test_the_likelier_way_of_a_sample_weighs_more(options, share):
    own, other = torch.tensor([3.0]), torch.tensor([1.0])
    got = path_tracing.weight(path_tracing.Options(*options), own, other)
    assert got.item() == pytest.approx(share)


def test_roulette_keeps_the_mean():
    scene = rooms.cornell_box(8, 8)
    reference, its_error = means(scene, path_tracing.Options(), runs=10, samples=24, depth=5)
    mean, error = means(
        scene, path_tracing.Options(roulette_from=1), runs=10, samples=24, depth=5
    )
    assert bool(((mean - reference).abs() <= 5 * (error**2 + its_error**2).sqrt() + 1e-6).all())


def test_roulette_ends_paths():
    room = rooms.closed_room(0.5, 1.0, 8, 8)
    played = path_tracing.Options("bsdf", roulette_from=1)
    late = path_tracing.render_orders(room, 1, 20, played)[20]
    assert (late == 0).all()  # 0.5^20 of 64 paths; whole ones all come back with a little
    assert (path_tracing.render_orders(room, 1, 20, path_tracing.Options("bsdf"))[20] > 0).all()


def test_light_is_linear_in_the_lamp():
    dim = path_tracing.render_orders(
        rooms.cornell_box(8, 8, [rooms.lamp(radiance=(1.0, 1.0, 1.0))]), 2, 3
    )
    bright = path_tracing.render_orders(
        rooms.cornell_box(8, 8, [rooms.lamp(radiance=(3.0, 3.0, 3.0))]), 2, 3
    )
    torch.testing.assert_close(bright, 3 * dim)


def test_the_direct_light_below_a_lamp_is_the_closed_form():
    """A point below a parallel square's middle: irradiance of Lambert's polygon, radiance =
    albedo / pi times it.
    """
    side, height = 0.4, 0.8
    lamp = rooms.lamp(size=side, radiance=(1.0, 1.0, 1.0), height=height)
    floor = ((0, 0, 0), (0, 0, 1), (1, 0, 0), (0.5, 0.5, 0.5), rooms.BLACK)
    camera = scenes.Camera((0.9, 0.5, 0.5), (0.5, 0.0, 0.5), 1, 1, 0.02)
    scene = rooms.build([floor, lamp], camera, torch.float64)
    half = side / 2
    slope = half / math.hypot(half, height)
    irradiance = 4 * slope * math.atan(half / math.hypot(half, height))
    got = float(
        path_tracing.render_orders(scene, 4096, 1, path_tracing.Options("lamp"))[1, 0, 0, 0]
    )
    # 4,096 samples of a smooth integrand: its spread is under 15 %, the mean's 0.25 %
    assert got == pytest.approx(0.5 / math.pi * irradiance, rel=0.01)


def test_no_point_of_a_convex_room_shadows_itself():
    scene = rooms.closed_room(0.5, 1.0).to(dtype=torch.float32)
    image = path_tracing.render_orders(scene, 64, 3, path_tracing.Options("bsdf"))
    torch.testing.assert_close(image[3], torch.full_like(image[3], 0.125))


def test_the_walls_colour_bleeds_onto_the_floor():
    _, bounces = path_tracing.render(rooms.cornell_box(16, 16, blocks=False), 128, 3)
    left, right = bounces[0][13, 3], bounces[0][13, 12]
    assert left[0] / left[1] > 1.2 * right[0] / right[1]


@pytest.mark.parametrize("estimator", path_tracing.ESTIMATORS)
def test_light_that_is_not_asked_for_is_left_out_and_the_rest_is_as_before(estimator):
    scene = rooms.cornell_box(8, 8, [rooms.lamp(size=0.6)])
    whole = path_tracing.render_orders(scene, 4, 3, path_tracing.Options(estimator))
    late = path_tracing.Options(estimator, gather_from=2)
    part = path_tracing.render_orders(scene, 4, 3, late)
    assert not part[:2].any()
    torch.testing.assert_close(part[2:], whole[2:])


def test_lamps_are_drawn_as_often_as_their_density_says():
    lamps = [rooms.lamp((0.3, 0.3), 0.2), rooms.lamp((0.7, 0.7), 0.4, (1.0, 2.0, 3.0))]
    scene = rooms.cornell_box(2, 2, lamps, blocks=False)
    drawn = path_tracing.Lamps(scene)
    uniform = torch.linspace(0, 1, 10_001)[:-1, None].expand(-1, 3)
    number, _ = drawn.draw(scene, uniform)
    share = torch.bincount(number, minlength=len(scene.area_Q)) / len(uniform)
    torch.testing.assert_close(share, drawn.density_Q * scene.area_Q, atol=2e-4, rtol=0)
    power = (0.2**2 * 33, 0.4**2 * 6)
    assert share[5:].tolist() == pytest.approx([one / sum(power) for one in power], abs=1e-3)


def test_another_seed_is_another_picture():
    scene = rooms.cornell_box(8, 8)
    assert not torch.equal(
        *(path_tracing.render_orders(scene, 1, 1, seed=seed) for seed in (0, 1))
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: path_tracing.furnace(1.2, 1.0, 2), "albedo is 1.2"),
        (lambda: path_tracing.furnace(0.5, 1.0, -1), "depth is -1"),
        (lambda: path_tracing.furnace(0.5, -1.0, 1), "emission is negative"),
        (lambda: path_tracing.render(rooms.cornell_box(2, 2), 0, 1), "samples is 0"),
        (lambda: path_tracing.render(rooms.cornell_box(2, 2), 1.5, 1), "samples is 1.5"),
        (lambda: path_tracing.Options("nee"), "estimator 'nee'"),
        (lambda: path_tracing.Options(heuristic="max"), "heuristic 'max'"),
        (lambda: path_tracing.Options(roulette_from=0), "roulette_from is 0"),
        (lambda: rooms.lamp(centre=(0.95, 0.5)), "the lamp reaches"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
