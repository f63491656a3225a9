"""What is raced does the same work: averages agree, loaders hand out the same bytes; what is
recorded of the race."""

from copy import deepcopy as copy_of
from types import SimpleNamespace

import bench_averaging as race
import pytest
import torch
from fashion_task import scaled
from helpers import bench
from helpers.device import Tier
from small_resnet import SmallResNet
from torch import nn


def pictures(count=48):
    drawn = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, 1, 12, 12), generator=drawn, dtype=torch.uint8)
    return scaled(pixels, torch.arange(count) % 10)


def test_the_averages_agree_and_a_difference_is_found(monkeypatch):
    models = [SmallResNet(2) for _ in range(3)]
    assert race.agree(models) < 1e-6
    monkeypatch.setattr(race, "EMA", 0.9)
    monkeypatch.setattr(race, "get_ema_multi_avg_fn", lambda _: None)
    with pytest.raises(AssertionError, match="values differ"):
        race.agree(models)


def test_one_of_ours_looks_for_nan_and_the_other_does_not():
    ways = race.averages(SmallResNet(2))
    looks = {name: ways[name][0].__self__.check for name in ("ours", "ours_checked")}
    assert looks == {"ours": False, "ours_checked": True}


@pytest.mark.parametrize("name", ["loader", "loader_batches"])
def test_a_loader_s_epoch_holds_each_picture_once(name):
    data = pictures()
    batches = list(race.loaders(data, 16)[name])
    pixels = torch.cat([pixels for pixels, _ in batches])
    labels = torch.cat([labels for _, labels in batches])
    whole = data.pixels_NCHW
    order = [int((whole == one).flatten(1).all(1).nonzero()[0, 0]) for one in pixels]
    assert sorted(order) == list(range(48)) and torch.equal(labels, data.labels_N[order])


def test_every_loop_trains_on_scaled_pictures():
    """One batch of all pictures: in any order it is the same step."""
    data, net = pictures(), nn.Sequential(nn.Flatten(), nn.Linear(144, 10))
    ends, copies = [], []
    with pytest.MonkeyPatch.context() as patch:
        copied = lambda model: copies.append(copy_of(model)) or copies[-1]  # noqa: E731
        patch.setattr(race.copy, "deepcopy", copied)
        epochs = race.epochs_of(net, data, 48)
    assert set(epochs) == set(race.LOOPS.values()) and len(copies) == 3
    for own, epoch in zip(copies, epochs.values(), strict=True):
        epoch()
        ends.append(race.weights_of(own))
    assert not torch.equal(ends[0], race.weights_of(net))
    for other in ends[1:]:
        torch.testing.assert_close(ends[0], other, atol=1e-5, rtol=0)


def test_the_flops_of_a_step_are_those_of_its_products():
    data = pictures(10)
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 10, bias=False))
    # forward, and the gradient of the weights; the pictures need none
    assert race.flops_of(race.training_step(net, data, 10)) == 2 * 2 * 10 * 144 * 10


def test_a_step_changes_the_weights():
    net, data = SmallResNet(2), pictures(10)
    before = race.weights_of(net)
    race.training_step(net, data, 10)()
    assert not torch.equal(before, race.weights_of(net))


SECONDS = {"one step": 8.0, "ours": 1.0, "ours_checked": 2.0, "torch": 4.0}
SECONDS |= {"loop": 1.5, "loader": 3.0, "loader_batches": 0.5}


@pytest.fixture
def seen(monkeypatch):
    """What a run records whose updates, step and epochs of 2,000 images take these seconds."""
    found, start, named = {}, SimpleNamespace, race.UPDATES | race.LOOPS
    labels = {named.get(name, name): s for name, s in SECONDS.items()}
    receipt = start(
        record=lambda name, value, *more, **about: found.update({name: (value, about)}),
        sizes=lambda **sizes: found.update(sizes),
        write=lambda name: name,
    )

    def raced(calls, rounds, warmup=3, reference=None):
        results = {
            name: bench.Measurement(s, s, s, (s,) * rounds, None, "cpu")
            for name, s in labels.items()
            if name in calls
        }
        first = reference or next(iter(calls))
        ratios = {name: bench.ratio(results[first], one) for name, one in results.items()}
        return bench.Race(results, ratios, first)

    monkeypatch.setattr(race.receipts, "start", lambda *given: receipt)
    monkeypatch.setattr(race.device, "tier", lambda: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(race.bench, "race", raced)
    peak = start(copy_bytes_per_s=1e6, matmul_flops_per_s=1e9)
    monkeypatch.setattr(race.bench, "peak", lambda device: peak)
    monkeypatch.setattr(race, "load", lambda *given: None)
    monkeypatch.setattr(race.data, "fetch", lambda name: None)
    monkeypatch.setattr(race, "draw", lambda *given: pictures(256))
    limit = lambda count: found.update(limit=count)  # noqa: E731
    monkeypatch.setattr(race.torch, "set_num_threads", limit)
    race.main(["--rounds", "6", "--threads", "3"])
    return found


def test_all_contestants_get_the_threads_that_are_asked_for(seen):
    assert seen["limit"] == 3


def test_the_prediction_is_the_bytes_of_an_update_over_the_rate_of_a_copy(seen):
    """An update reads weights and average and writes the average, four bytes each."""
    weights = sum(one.numel() for one in SmallResNet(16).parameters())
    assert seen["weights"] == weights
    assert seen["update_predicted"][0] == pytest.approx((weights + weights + weights) * 4 / 1e6)
    assert seen["difference_to_torch"][0] < 1e-6


def test_the_share_of_peak_is_the_step_s_operations_over_its_time_and_the_peak(seen):
    flops = race.flops_of(race.training_step(SmallResNet(16), pictures(256), 128))
    value, _ = seen["step_share_of_peak"]
    assert value == pytest.approx(
        100 * flops / 8 / 1e9
    )  # a step of 8 s, a peak of 1e9 a second


def test_a_step_of_8_s_takes_as_long_as_eight_of_our_updates(seen):
    wanted = {"ours": 8, "ours_checked": 4, "torch": 2}
    assert {name: seen[f"step_over_{name}"][0].median for name in wanted} == wanted


def test_a_loader_that_takes_twice_the_loop_s_time_is_half_as_fast(seen):
    wanted = {"loop": 1, "loader": 0.5, "loader_batches": 3}
    assert {name: seen[f"speedup_of_{name}"][0].median for name in wanted} == wanted


def test_a_rate_counts_the_images_of_whole_batches(seen):
    value, about = seen["images_rate_loader"]
    assert about["count"] / value.median_s == 15 * 128 / 3  # of 2,000, in batches of 128
