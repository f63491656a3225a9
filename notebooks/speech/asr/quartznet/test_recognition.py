"""Recognition: each sound for itself in whatever batch, in the order given, read back once."""

import pytest
import torch

from . import recognition
from .features import log_mel
from .network import QuartzNet
from .recognition import recognise, steps_of


def tiny():
    torch.manual_seed(0)
    return QuartzNet.build("5x1", width=0.06, field=0.12)


def noises(count):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(3200 + 160 * (n % 3), generator=generator) for n in range(count)]


def test_recognition_does_not_depend_on_the_batch():
    model, signals = tiny().eval(), noises(5)
    alone = recognise(model, signals, batch=1)
    for one, many in zip(alone, recognise(model, signals), strict=True):
        torch.testing.assert_close(one, many, rtol=0, atol=1e-4)


def test_recognition_keeps_the_order_and_the_mode():
    model, signals = tiny().train(), [torch.randn(n) for n in (4000, 1600, 3200)]
    statistics = model.blocks[0].steps[0].norm.running_mean.clone()
    assert [len(found) for found in recognise(model, signals)] == [13, 5, 10]
    assert model.training and torch.equal(
        statistics, model.blocks[0].steps[0].norm.running_mean
    )


@pytest.mark.parametrize("samples", [160, 320, 479, 480, 1601, 4000])
def test_the_host_knows_the_steps_that_the_network_gives(samples):
    model, lengths = tiny(), torch.tensor([samples, 160])
    _, frames = log_mel(torch.zeros(2, samples), lengths)
    assert torch.equal(
        steps_of(model, lengths), model(torch.zeros(2, 64, samples // 160), frames)[1]
    )


def test_features_are_computed_outside_of_mixed_precision(monkeypatch):
    seen = []

    def heard(*signal):
        seen.append(torch.is_autocast_enabled("cpu"))
        return log_mel(*signal)

    def half(device):  # as a GPU does
        return torch.autocast("cpu", torch.bfloat16)

    monkeypatch.setattr(recognition, "mixed_precision", half)
    monkeypatch.setattr(recognition, "log_mel", heard)
    found = recognise(tiny(), noises(3))
    assert seen == [False] and found[0].dtype == torch.float32


def test_nothing_to_recognise_gives_nothing():
    assert recognise(tiny(), []) == []


def test_recognition_brings_its_results_back_once(monkeypatch):
    waits, down = [], torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda x: waits.append(x.dtype) or down(x))
    recognise(tiny(), noises(6), batch=2)
    assert waits.count(torch.float32) == 1
