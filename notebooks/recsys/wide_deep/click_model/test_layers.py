"""Lookups by both ways are equal, dropout is chance of its size, weights start as said."""

import pytest
import torch
from torch import nn

from .layers import Dropout, glorot_normal, look_up_sum


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("shape", [(5, 3), (4, 2, 3), (0, 3)])
def test_both_ways_to_sum_rows_are_equal_and_skip_row_0(shape, sparse):
    torch.manual_seed(0)
    start, at, found = torch.randn(6, 4), torch.randint(0, 6, shape), []
    for fused in (True, False):
        weight = nn.Parameter(start.clone())
        sums = look_up_sum(weight, at, sparse, fused)
        sums.square().sum().backward()
        grad = torch.zeros(6, 4) if weight.grad is None else weight.grad.to_dense()
        found.append((sums.detach(), grad))
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(
        found[0][0], torch.where(at[..., None] == 0, 0, start[at]).sum(-2)
    )


@pytest.mark.parametrize("p", [0.1, 0.5, 0.001])
def test_dropout_zeroes_its_share_independently_and_keeps_the_mean(p):
    torch.manual_seed(0)
    found = Dropout(p)(torch.ones(1001, 999))
    share = (found == 0).double().mean(0)
    assert abs(share.mean() - p) < 5e-4
    kept = torch.tensor([0.0, 1 / (1 - p)])
    torch.testing.assert_close(found.unique(), kept, rtol=1 / 65_536, atol=0)  # steps of p
    assert abs(share.std() / (p * (1 - p) / 1001) ** 0.5 - 1) < 0.1  # as for independent draws
    zero = (found == 0).double() - p
    for step in (1, 2, 3, 4):  # neighbours in one draw
        together = (zero[:, step:] * zero[:, :-step]).mean() / (p * (1 - p))
        assert abs(together) < 0.005
    assert abs(found.mean() - 1) < 5e-3 * max(1, p / (1 - p))


def test_dropout_of_nearly_everything_keeps_nearly_nothing():
    torch.manual_seed(0)
    found = Dropout(1 - 1e-6)(torch.ones(1001, 999))
    assert 0 < (found != 0).sum() < 50 and found.unique().tolist() == [0, 65_536]


def test_dropout_is_off_in_evaluation_and_its_gradient_is_its_mask():
    x = torch.randn(7, 5, requires_grad=True)
    assert Dropout(0.5).eval()(x) is x and Dropout(0)(x) is x
    Dropout(0.5)(x).sum().backward()
    assert set(x.grad.unique().tolist()) == {0.0, 2.0}
    with pytest.raises(ValueError, match="dropout 1"):
        Dropout(1)


def test_glorot_normal_has_its_variance_and_its_cut():
    torch.manual_seed(0)
    drawn = glorot_normal(3000, 200)
    deviation = (2 / 3200) ** 0.5
    assert abs(drawn.std() / deviation - 1) < 0.01
    assert drawn.abs().max() <= 2 * deviation / 0.8796 and abs(drawn.mean()) < 0.01 * deviation
