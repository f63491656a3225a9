"""Shapes without values: the same counts, at sizes that no CPU holds; what would need values raises or is NaN."""

import math

import pytest
import torch

from rehearsal import device
from rehearsal.tensor import CARD


def counts_of(make, shapes):
    """What the function that `make` returns does, by shapes or with values."""
    with device.by_shapes(shapes):
        call = make()
        call()
        with device.counted() as counts:
            call()
    return counts.work, counts.links, counts.waits


def network():
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv1d(3, 4, 5), torch.nn.BatchNorm1d(4), torch.nn.Flatten(), torch.nn.LazyLinear(2)
    )
    net(torch.zeros(2, 3, 16))
    net.cuda()
    x, labels, optimiser = torch.randn(8, 3, 16).cuda(), torch.arange(8).cuda() % 2, torch.optim.Adam(net.parameters())

    def step():
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(x), labels).backward()
        optimiser.step()

    return step


def alignment():
    log_probs, lengths = torch.zeros(20, 3, 5).cuda().requires_grad_(), torch.tensor([20, 20, 18]).cuda()
    targets, known = torch.ones(3, 4, dtype=torch.long).cuda(), torch.tensor([4, 4, 2])

    def loss():
        log_probs.grad = None
        torch.nn.functional.ctc_loss(log_probs.log_softmax(2), targets, lengths.cpu(), known).backward()

    return loss


def spectrum():
    x = torch.randn(64, 100).cuda()
    return lambda: torch.fft.irfft(torch.fft.rfft(x) * 2).cpu()


@pytest.mark.parametrize("make", [network, alignment, spectrum])
def test_shapes_count_what_values_count(make):
    by_shapes, by_values = counts_of(make, True), counts_of(make, False)
    assert by_shapes == by_values


def test_a_tensor_larger_than_any_memory_is_counted():
    with device.by_shapes(), device.counted() as counts:
        x = torch.empty(10**6, 10**6, device="cuda")
        (x * 2).sum()
    assert counts.peak_bytes > 8 * 10**12 and CARD.total_memory == 16 * 10**9


def test_numbers_read_are_nan_and_waited_for():
    with device.by_shapes(), device.counted() as counts:
        x = torch.ones(4).cuda()
        assert math.isnan(x.sum().item()) and x.cpu().isnan().all()
        target = torch.zeros(4)
        target.copy_(x)
        assert target.isnan().all()
    assert counts.syncs == 4  # with the copy up


@pytest.mark.parametrize(
    "decide",
    [
        lambda x: bool((x > 0).all()),
        torch.nonzero,
        lambda x: x[x > 0],
        lambda x: x.argmax().item(),
        lambda x: x.long().cpu(),
    ],
)
def test_what_decides_by_values_raises(decide):
    with device.by_shapes():
        x = torch.ones(100_000).cuda()
        with pytest.raises((RuntimeError, NotImplementedError)):
            decide(x)


def test_a_few_whole_numbers_keep_their_values():
    with device.by_shapes():
        lengths = torch.full((3,), 7, device="cuda") + torch.tensor([1, 2, 3]).cuda()
        assert lengths.tolist() == [8, 9, 10] and (lengths > 8).sum().item() == 2
        assert torch.arange(4, device="cuda").max().item() == 3


def test_values_are_back_afterwards():
    with device.by_shapes():
        pass
    assert torch.ones(3).cuda().sum().item() == 3
