"""The race's contestants: equal before they are timed, and what the filter's matrix must be."""

import bench_frequency_components as peers
import pytest
import torch
from frequency_split import mask
from gradient_attacks import fgsm
from helpers import check
from small_cnn import SmallCNN


def pictures(count):
    return torch.rand(count, 1, 28, 28, generator=torch.Generator().manual_seed(0))


def test_all_formulations_of_the_split_agree():
    images = pictures(5)
    pairs = peers.split_contestants(images, 8, threads=1)
    assert set(pairs) == set(peers.LABELS.values())
    assert peers.check_splits(pairs) < 1e-5


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
    assert 12 * images.numel() < peers.moved_bytes(images) < 60 * images.numel()


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
