"""What the race records: samples to an equal error, ratios above one where ours is sooner."""

import sys
import types

import bench_light_transport as race_of
import pytest
import torch
from helpers import bench, check, receipts
from helpers.device import Tier

SECONDS = {"ours": 1.0, "ours, both ways": 2.0, "Mitsuba, scalar": 3.0, "Mitsuba, LLVM": 0.5}


def raced(names=tuple(SECONDS)):
    results = {
        n: bench.Measurement(*[SECONDS[n]] * 3, (SECONDS[n],) * 6, None, "cpu") for n in names
    }
    return bench.Race(
        results, {n: bench.ratio(results["ours"], results[n]) for n in names}, "ours"
    )


@pytest.fixture
def written(monkeypatch):
    found = []
    monkeypatch.setattr(race_of.device, "tier", lambda name: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(
        receipts.Receipt, "write", lambda self, name: found.append(self) or name
    )
    return found


def test_ratios_are_above_one_where_ours_is_sooner():
    receipt = receipts.start("light_transport", "cpu", 1)
    race_of.record(receipt, raced(), dict.fromkeys(SECONDS, 7))
    told = {name: one["value"] for name, one in receipt.metrics.items()}
    assert (told["ours_over_scalar"], told["ours_over_llvm"]) == (3, 0.5)
    assert told["ours_over_both_ways"] == 2 and told["samples_mitsuba_llvm"] == 7
    assert told["seconds_mitsuba_scalar"] == 3


@pytest.mark.parametrize(
    ("variance", "goal", "count"), [(4.0, 0.5, 16), (4.1, 0.5, 17), (0.0, 1.0, 1)]
)
def test_samples_are_as_many_as_the_error_asks(variance, goal, count):
    assert race_of.needed(variance, goal) == count


def test_the_race_is_of_equal_errors(monkeypatch, written):
    """A contestant of four times the variance is given four times the samples, whatever the
    pixels of the lamp do.
    """

    scene = race_of.rooms.cornell_box(8, 8)
    lamp = race_of.path_tracing.render_orders(scene, 64, 0)[0] > 0
    assert lamp.any()

    def noisy(times):
        def draw(samples, seed):
            chance = torch.Generator().manual_seed(1000 * times + seed)
            noise = times * torch.randn(8, 8, 3, generator=chance) / samples**0.5
            return 1 + torch.where(lamp, 30 * noise, noise)  # a lamp's edge varies most

        return draw

    monkeypatch.setattr(
        race_of,
        "draw_ours",
        lambda scene, depth, way, *given: noisy(1 + (way != "lamp"))(*given),
    )
    monkeypatch.setattr(race_of, "peers", lambda *given: {})
    monkeypatch.setattr(
        race_of.bench, "race", lambda runs, rounds, reference: raced(tuple(runs))
    )
    race_of.main(["--pixels", "8", "--threads", "1", "--goal", "0.1"])
    told = {name: one["value"] for name, one in written[0].metrics.items()}
    assert told["samples_ours"] == pytest.approx(100, rel=0.2)
    assert told["samples_ours_both_ways"] == pytest.approx(400, rel=0.2)


def test_it_stops_where_the_pictures_differ(monkeypatch, written):
    other = {"Mitsuba, scalar": lambda samples, seed: 9 + torch.rand(8, 8, 3)}
    monkeypatch.setattr(race_of, "peers", lambda *given: other)
    with pytest.raises(check.Failed, match="draws our picture"):
        race_of.main(["--pixels", "8", "--depth", "1", "--threads", "1"])
    assert not written


def test_each_variant_draws_the_scene_at_the_depth_of_ours(monkeypatch):
    asked, threads = [], []
    drawn = torch.ones(2, 2, 3).numpy()
    mitsuba = types.SimpleNamespace(set_variant=lambda name: asked.append(name))
    monkeypatch.setattr(race_of.importlib.util, "find_spec", lambda name: True)
    monkeypatch.setitem(
        sys.modules, "drjit", types.SimpleNamespace(set_thread_count=threads.append)
    )
    monkeypatch.setattr(race_of.mitsuba_scene, "load", lambda variant: mitsuba)
    monkeypatch.setattr(
        race_of.mitsuba_scene, "build", lambda module, scene, depth: (scene, depth)
    )
    monkeypatch.setattr(
        race_of.mitsuba_scene,
        "render",
        lambda module, built, *given: asked.append(built) or drawn,
    )
    assert list(race_of.peers("box", 5, 3)) == ["Mitsuba, scalar", "Mitsuba, LLVM"]
    assert asked == ["scalar_rgb", ("box", 5), "llvm_ad_rgb", ("box", 5)] and threads == [3, 3]


def test_without_mitsuba_ours_alone_is_raced(monkeypatch, capsys):
    monkeypatch.setattr(race_of.importlib.util, "find_spec", lambda name: None)
    assert race_of.peers(None, 1, 1) == {}
    assert "left out" in capsys.readouterr().out
