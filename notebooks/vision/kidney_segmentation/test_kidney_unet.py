"""The network: folding, shifts, learning, the baseline, and the weights that are committed."""

import ct_phantom
import kidney_unet as ku
import pytest
import torch


@pytest.fixture(scope="module")
def case():
    return ct_phantom.reduced(ct_phantom.geometric(56), 16)


def test_folding_keeps_the_scores():
    net = ku.Unet().train()
    x = torch.randn(2, 1, 8, 8, 8)
    net(x)
    wanted = net.eval()(x)
    assert torch.allclose(ku.folded(net)(x), wanted, atol=1e-4)


def test_windows_that_start_at_fours_see_the_same_inside():
    net = ku.folded(ku.Unet())
    x = torch.randn(1, 1, 16, 16, 48)
    whole, part = net(x), net(x[..., 4:44])
    inside = slice(18, 22)
    assert torch.allclose(whole[..., 22:26], part[..., inside], atol=1e-4)


def test_a_few_steps_learn_and_a_seed_repeats_them(case):
    net, told = ku.trained([case], 8, window=16)
    again, same = ku.trained([case], 8, window=16)
    assert told == same and sum(told[-2:]) < sum(told[:2])
    assert all(
        torch.equal(a, b) for a, b in zip(net.parameters(), again.parameters(), strict=True)
    )
    assert ku.trained([case], 2, seed=1, window=16)[1] != told[:2]


def test_nothing_to_learn_from_is_refused():
    with pytest.raises(ValueError, match="no cases"):
        ku.trained([], 1)


def test_cuts_lie_inside_and_keep_scan_and_labels_together():
    labels = torch.zeros(20, 24, 28, dtype=torch.uint8)
    labels[0, 0, 0], labels[19, 23, 27] = 1, 2
    made = torch.Generator().manual_seed(0)
    for _ in range(30):
        scan, found = ku.cut(labels.float(), labels, 16, made)
        assert scan.shape == found.shape == (16, 16, 16) and torch.equal(scan, found.float())


def test_the_loss_is_least_for_the_truth():
    truth = torch.randint(0, 3, (1, 4, 4, 4))
    right = 20 * torch.nn.functional.one_hot(truth, 3).movedim(-1, 1).float()
    assert ku.losses(right, truth) < 0.01 < ku.losses(-right, truth)
    assert ku.losses(right, truth) < ku.losses(0 * right, truth)


def test_the_baseline_is_a_range_of_hounsfield_units():
    at = torch.tensor([[[40.0, 121.0, 229.0, 300.0]]])
    assert ku.threshold((at - 101) / 76.9).tolist() == [[[0, 1, 1, 0]]]


def test_the_committed_weights_load_and_are_small():
    assert ku.WEIGHTS.stat().st_size < 1e6
    net = ku.load()
    assert net(torch.zeros(1, 1, 8, 8, 8)).shape == (1, 3, 8, 8, 8)
    assert not any(one.requires_grad for one in net.parameters())
