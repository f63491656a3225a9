"""The race's contestants: equal before they are timed, what the filter's matrix must be, and
what is recorded of them."""

from types import SimpleNamespace

import bench_frequency_components as peers
import pytest
import torch
from frequency_split import mask
from gradient_attacks import fgsm
from helpers import bench, check, receipts
from helpers.device import Tier
from small_cnn import SmallCNN


def pictures(count):
    return torch.rand(count, 1, 28, 28, generator=torch.Generator().manual_seed(0))


def test_all_formulations_of_the_split_agree():
    images = pictures(5)
    pairs = peers.split_contestants(images, 8, threads=1)
    assert set(pairs) == set(peers.LABELS.values())
    assert peers.check_splits(pairs) < 1e-5


def test_scipy_gets_as_many_threads_as_the_others():
    scipy = peers.split_contestants(pictures(1), 8, threads=3)[peers.LABELS["scipy"]]
    assert scipy.keywords["workers"] == 3


def test_a_wrong_contestant_is_told():
    pairs = peers.split_contestants(pictures(2), 8, threads=1)
    other = peers.split_contestants(pictures(2), 8.1, 1)  # four frequencies more
    pairs["another radius"] = other[peers.LABELS["ours"]]
    with pytest.raises(check.Failed, match="values differ"):
        peers.check_splits(pairs)


def test_the_matrix_of_the_filter_is_a_symmetric_projection():
    matrix = peers.filter_matrix(12, 4).double()
    torch.testing.assert_close(matrix, matrix.T, atol=1e-6, rtol=0)
    torch.testing.assert_close(matrix @ matrix, matrix, atol=1e-6, rtol=0)
    kept = int(mask(12, 12, 4).sum())
    assert matrix.trace().item() == pytest.approx(kept, abs=1e-3)  # its rank


def test_the_bytes_are_at_least_those_of_reading_once_and_writing_twice():
    images = torch.empty(10, 1, 28, 28)
    for radius in (1, 8, 14):
        assert 12 * images.numel() < peers.moved_bytes(images, radius) < 60 * images.numel()
    assert round(peers.moved_bytes(images, 8) / images.numel()) == 34  # as the page says


def test_the_attacks_equal_the_peer_s_and_another_budget_is_told(monkeypatch):
    pytest.importorskip("torchattacks", reason="torchattacks, a peer, is not installed")
    torch.manual_seed(0)
    model, images = SmallCNN(4, norm=True).eval(), pictures(16)
    labels = torch.arange(16) % 10
    assert peers.check_attacks(model, images, labels) <= 1e-6
    wrong = lambda m, x, y, epsilon: fgsm(m, x, y, 0.9 * epsilon)  # noqa: E731
    monkeypatch.setattr(peers, "fgsm", wrong)
    with pytest.raises(check.Failed, match="values differ"):
        peers.check_attacks(model, images, labels)


def test_the_attacks_are_compared_on_a_power_of_two_images_alone():
    model, images = SmallCNN(2).eval(), pictures(12)
    with pytest.raises(ValueError, match="12 images; a power of two"):
        peers.check_attacks(model, images, torch.zeros(12, dtype=torch.long))


SECONDS = {"ours": 1, "half": 2.5, "whole": 3, "shifted": 9, "matrix": 2, "scipy": 1.5}


@pytest.fixture
def told(monkeypatch):
    """The metrics of a whole run over 300 images: splits take the seconds above, 256 images'
    attacks 1 s by ours and 4 s by the peer."""
    splits = {peers.LABELS[name]: s for name, s in SECONDS.items()}
    attacks = {"ours": 1.0, "torchattacks": 4.0}
    steps = {"low_pass": 0.6, "split": 0.8}

    def raced(contestants, repeats, reference=None):
        reference = reference or next(iter(contestants))
        results = {
            name: bench.Measurement(s, s, s, (s,) * repeats, None, "cpu")
            for name, s in (splits | attacks | steps).items()
            if name in contestants
        }
        ratios = {name: bench.ratio(results[reference], one) for name, one in results.items()}
        return bench.Race(results, ratios, reference)

    receipt, limits = receipts.start("frequency_components", "cpu", 1), []
    monkeypatch.setattr(receipt, "write", lambda name: name)
    monkeypatch.setattr(peers.receipts, "start", lambda *given: receipt)
    monkeypatch.setattr(peers.device, "tier", lambda: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(peers.torch, "set_num_threads", limits.append)
    asked = lambda *given: limits.append(given[2]) or splits  # noqa: E731
    monkeypatch.setattr(peers, "split_contestants", asked)
    monkeypatch.setattr(peers, "check_splits", lambda pairs: 0.0)
    monkeypatch.setattr(peers, "attack_contestants", lambda *given: attacks)
    monkeypatch.setattr(peers, "check_attacks", lambda *given: 0.0)
    monkeypatch.setattr(peers.bench, "race", raced)
    peak = SimpleNamespace(copy_bytes_per_s=1e9)
    monkeypatch.setattr(peers.bench, "peak", lambda: peak)
    peers.main(["--images", "300", "--rounds", "6", "--threads", "3"])
    assert limits == [3, 3]  # torch's, and those of the splits' contestants
    return {name: one["value"] for name, one in receipt.metrics.items()}


def test_a_split_s_speedup_is_the_other_s_time_over_ours(told):
    wanted = {"half": 2.5, "whole": 3, "shifted": 9, "matrix": 2, "scipy": 1.5}
    assert {name: told[f"split_speedup_over_{name}"] for name in wanted} == wanted


def test_the_products_share_is_the_low_part_s_time_over_the_split_s(told):
    assert told["split_products_share"] == pytest.approx(0.75)


def test_the_copy_share_is_the_moved_bytes_over_time_and_rate(told):
    p = 16 / 28  # waves below radius 8 on a side of 28, filled up
    assert told["split_copy_share"] == pytest.approx(
        300 * 784 * (20 + 16 * p + 16 * p * p) / 1e9, rel=1e-6
    )


def test_a_split_s_rate_counts_the_images(told):
    assert told["split_ours_rate"] == 300 and told["split_whole_rate"] == 100


def test_the_attack_s_speedup_is_the_peer_s_time_over_ours(told):
    assert told["attack_speedup_over_torchattacks"] == 4


def test_an_attack_s_rate_counts_ten_steps_of_each_image(told):
    assert told["attack_ours_rate"] == 2560 and told["attack_torchattacks_rate"] == 640
