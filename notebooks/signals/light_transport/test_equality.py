"""The z-test by blocks, and our box beside Mitsuba's where that is installed."""

import math

import equality
import mitsuba_scene
import path_tracing
import pytest
import rooms
import torch


def noise(seed, count=8, shift=0.0):
    """Pictures of independent noise about 1."""
    generator = torch.Generator().manual_seed(seed)
    return 1 + shift + 0.1 * torch.randn(count, 16, 16, 3, generator=generator)


def test_pictures_that_differ_by_noise_are_equal():
    assert equality.compare(noise(0), noise(1))["equal"]


def test_one_block_that_is_brighter_is_found():
    ours = noise(0)
    ours[:, 8:, 8:, 0] += 0.1
    assert not equality.compare(ours, noise(1))["equal"]


def test_chance_alone_is_seldom_called_different():
    different = sum(
        not equality.compare(noise(2 * i), noise(2 * i + 1), level=0.05)["equal"]
        for i in range(60)
    )
    assert different <= 8  # of 60 at 5 %: more than 8 has a chance below 0.5 %


def test_still_pictures_must_agree():
    assert not equality.compare(torch.ones(3, 8, 8, 3), torch.full((3, 8, 8, 3), 1.1))["equal"]


@pytest.mark.parametrize(
    ("ours", "block", "message"),
    [
        (noise(0, 2), 8, "ours has 2 pictures"),
        (noise(0), 5, "do not divide into blocks of 5"),
        (torch.full((3, 16, 16, 3), math.nan), 8, "not finite"),
    ],
)
def test_what_cannot_be_compared_is_refused(ours, block, message):
    with pytest.raises(ValueError, match=message):
        equality.compare(ours, noise(1), block)


def test_a_variant_that_is_not_compared_is_refused():
    with pytest.raises(ValueError, match="cuda_ad_rgb"):
        mitsuba_scene.load("cuda_ad_rgb")


class Stub:
    """As much of Mitsuba as a scene's dictionary asks for."""

    load_dict = staticmethod(lambda found: found)

    class ScalarTransform4f:
        def __init__(self, matrix=None):
            self.matrix = matrix

        def look_at(self, **given):
            return given


def test_mitsuba_is_asked_for_what_ours_does():
    scene = rooms.cornell_box(6, 4)
    asked = mitsuba_scene.build(Stub, scene, 4)
    assert asked["integrator"]["type"] == "path" and asked["integrator"]["max_depth"] == 5
    assert asked["integrator"]["rr_depth"] > 1000
    film, sensor = asked["sensor"]["film"], asked["sensor"]
    assert (film["width"], film["height"], film["rfilter"]["type"]) == (6, 4, "box")
    assert sensor["sampler"]["type"] == "independent" and sensor["fov_axis"] == "y"
    shapes = [asked[f"shape_{i}"] for i in range(len(scene.corner_Q3))]
    lamps = [one["emitter"]["radiance"]["value"] for one in shapes if "emitter" in one]
    assert lamps == [[17, 12, 4]]
    corner = torch.tensor([-1.0, -1.0, 0.0, 1.0], dtype=torch.float64)
    for number, one in enumerate(shapes):
        matrix = torch.tensor(one["to_world"].matrix, dtype=torch.float64)
        torch.testing.assert_close((matrix @ corner)[:3], scene.corner_Q3[number].double())
        torch.testing.assert_close(matrix[:3, 2], scene.normal_Q3[number].double())
        assert one["bsdf"]["reflectance"]["value"] == scene.diffuse_Q3[number].tolist()


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_the_box_is_mitsubas_within_noise(depth):
    pytest.importorskip("mitsuba")
    mitsuba = mitsuba_scene.load("scalar_rgb")
    scene = rooms.cornell_box(16, 16)
    built = mitsuba_scene.build(mitsuba, scene, depth)
    theirs = torch.stack(
        [torch.from_numpy(mitsuba_scene.render(mitsuba, built, 32, seed)) for seed in range(8)]
    )
    ours = torch.stack(
        [path_tracing.render_orders(scene, 32, depth, seed=seed).sum(0) for seed in range(8)]
    )
    assert equality.compare(ours, theirs, block=4)["equal"]
