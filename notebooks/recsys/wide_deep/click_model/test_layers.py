"""Lookups by both ways are equal, weights start as said."""

import pytest
import torch
from torch import nn

from .layers import glorot_normal, look_up_sum


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


def test_glorot_normal_has_its_variance_and_its_cut():
    torch.manual_seed(0)
    drawn = glorot_normal(3000, 200)
    deviation = (2 / 3200) ** 0.5
    assert abs(drawn.std() / deviation - 1) < 0.01
    assert drawn.abs().max() <= 2 * deviation / 0.8796 and abs(drawn.mean()) < 0.01 * deviation
