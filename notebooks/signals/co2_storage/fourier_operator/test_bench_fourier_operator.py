import pytest
import torch
from helpers import bench, receipts
from helpers.device import Tier

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


def test_a_way_of_a_third_of_the_transforms_time_is_three_times_as_fast(monkeypatch):
    seconds = {"fast transforms": 3.0, "matrices": 1.0, "neuraloperator": 6.0}
    threads, backward = [], []

    def raced(contestants, repeats, warmup, reference, device):
        assert threads == [3]
        for step in contestants.values():
            step()
        assert len(backward) == len(contestants), "each goes forward and backward"
        backward.clear()
        results = {
            name: bench.Measurement(s, s, s, (s,) * repeats, None, device)
            for name, s in seconds.items()
            if name in contestants
        }
        ratios = {name: bench.ratio(results[reference], one) for name, one in results.items()}
        return bench.Race(results, ratios, reference)

    receipt = receipts.start("co2_storage", "cpu", 3)
    monkeypatch.setattr(receipt, "write", lambda name: name)
    monkeypatch.setattr(races.receipts, "start", lambda *given: receipt)
    monkeypatch.setattr(races.device, "tier", lambda: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(races.torch, "set_num_threads", threads.append)
    monkeypatch.setattr(torch.Tensor, "backward", lambda field: backward.append(field))
    monkeypatch.setattr(races, "LAYERS", dict.fromkeys(races.LAYERS, ((8, 12), (2, 3), 2)))
    monkeypatch.setattr(races.bench, "race", raced)
    races.main(["--rounds", "6", "--batch", "1", "--threads", "3"])
    found = {name: one["value"] for name, one in receipt.metrics.items()}
    assert found["layer_darcy_matrices"] == 3 and found["layer_darcy_fast_transforms"] == 1
    assert found.get("layer_darcy_neuraloperator", 0.5) == 0.5  # a peer
