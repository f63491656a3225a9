import pytest
import torch

from . import bench_fourier_operator as races
from .spectral_conv import SpectralConv


def test_operations_of_one_axis_counted_by_hand():
    there_and_back = 2 * (2 * 10 * (2 * 3) * 4)  # (4, 10) @ (10, 6), and back
    assert races.matrix_flops((10,), (3,), 4, 1) == there_and_back + 8 * 4 * 4 * 3
    assert races.matrix_flops((10,), (3,), 4, 5) == 5 * races.matrix_flops((10,), (3,), 4, 1)


def test_operations_of_two_axes_transform_kept_waves_alone():
    real = 2 * 4 * 3 * 8 * 10
    complex_ = 2 * 8 * (2 * 2) * 8 * 3
    assert races.matrix_flops((8, 10), (2, 3), 1, 1) == real + complex_ + 8 * 4 * 3


@pytest.mark.parametrize("points, modes", [((8, 12), (2, 3)), ((8, 8, 8), (2, 3, 2))])
def test_the_peer_gets_the_same_weights(points, modes):
    pytest.importorskip("neuralop", reason="no neuraloperator here")
    conv, field = SpectralConv(2, 2, modes), torch.randn(1, 2, *points)
    assert torch.allclose(races.peer_of(conv, modes)(field), conv(field), atol=1e-5)


def test_no_race_between_layers_that_disagree(monkeypatch):
    monkeypatch.setattr(SpectralConv, "_by_matrices", lambda self, x, points: 1.01 * x)
    with pytest.raises(AssertionError, match="matrices differs by"):
        races.layer_race((8, 12), (2, 3), 2, 1, "cpu", 1)
