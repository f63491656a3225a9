"""Carving: it keeps what all silhouettes cover, reads no colours, and says where it cannot."""

from dataclasses import replace

import cameras
import carving
import mesh_fitting as mf
import meshes
import pytest
import torch


def test_a_carved_sphere_is_that_sphere():
    sphere, faces = meshes.icosphere(3)
    ball = (sphere * 0.7, faces, torch.zeros_like(sphere))
    given = mf.photographed(ball, cameras.around(20, seed=1), 64)
    vertices, own = carving.carve(given, 2)
    assert torch.equal(own, meshes.icosphere(2)[1])
    radius = vertices.norm(dim=1)  # a pixel is 0.05 wide, a look along a ray 0.013
    assert float(radius.min()) > 0.65 and float(radius.mean()) == pytest.approx(0.7, abs=0.03)


def test_what_one_picture_shows_as_empty_is_cut_away():
    given = mf.photographed(meshes.car(2), cameras.around(4), 32)
    fewer = replace(given, silhouettes=given.silhouettes.clone())
    fewer.silhouettes[1] *= 0.4
    fewer.silhouettes[1, 15:17, 15:17] = 1
    whole, cut = (carving.carve(one, 2)[0].norm(dim=1) for one in (given, fewer))
    assert (cut <= whole).all() and float(cut.mean()) < 0.6 * float(whole.mean())


def test_carving_covers_unseen_views_and_reads_no_colours():
    car, held = meshes.car(3), cameras.around(4, seed=9)
    given = mf.photographed(car, cameras.around(12), 48)
    found = carving.carve(given, 3)
    assert mf.judged(*found, car, held, 48)["iou"] > 0.88
    grey = replace(given, pictures=given.pictures * 0)
    assert torch.equal(carving.carve(grey, 3)[0], found[0])


def test_a_ring_has_no_middle_to_start_from():
    ring, faces = meshes.ring()
    above = cameras.axes(torch.zeros(1), torch.tensor([torch.pi / 2]))
    given = mf.photographed((ring, faces, ring), above, 32)
    with pytest.raises(ValueError, match="does not cover the middle"):
        carving.carve(given, 1)
