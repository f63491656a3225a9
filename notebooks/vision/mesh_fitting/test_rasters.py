"""Both renderers: by geometry, by the plainest loop, by one another, and the soft one's
gradients.
"""

import math

import cameras
import hard_raster
import meshes
import pytest
import soft_raster as sr
import torch

TRIANGLE = torch.tensor(
    [[-0.5, -0.5, 0.0], [0.6, -0.4, 0.0], [0.0, 0.7, 0.0]], dtype=torch.float64
)
ONE = torch.tensor([[0, 1, 2]])
FRONT = cameras.axes(torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64))


def test_a_camera_sees_right_to_its_right_and_up_above():
    seen = cameras.project(
        torch.tensor([[0.5, 0, 0], [0, 0.5, 0], [0, 0, 0.5]]), FRONT.float()
    )[0]
    focus = 1 / math.tan(math.radians(30))
    assert torch.allclose(seen[0], torch.tensor([focus * 0.5 / 2.7, 0, 2.7]))
    assert torch.allclose(seen[1], torch.tensor([0, focus * 0.5 / 2.7, 2.7]))
    assert float(seen[2, 2]) == pytest.approx(2.2), "what is nearer is less deep"


def test_axes_are_turned_into_one_another():
    own = cameras.around(7, seed=3).double()
    assert torch.allclose(
        own @ own.transpose(1, 2), torch.eye(3, dtype=torch.float64).expand(7, 3, 3), atol=1e-6
    )
    side = cameras.axes(torch.tensor([math.pi / 2]), torch.tensor([0.0]))
    assert torch.allclose(side[0, 2], torch.tensor([-1.0, 0, 0]), atol=1e-6), (
        "from +x it looks along -x"
    )
    above = cameras.axes(torch.tensor([0.0]), torch.tensor([math.pi / 2]))
    assert torch.allclose(above[0, 2], torch.tensor([0, -1.0, 0]), atol=1e-6)


def test_views_that_no_fit_has_seen_are_others():
    assert torch.equal(cameras.around(4, seed=1), cameras.around(4, seed=1))
    assert not torch.equal(cameras.around(4, seed=1), cameras.around(4, seed=2))
    for view in cameras.around(6, seed=1):
        assert (cameras.around(20) - view).abs().amax((1, 2)).min() > 0.05
    with pytest.raises(ValueError, match="at least one"):
        cameras.around(0)


def test_a_vertex_behind_the_camera_is_refused():
    with pytest.raises(ValueError, match="behind a camera"):
        sr.render(TRIANGLE * 10 + torch.tensor([0, 0, 3.0]), ONE, FRONT, 8)


@pytest.mark.parametrize("wrong", [{"size": 0}, {"sigma": 0.0}, {"gamma": -1.0}, {"most": 0}])
def test_sizes_that_are_none_are_refused(wrong):
    with pytest.raises(ValueError, match="must be above 0"):
        sr.render(TRIANGLE, ONE, FRONT, **{"size": 8, **wrong})


@pytest.mark.parametrize("renderer", [sr, hard_raster])
def test_what_has_no_picture_is_refused(renderer):
    def refused(why, vertices=TRIANGLE, faces=ONE, views=FRONT, **more):
        with pytest.raises(ValueError, match=why):
            renderer.render(vertices, faces, views, more.pop("size", 8), **more)

    for wrong in (math.nan, math.inf):
        broken = TRIANGLE.clone()
        broken[1, 0] = wrong
        refused("no finite number", vertices=broken)
    refused("no finite number", views=FRONT * math.nan)
    refused("0 vertices", vertices=TRIANGLE[:0])
    refused("F of at least 1", faces=ONE[:0])
    refused("0 cameras", views=FRONT[:0])
    refused(r"\(V, 3\) is allowed", vertices=TRIANGLE[None])
    if renderer is sr:  # the z-buffer takes whole numbers, too
        refused("floating point", vertices=TRIANGLE.long())
    refused(r"\(B, 3, 3\) is allowed", views=FRONT[0])
    refused("that of the vertices", colours=torch.zeros(2, 3))
    refused("above 0", size=0)


def test_the_z_buffer_s_picture_has_its_middle_where_it_should():
    corners = torch.tensor([[-0.5, -0.5, 0], [0.5, -0.5, 0], [0.5, 0.5, 0], [-0.5, 0.5, 0]])
    square = hard_raster.render(
        corners.double() * 0.99, torch.tensor([[0, 1, 2], [0, 2, 3]]), FRONT, 16
    )[0][0]
    assert torch.equal(square, square.flip(0)) and torch.equal(square, square.flip(1))


def test_distances_to_a_triangle_by_hand():
    corners = torch.tensor([[[0.0, 0], [4, 0], [0, 3]]]).double()
    points = torch.tensor([[1.0, 1], [-1, 1], [2, -2], [-3, -4], [4, 3]]).double()
    found, weights = sr.signed_distance(points, corners.expand(5, 3, 2))
    slope = (4 * 3 + 3 * 4 - 12) / 5  # of (4, 3) from the long side
    assert found.tolist() == pytest.approx([-((5 / 5) ** 2), 1, 4, 25, slope**2])
    assert weights[0].tolist() == pytest.approx([1 - 1 / 4 - 1 / 3, 1 / 4, 1 / 3])
    turned, _ = sr.signed_distance(points, corners.flip(1).expand(5, 3, 2))
    assert torch.equal(found, turned), "either way round"


@pytest.mark.parametrize("sigma", [1e-4, 1e-3])
def test_the_silhouette_is_that_of_the_plainest_loop(sigma):
    vertices, faces, _ = meshes.car(1)
    views = cameras.around(3, seed=4)
    found, _ = sr.render(vertices.double(), faces, views, 14, sigma, most=1000)
    wanted = sr.silhouette_reference(vertices, faces, views, 14, sigma)
    assert (
        float((found - wanted).abs().max()) < len(faces) * sr.FAINT / 4
    )  # what the faint ones would have added
    assert float((found - wanted).abs().mean()) < 1e-4


def test_the_softness_is_that_of_the_formula():
    found, _ = sr.render(TRIANGLE, ONE, FRONT, 32, 1e-3)
    seen = cameras.project(TRIANGLE, FRONT)[0, :, :2]
    across, down = cameras.pixels(32, seen)
    for row, column in ((16, 16), (23, 16), (24, 16), (9, 20)):
        point = torch.stack([across[column], down[row]])[None]
        distance, _ = sr.signed_distance(point, seen[None])
        wanted = float(torch.sigmoid(-distance / 1e-3))
        assert float(found[0, row, column]) == pytest.approx(
            wanted if wanted > 1e-4 else 0, abs=1e-9
        )


def test_of_two_triangles_the_nearer_one_is_seen():
    both = torch.cat([TRIANGLE, TRIANGLE + torch.tensor([0, 0, 0.4])])
    colours = torch.tensor([[1.0, 0, 0]] * 3 + [[0, 0, 1.0]] * 3).double()
    for order in ([0, 1, 2, 3, 4, 5], [3, 4, 5, 0, 1, 2]):
        faces = torch.tensor(order).view(2, 3)
        for picture in (
            sr.render(both, faces, FRONT, 16, colours=colours)[1],
            hard_raster.render(both, faces, FRONT, 16, colours)[1],
        ):
            assert picture[0, 8, 8].tolist() == pytest.approx([0, 0, 1], abs=1e-3)
            assert picture[0, 0, 0].tolist() == pytest.approx([1, 1, 1], abs=1e-6)


def test_colours_are_mixed_with_perspective():
    tilted = torch.tensor(
        [[-0.8, -0.8, 0.9], [0.8, -0.8, -0.9], [0.8, 0.8, -0.9], [-0.8, 0.8, 0.9]]
    ).double()
    faces = torch.tensor([[0, 1, 2], [0, 2, 3]])
    colours = torch.tensor([[1.0, 0, 0], [0, 0, 1], [0, 0, 1], [1, 0, 0]]).double()
    soft, hard = (
        one.render(tilted, faces, FRONT, 32, colours=colours)[1] for one in (sr, hard_raster)
    )
    # in the middle of the picture lies the middle of the square: half of each colour; a mix in
    # the picture says otherwise
    assert float(soft[0, 16, 16, 0]) == pytest.approx(0.5, abs=0.06)
    assert float((soft[0, 10:22, 10:22] - hard[0, 10:22, 10:22]).abs().max()) < 0.01


def test_a_sphere_covers_a_disc():
    vertices, faces = meshes.icosphere(4)
    covered, _ = hard_raster.render(vertices * 0.8, faces, cameras.around(3, seed=2), 64)
    radius = cameras.FOCUS * 0.8 / math.sqrt(2.7**2 - 0.8**2)  # of its outline, seen from 2.7
    share = math.pi * radius**2 / 4
    assert covered.mean((1, 2)).tolist() == pytest.approx([share] * 3, rel=0.01)
    soft, _ = sr.render(vertices * 0.8, faces, cameras.around(3, seed=2), 64)
    assert soft.mean((1, 2)).tolist() == pytest.approx([share] * 3, rel=0.06)


def test_every_view_is_rendered_as_if_alone():
    vertices, faces, colours = meshes.car(2)
    views = cameras.around(3, seed=5)
    for renderer in (sr, hard_raster):
        together = renderer.render(vertices, faces, views, 24, colours=colours)
        alone = [
            renderer.render(vertices, faces, view[None], 24, colours=colours) for view in views
        ]
        for whole, own in zip(together, zip(*alone, strict=True), strict=True):
            assert torch.allclose(whole, torch.cat(own), atol=1e-5)


def test_only_the_nearest_triangles_count():
    four = torch.cat([TRIANGLE + torch.tensor([0, 0, 0.1 * at]) for at in range(4)])
    faces = torch.arange(12).view(4, 3)
    pairs = sr.near_pairs(cameras.project(four, FRONT)[0][faces], 1, 16, 1e-4, 2)
    assert pairs.most == 4 and torch.bincount(pairs.pixel).max() == 2
    assert {*pairs.face.tolist()} == {2, 3}, "z grows towards the camera"


def test_gradients_in_float64():
    vertices, faces = meshes.icosphere(0, torch.float64)
    vertices = (vertices * 0.7).requires_grad_()
    colours = torch.rand(
        12, 3, dtype=torch.float64, generator=torch.manual_seed(0)
    ).requires_grad_()
    views = cameras.around(1, seed=6).double()

    def picture(v, c):
        found = sr.render(v, faces, views, 6, sigma=1e-2, colours=c, gamma=1e-1)
        return found[0].square().sum() + found[1].square().sum()

    assert torch.autograd.gradcheck(
        picture, (vertices, colours), eps=1e-7, atol=1e-5, rtol=1e-3
    )


def test_a_gradient_pulls_the_outline_towards_what_is_wanted():
    vertices, faces = meshes.icosphere(2)
    scale = torch.tensor(0.6, requires_grad=True)
    views = cameras.around(2, seed=7)
    wanted, _ = hard_raster.render(vertices * 0.8, faces, views, 32)
    (sr.render(vertices * scale, faces, views, 32)[0] - wanted).square().mean().backward()
    assert scale.grad < 0, "larger is better"


def test_a_mesh_outside_the_picture_and_a_flat_triangle_leave_it_empty():
    away = TRIANGLE + torch.tensor([9.0, 0, 0])
    edge_on = torch.tensor([[0.0, -0.5, 0.4], [0, 0.5, 0.0], [0, 0.5, 0.4]]).double()
    for vertices in (away, edge_on):
        for renderer in (sr, hard_raster):
            covered, picture = renderer.render(
                vertices, ONE, FRONT, 8, colours=torch.zeros(3, 3).double()
            )
            assert float(covered.sum()) == 0 and float(picture.min()) == 1
