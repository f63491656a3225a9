"""The network: it begins with the sphere, learns from its pictures, and its cars are drawn
apart.
"""

import cameras
import meshes
import offsets_network as on
import pytest
import torch


@pytest.fixture(scope="module")
def cars():
    return on.draw(24, seed=0)


def test_a_new_network_says_the_sphere(cars):
    network = on.OffsetsNetwork()
    sphere, faces = meshes.icosphere(on.LEVEL)
    assert torch.equal(network(cars.seen[:2])[1], sphere) and torch.equal(network.faces, faces)


def test_cars_are_drawn_by_their_seed(cars):
    again, others = on.draw(3, seed=0), on.draw(3, seed=1)
    assert torch.equal(again.vertices, cars.vertices[:3])
    assert not torch.allclose(others.vertices, again.vertices, atol=1e-3)
    assert cars.seen.shape == (24, 2, 32, 32) and len(torch.unique(cars.seen, dim=0)) == 24


def test_pictures_and_vertices_are_of_the_same_car(cars):
    wide, long = cars.seen[:, 0].amax(1).sum(1), cars.vertices[:, :, 0].amax(1)
    assert float(torch.corrcoef(torch.stack([wide, long]))[0, 1]) > 0.9


def test_it_learns_what_the_mean_car_does_not_know(cars):
    network = on.train(cars, steps=80, batch=24)
    with torch.no_grad():
        error = (network(cars.seen) - cars.vertices).square().mean()
        blind = (network(cars.seen.flip(0)) - cars.vertices).square().mean()
    mean = (cars.vertices.mean(0) - cars.vertices).square().mean()
    assert error < mean and blind > error, "another car's pictures give another car"


def test_overlaps_of_the_truth_are_one(cars):
    eyes = cameras.around(2, seed=5)
    few = on.Cars(cars.seen[:2], cars.vertices[:2])
    _, faces = meshes.icosphere(on.LEVEL)
    assert on.overlaps(few.vertices, few, faces, eyes, 24) == [1, 1]
    assert max(on.overlaps(few.vertices.flip(0), few, faces, eyes, 24)) < 1


def test_no_network_has_looked_through_the_judging_eyes():
    for view in cameras.around(6, seed=5):
        assert (on.EYES - view).abs().amax((1, 2)).min() > 0.05


def test_silhouettes_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="is allowed"):
        on.OffsetsNetwork()(torch.zeros(1, 2, 16, 16))
