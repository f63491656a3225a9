import pytest
import torch

from . import bench_fourier_operator as races
from .spectral_conv import SpectralConv


@pytest.mark.parametrize("points, modes", [((8, 12), (2, 3)), ((8, 8, 8), (2, 3, 2))])
def test_the_peer_gets_the_same_weights(points, modes):
    pytest.importorskip("neuralop", reason="no neuraloperator here")
    conv, field = SpectralConv(2, 2, modes), torch.randn(1, 2, *points)
    assert torch.allclose(races.peer_of(conv, modes)(field), conv(field), atol=1e-5)


def test_no_race_between_layers_that_disagree(monkeypatch):
    monkeypatch.setattr(SpectralConv, "_by_matrices", lambda self, x, sizes: 1.01 * x)
    with pytest.raises(AssertionError, match="matrices differs by"):
        races.layer_race((8, 12), (2, 3), 2, 1, "cpu", 1)
