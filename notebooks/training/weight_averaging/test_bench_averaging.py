"""What is raced does the same work: averages agree, loaders hand out the same bytes."""

from types import SimpleNamespace

import bench_averaging as race
import pytest
import torch
from small_resnet import SmallResNet
from small_training import images
from torch import nn


def pictures(count=48):
    drawn = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, 1, 12, 12), generator=drawn, dtype=torch.uint8)
    return images(pixels, torch.arange(count) % 10)


def test_the_averages_agree_and_a_difference_is_found(monkeypatch):
    models = [SmallResNet(2) for _ in range(3)]
    assert race.agree(models) < 1e-6
    monkeypatch.setattr(race, "EMA", 0.9)
    monkeypatch.setattr(race, "get_ema_multi_avg_fn", lambda _: None)
    with pytest.raises(AssertionError, match="values differ"):
        race.agree(models)


@pytest.mark.parametrize("name", ["loader", "loader_batches"])
def test_a_loader_s_epoch_holds_each_picture_once(name):
    data = pictures()
    batches = list(race.loaders(data, 16)[name])
    x_NCHW = torch.cat([x for x, _ in batches])
    labels = torch.cat([labels for _, labels in batches])
    whole = torch.cat(list(data.batches()))
    order = [int((whole == one).flatten(1).all(1).nonzero()[0, 0]) for one in x_NCHW]
    assert sorted(order) == list(range(48)) and torch.equal(labels, data.labels_N[order])


def test_the_flops_of_a_step_are_those_of_its_products():
    data = pictures(10)
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 10, bias=False))
    # forward, and the gradient of the weights; the pictures need none
    assert race.flops_of(race.training_step(net, data, 10)) == 2 * 2 * 10 * 144 * 10


def test_an_update_reads_weight_and_average_and_writes_the_average():
    weights, average = torch.zeros(1000), torch.zeros(1000)
    assert race.update_bytes(1000) == weights.nbytes + 2 * average.nbytes


def test_a_step_changes_the_weights():
    net, data = SmallResNet(2), pictures(10)
    before = race.weights_of(net)
    race.training_step(net, data, 10)()
    assert not torch.equal(before, race.weights_of(net))


def test_the_prediction_is_the_bytes_of_an_update_over_the_rate_of_a_copy(monkeypatch):
    """An update reads weights and average and writes the average, four bytes each."""
    seen, start = {}, SimpleNamespace
    receipt = start(
        record=lambda name, value, *more, **about: seen.update({name: value}),
        sizes=lambda **sizes: seen.update(sizes),
        write=lambda name: name,
    )
    monkeypatch.setattr(race.receipts, "start", lambda *given: receipt)
    took = start(median_s=0.5, device="cpu")

    def raced(calls, *given, **how):
        return start(results=dict.fromkeys(calls, took), ratios=dict.fromkeys(calls, 1.0))

    monkeypatch.setattr(race.bench, "race", raced)
    peak = start(copy_bytes_per_s=1e6, matmul_flops_per_s=1e9)
    monkeypatch.setattr(race.bench, "peak", lambda device: peak)
    monkeypatch.setattr(race, "load", lambda *given: None)
    monkeypatch.setattr(race.data, "fetch", lambda name: None)
    monkeypatch.setattr(race, "draw", lambda *given: pictures(256))
    threads = torch.get_num_threads()
    race.main(["--rounds", "1", "--threads", str(threads)])
    weights = sum(one.numel() for one in SmallResNet(16).parameters())
    assert seen["weights"] == weights
    assert seen["update_predicted"] == pytest.approx((weights + weights + weights) * 4 / 1e6)
    assert seen["step_share_of_peak"] > 0 and seen["difference_to_torch"] < 1e-6
