"""The loss of known fields, and how weights fall."""

import pytest
import torch

from .descent import descend, relative_l2


def test_relative_l2_of_known_fields():
    true = torch.tensor([3.0, 4.0]).view(1, 2, 1, 1)
    assert relative_l2(0 * true, true).item() == 1
    assert relative_l2(true * 1.1, true).item() == pytest.approx(0.1)
    assert relative_l2(0 * true, 0 * true).item() == 0


@pytest.mark.parametrize("updates", [1, 9, 10, 11])
def test_a_training_may_be_short(updates):
    net = torch.nn.Linear(1, 1)
    losses = descend(net, lambda _: net.weight.square().sum(), updates, 1, batch=1)
    assert len(losses) == 1


@pytest.mark.parametrize("decoupled", [False, True])
def test_decay_that_is_coupled_takes_an_unused_weight_to_zero_and_decoupled_leaves_it(
    decoupled,
):
    used, unused = torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(unused.weight, 0.05)
    net = torch.nn.ModuleList([used, unused])
    one = torch.ones(1, 1)
    loss = lambda _: (used(one) - 1 + 0 * unused(one)).square().sum()  # noqa: E731
    descend(net, loss, 8, 100, decoupled=decoupled)
    if decoupled:
        assert 0.0499 < unused.weight.item() < 0.05, "it loses 1e-5 of itself in all"
    else:
        assert abs(unused.weight.item()) < 1e-3
