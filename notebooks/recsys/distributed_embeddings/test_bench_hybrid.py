"""What the race records: ours over the faster way of each kind; weights apart stop it."""

from types import SimpleNamespace

import bench_hybrid as race_of
import pytest
import torch
from helpers import bench, receipts
from helpers.device import Tier

SECONDS = {race_of.HYBRID: 1.0, race_of.COPIED: 8.0, race_of.SPARSE: 2.0, race_of.DENSE: 3.0}
SECONDS |= {race_of.ALONE: 7.0, race_of.THREAD: 5.0, race_of.PEER: 6.0}


def raced(contestants, repeats, warmup, reference, device):
    """A Race whose contestants take the seconds above."""
    results = {
        name: bench.Measurement(s, s, s, (s,) * repeats, None, device)
        for name, s in SECONDS.items()
        if name in contestants
    }
    ratios = {name: bench.ratio(results[reference], one) for name, one in results.items()}
    return bench.Race(results, ratios, reference)


class Idle:
    """A crew that does nothing."""

    def __init__(self, *words, **options):
        pass

    __enter__ = lambda self: self  # noqa: E731
    __exit__ = lambda self, *error: None  # noqa: E731
    run = lambda self, *asked: None  # noqa: E731


@pytest.fixture(params=[0, 2], ids=["no cards", "two cards"])
def told(request, monkeypatch):
    """(cards, the metrics of a race of 100 samples beside so many)."""
    receipt = receipts.start("distributed_embeddings", "cpu", 2)
    monkeypatch.setattr(receipt, "write", lambda name: name)
    monkeypatch.setattr(race_of.receipts, "start", lambda *given: receipt)
    monkeypatch.setattr(race_of.device, "tier", lambda: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(race_of.torch.cuda, "device_count", lambda: request.param)
    monkeypatch.setattr(race_of, "Crew", Idle)
    monkeypatch.setattr(race_of, "check", lambda crew, alone, names: {})
    monkeypatch.setattr(race_of.bench, "race", raced)
    given = SimpleNamespace(rounds=6, threads=2, batch=100)
    race_of.race_at(race_of.FACTORS[0], given)
    return request.param, {name: one["value"] for name, one in receipt.metrics.items()}


def test_a_gain_is_over_the_faster_way_and_on_cards_alone(told):
    cards, found = told
    gains = {"gpu_hybrid_over_data_parallel": 2, "gpu_hybrid_gain": 5}
    assert {name: found[name] for name in gains if name in found} == (gains if cards else {})


def test_a_ratio_is_our_time_over_the_other_s_turned_so_that_above_one_it_is_faster(told):
    found = told[1]
    assert found["race_ddp_dense_gradients_ratio"] == pytest.approx(1 / 3)
    assert found["race_one_process_one_thread_ratio"] == pytest.approx(1 / 5)
    assert "race_ours_hybrid_ratio" not in found


def test_a_rate_counts_the_samples_of_a_step(told):
    assert told[1]["race_ddp_sparse_gradients_rate"] == 50


def trained(losses, *ends):
    """Processes that tell these losses, and in turn these (tables, dense weights)."""
    told = iter(ends)

    def run(what, name, *count):
        if what.endswith("steps"):
            return losses
        if what.endswith("whole_tables"):
            return [tuple([torch.full((2,), end)] for end in next(told))]

    return SimpleNamespace(run=run)


def checked(tables, dense):
    """What `check` says of two processes whose weights should go from 0 to 1, and end here."""
    alone = trained([[2.0, 3.0, 4.5]], (0.0, 0.0), (1.0, 1.0))
    crew = trained([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]], (tables, dense))
    return race_of.check(crew, alone, ["other"])["other"]


def test_a_hundredth_of_the_way_apart_is_told_and_so_are_mean_losses():
    assert checked(1.01, 1.0) == pytest.approx((0.5, 0.01), rel=1e-4)


@pytest.mark.parametrize("ends", [(1.03, 1.0), (1.0, 0.97)], ids=["tables", "dense"])
def test_three_hundredths_of_the_way_apart_stop_the_race(ends):
    with pytest.raises(AssertionError, match="other: weights 0.03 of their way"):
        checked(*ends)
