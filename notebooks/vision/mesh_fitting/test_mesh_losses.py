"""Losses: by hand on small meshes, gradients in float64, and what must not be accepted."""

import math

import mesh_losses as ml
import meshes
import pytest
import torch
from scipy.spatial import cKDTree


def test_chamfer_sums_both_directions_mean_squared_distances():
    a = torch.tensor([[0.0, 0, 0], [1, 0, 0]])
    b = torch.tensor([[0.0, 0, 0], [0, 0, 3], [1, 0, 0], [1, 2, 0]])
    assert float(ml.chamfer(a, b)) == pytest.approx(0 + (0 + 9 + 0 + 4) / 4)
    assert float(ml.chamfer(b, a)) == float(ml.chamfer(a, b))


def test_chamfer_of_batches_is_the_mean_over_them():
    a, b = torch.rand(2, 30, 3, generator=torch.manual_seed(0)), torch.rand(2, 20, 3)
    each = [float(ml.chamfer(one, other)) for one, other in zip(a, b, strict=True)]
    assert float(ml.chamfer(a, b)) == pytest.approx(sum(each) / 2)


def test_chamfer_is_that_of_a_tree(monkeypatch):
    monkeypatch.setattr(ml, "NEAREST", 100)
    a, b = torch.rand(2, 700, 3, dtype=torch.float64, generator=torch.manual_seed(1))
    both = [cKDTree(one.numpy()).query(other.numpy())[0] for one, other in ((a, b), (b, a))]
    assert float(ml.chamfer(a, b)) == pytest.approx(
        sum((one**2).mean() for one in both), rel=1e-12
    )


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [
        ((4, 3), (2, 4, 3), "is allowed"),
        ((4, 2), (4, 2), "is allowed"),
        ((2, 4, 3), (3, 4, 3), "is allowed"),
        ((12,), (12,), "is allowed"),
        ((0, 3), (4, 3), "no points"),
    ],
)
def test_points_of_another_shape_are_refused(a, b, why):
    with pytest.raises(ValueError, match=why):
        ml.chamfer(torch.zeros(a), torch.zeros(b))


def test_the_laplacian_by_hand():
    vertices = torch.tensor([[1.0, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0], [0, 0, 1]])
    faces = torch.tensor([[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]])
    # the top: its four neighbours' middle is 0, so 1; the others: two of the square and the top
    side = math.dist((0, 0, 1 / 3), (1, 0, 0))
    assert float(ml.laplacian(vertices, faces)) == pytest.approx((4 * side + 1) / 5)


def test_moving_and_stretching_a_mesh():
    vertices, faces = meshes.icosphere(2, torch.float64)
    sides, beside = meshes.edges(faces), meshes.neighbours(faces)
    moved, large = vertices + 5, vertices * 3
    assert float(ml.laplacian(moved, faces)) == pytest.approx(
        float(ml.laplacian(vertices, faces))
    )
    assert float(ml.laplacian(large, faces)) == pytest.approx(
        3 * float(ml.laplacian(vertices, faces))
    )
    assert float(ml.edge_length(large, sides)) == pytest.approx(
        9 * float(ml.edge_length(vertices, sides))
    )
    rough = ml.normal_consistency(vertices, faces, beside)
    assert float(ml.normal_consistency(large, faces, beside)) == pytest.approx(float(rough))


def test_a_fold_by_its_angle():
    vertices = torch.tensor(
        [[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, -math.cos(1), math.sin(1)]], dtype=torch.float64
    )
    faces = torch.tensor([[0, 1, 2], [1, 0, 3]])
    assert float(
        ml.normal_consistency(vertices, faces, torch.tensor([[0, 1]]))
    ) == pytest.approx(1 - math.cos(1))


@pytest.mark.parametrize("loss", ["laplacian", "edge", "normal", "chamfer"])
def test_gradients_in_float64(loss):
    sphere, faces = meshes.icosphere(0, torch.float64)
    vertices = (
        sphere + 0.1 * torch.randn(sphere.shape, generator=torch.manual_seed(2)).double()
    ).requires_grad_()
    others = torch.rand(9, 3, dtype=torch.float64)
    call = {
        "laplacian": lambda v: ml.laplacian(v, faces),
        "edge": lambda v: ml.edge_length(v, meshes.edges(faces)),
        "normal": lambda v: ml.normal_consistency(v, faces, meshes.neighbours(faces)),
        "chamfer": lambda v: ml.chamfer(v, others),
    }[loss]
    assert torch.autograd.gradcheck(call, (vertices,))


def test_means_over_nothing_are_refused():
    vertices, faces = meshes.icosphere(0)
    none = faces[:0]
    for call in (
        lambda: ml.laplacian(vertices, none),
        lambda: ml.edge_length(vertices, none[:, :2]),
        lambda: ml.normal_consistency(vertices, faces, none[:, :2]),
    ):
        with pytest.raises(ValueError, match="is not defined"):
            call()


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (torch.zeros(0, 4, 4), torch.zeros(0, 4, 4), "two alike"),
        (torch.zeros(1, 4, 4), torch.zeros(1, 8, 8), "two alike"),
        (torch.full((1, 2, 2), math.nan), torch.zeros(1, 2, 2), "no finite number"),
    ],
)
def test_an_overlap_of_nothing_is_refused(one, other, why):
    with pytest.raises(ValueError, match=why):
        ml.iou(one, other)


def test_iou_counts_pixels_at_one_half():
    one, other = torch.zeros(2, 1, 4, 4)
    one[:, :2], other[:, 1:3] = 0.6, 1.0
    other[:, 3] = 0.4
    assert float(ml.iou(one, other)) == pytest.approx(4 / 12)
    assert float(ml.iou(one * 0, other * 0)) == 1
    assert float(ml.iou(torch.stack([one, one]), torch.stack([one, other]))) == pytest.approx(
        (1 + 4 / 12) / 2
    )
