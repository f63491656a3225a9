"""Meshes: closed, counted, turned outward; points that lie where they are said to."""

import math

import meshes
import pytest
import torch


@pytest.mark.parametrize("level", [0, 1, 3])
def test_an_icosphere_has_its_counts_and_lies_on_the_sphere(level):
    vertices, faces = meshes.icosphere(level)
    assert vertices.shape == (10 * 4**level + 2, 3) and faces.shape == (20 * 4**level, 3)
    assert torch.allclose(vertices.norm(dim=1), torch.ones(len(vertices)), atol=1e-6)
    assert len(torch.unique(vertices, dim=0)) == len(vertices), "no vertex twice"
    assert meshes.euler(vertices, faces) == 2
    assert len(meshes.neighbours(faces)) == 30 * 4**level, "every edge beside two faces"


def test_every_face_is_turned_outward():
    for vertices, faces in (meshes.icosphere(2), meshes.car(3)[:2], meshes.ring()):
        a, b, c = vertices[faces].unbind(1)
        volume = (torch.linalg.cross(a, b) * c).sum() / 6
        assert volume > 0
    vertices, faces = meshes.icosphere(2)
    a, b, c = vertices[faces].unbind(1)
    assert ((torch.linalg.cross(b - a, c - a) * (a + b + c)).sum(1) > 0).all()


def test_the_sphere_of_level_five_has_nearly_a_sphere_s_area():
    assert float(meshes.areas(*meshes.icosphere(5)).sum()) == pytest.approx(
        4 * math.pi, rel=2e-3
    )


@pytest.mark.parametrize("level", [-1, 8, 1.5, "3"])
def test_a_level_that_is_none_is_refused(level):
    with pytest.raises(ValueError, match="allowed are 0 to 7"):
        meshes.icosphere(level)


def test_a_mesh_with_a_hole_is_refused():
    with pytest.raises(ValueError, match="3 edges lie beside one face"):
        meshes.neighbours(meshes.icosphere(1)[1][1:])


def test_neighbours_share_two_vertices():
    _, faces = meshes.icosphere(1)
    for one, other in meshes.neighbours(faces).tolist():
        assert one != other and len({*faces[one].tolist()} & {*faces[other].tolist()}) == 2


def test_a_ring_cannot_be_a_sphere():
    assert meshes.euler(*meshes.ring()) == 0 and meshes.euler(*meshes.car(2)[:2]) == 2


def test_points_are_spread_by_area_and_lie_on_the_surface():
    vertices = torch.tensor([[0.0, 0, 0], [3, 0, 0], [0, 1, 0], [0, 0, 1.0]])
    faces = torch.tensor([[0, 1, 2], [0, 3, 2]])  # areas 1.5 and 0.5
    points = meshes.on_surface(vertices, faces, 4000, seed=1)
    first = (points[:, 2] == 0).float().mean()
    assert 0.72 < first < 0.78 and (points >= 0).all()
    mine = points[points[:, 2] == 0]
    assert torch.allclose(mine.mean(0), torch.tensor([1.0, 1 / 3, 0]), atol=0.04), (
        "the triangle's middle"
    )
    assert torch.equal(points, meshes.on_surface(vertices, faces, 4000, seed=1))


def test_the_car_lies_on_its_parts_surface_and_wears_their_colours():
    vertices, faces, colours = meshes.car(3)
    parts = meshes.car_parts()
    depth = meshes._depth(vertices.double(), parts)
    assert torch.allclose(
        depth.amin(1), torch.ones(len(vertices), dtype=torch.float64), atol=2e-3
    )
    owner = depth.argmin(1)
    for number, part in enumerate(parts[1:], start=1):
        assert (colours[owner == number] == torch.tensor(part.colour)).all()
    assert {parts[number].name for number in owner.tolist()} == {"body", "cabin", "wheel"}
    assert len(torch.unique(colours, dim=0)) == 4, "body, glass, wheels, lamps"


def test_proportions_stretch_the_car():
    plain, long, high = (
        meshes.car(3, **own)[0] for own in ({}, {"length": 0.8}, {"height": 1.3})
    )
    assert float(long[:, 0].max()) == pytest.approx(0.8 * float(plain[:, 0].max()), rel=0.02)
    assert float(high[:, 1].max()) > 1.25 * float(plain[:, 1].max())


@pytest.mark.parametrize("wrong", [0.0, -1.0, 3.0, math.nan])
def test_a_car_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError, match="above 0 to 1.5"):
        meshes.car(1, length=wrong)


@pytest.mark.parametrize("wrong", [0.0, math.nan])
def test_a_surface_without_an_area_has_no_points(wrong):
    vertices, faces = meshes.icosphere(0)
    with pytest.raises(ValueError, match="their sum above 0"):
        meshes.on_surface(vertices * wrong, faces, 5)


def test_measures_are_trimesh_s():
    trimesh = pytest.importorskip("trimesh")
    vertices, faces, _ = meshes.car(3)
    peer = trimesh.Trimesh(vertices.numpy(), faces.numpy(), process=False)
    assert peer.is_watertight and peer.is_winding_consistent and peer.euler_number == 2
    assert peer.area == pytest.approx(
        float(meshes.areas(vertices.double(), faces).sum()), rel=1e-6
    )
    assert len(peer.edges_unique) == len(meshes.edges(faces))
