"""The race: which way its ratios point, that it checks before it times, and its short trial."""

import importlib.util
import json

import bench_kidney_segmentation as race_of
import ct_phantom as cp
import kidney_unet
import loadgen_scenarios as scenarios
import pytest
import sliding_windows as sw
import torch
from helpers import bench, check, receipts

MONAI = pytest.mark.skipif(not importlib.util.find_spec("monai"), reason="needs MONAI")


def timed(seconds):
    return bench.Measurement(seconds, seconds, seconds, (seconds,) * 6, None, "cpu")


@pytest.fixture
def receipt():
    return receipts.start("kidney_segmentation", "cpu")


def test_ratios_above_one_say_that_ours_is_faster(receipt):
    times = {"MONAI": 10.0, "ours": 9.0}
    times |= {"MONAI, network for nothing": 2.0, "ours, network for nothing": 0.5}
    times |= {"MONAI, network for nothing, AsDiscrete": 4.0}
    found = {name: timed(one) for name, one in times.items()}
    race_of.record(receipt, bench.Race(found, {}, "MONAI"), {"MONAI": 4, "ours": 8})
    race_of.record_memory(receipt, 10_000_000, 40_000_000)
    told = {name: one["value"] for name, one in receipt.metrics.items()}
    assert told["whole_over_monai"] == pytest.approx(10 / 9)
    assert told["rest_over_monai"] == pytest.approx(4.0)
    assert told["rest_over_as_discrete"] == pytest.approx(8.0)
    assert told["memory_of_monai"] == pytest.approx(0.25)
    assert told["seconds_ours_rest"] == 0.5 and told["seconds_monai"] == 10.0


def test_the_batch_that_is_fastest_is_raced(monkeypatch):
    took = {1: 9, 2: 3, 4: 2, 8: 5, 16: 7}
    now = [0.0]
    monkeypatch.setattr(race_of, "perf_counter", lambda: now[0])
    assert race_of.best_batch(lambda batch: now.__setitem__(0, now[0] + took[batch])) == 4


def test_both_sides_get_the_same_network_batch_and_largest_class(monkeypatch):
    asked = []

    def theirs(scan, network, batch, window):
        asked.append(("MONAI", network, batch, window))
        return torch.stack([scan, 2 * scan, 3 * scan])

    def segment(scan, network, window, batch):
        asked.append(("ours", network, batch, window))
        return torch.full_like(scan, 2, dtype=torch.uint8)

    monkeypatch.setattr(race_of, "theirs", theirs)
    monkeypatch.setattr(race_of.sw, "segment", segment)
    monkeypatch.setattr(race_of, "best_batch", lambda way: 8)
    argmax = torch.Tensor.argmax
    monkeypatch.setattr(torch.Tensor, "argmax", lambda *given, **more: pytest.fail("slow"))
    called, best = race_of.contestants(torch.ones(40, 32, 32), "network")
    names = ("MONAI", "ours", *(f"{one}, network for nothing" for one in ("MONAI", "ours")))
    assert best == dict.fromkeys(names, 8)
    assert all((called[name]() == 2).all() for name in names)
    nets = ["network", "network", race_of.given, race_of.given]
    assert asked == [(n.split(",")[0], net, 8, 32) for n, net in zip(names, nets, strict=True)]
    monkeypatch.setattr(torch.Tensor, "argmax", argmax)


def test_a_short_trial_without_peers_writes_its_receipt(tmp_path, monkeypatch):
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    monkeypatch.setattr(race_of.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(race_of, "ask_loadgen", lambda *given: None)
    race_of.main(["--small", "--rounds", "1", "--threads", "1"])
    (path,) = tmp_path.glob("*.race.json")
    assert json.loads(path.read_text())["script"] is None or path


def test_memory_of_a_call_is_that_of_its_sums():
    shape = (320, 96, 96)
    held = sw.bytes_held(shape, 32) + 320 * 96 * 96  # and the classes
    assert held < race_of.memory_in_child("ours", shape, 32) < held + 8e6, (
        "no scores of the whole volume"
    )


@pytest.mark.parametrize("seconds", [60, 1])
def test_loadgen_asks_for_real_answers_by_the_benchmark_s_limits(receipt, monkeypatch, seconds):
    asked = []
    cases = [torch.zeros(32, 32, 32), torch.ones(32, 32, 48)]

    def by_loadgen(scenario, answer, library, least, seconds, per_second=0.0):
        sizes = [len(answer(index)) for index in range(library)]
        asked.append((scenario, library, least, seconds, per_second > 0))
        assert sizes == [one.numel() for one in cases], "a byte for each voxel"
        single = scenario == "SingleStream"
        return scenarios.Outcome(0.5 if single else None, 2.0, 8, per_second > 0)

    monkeypatch.setattr(scenarios, "available", lambda: True)
    monkeypatch.setattr(scenarios, "by_loadgen", by_loadgen)
    segments = []
    segment = race_of.sw.segment
    monkeypatch.setattr(
        race_of.sw, "segment", lambda *given: segments.append(given[0]) or segment(*given)
    )
    race_of.ask_loadgen(receipt, race_of.given, cases, seconds)
    least = (64, 43) if seconds == 60 else (4, 4)
    assert asked == [
        ("SingleStream", 2, least[0], seconds, True),
        ("Offline", 2, least[1], seconds, True),
    ]
    assert len(segments) == 6, "each answer is computed, none kept"
    assert receipt.metrics["single_stream_s"]["value"] == 0.5
    assert receipt.metrics["offline_per_second"]["value"] == 2.0


def test_an_invalid_run_of_loadgen_is_not_recorded(receipt, monkeypatch):
    bad = scenarios.Outcome(0.5, 2.0, 8, False)
    monkeypatch.setattr(scenarios, "available", lambda: True)
    monkeypatch.setattr(scenarios, "by_loadgen", lambda *given, **more: bad)
    with pytest.raises(check.Failed):
        race_of.ask_loadgen(receipt, race_of.given, [torch.zeros(32, 32, 32)], 60)
    assert not receipt.metrics


def test_the_whole_way_at_128_has_to_agree(receipt, monkeypatch):
    scan = torch.zeros(128, 128, 192)
    classes = torch.zeros(128, 128, 192, dtype=torch.uint8)
    monkeypatch.setattr(race_of.cv, "prepared", lambda case, window: (scan, None))
    found = {"ours": lambda batch: classes, "MONAI": lambda batch: classes}
    monkeypatch.setattr(race_of, "ways", lambda scan, network, window: found)
    race_of.full_size(receipt, "case", "network")
    assert receipt.metrics["full_windows"]["value"] == 2
    found["MONAI"] = lambda batch: classes + 1
    with pytest.raises(check.Failed):
        race_of.full_size(receipt, "case", "network")


@MONAI
def test_monai_s_answers_are_ours(monkeypatch):
    case = cp.geometric()
    scan, labels = cp.reduced(case, race_of.WINDOW)
    network = kidney_unet.load()
    race_of.equal(case, scan, labels, network)
    mine = race_of.ours
    monkeypatch.setattr(race_of, "ours", lambda *given, **more: 1.01 * mine(*given, **more))
    with pytest.raises(check.Failed):
        race_of.equal(case, scan, labels, network)
