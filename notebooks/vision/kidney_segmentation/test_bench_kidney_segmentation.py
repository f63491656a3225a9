"""The race: which way its ratios point, that it checks before it times, and its short trial."""

import importlib.util
import json

import bench_kidney_segmentation as race_of
import ct_phantom as cp
import kidney_unet
import pytest
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
    found = {name: timed(one) for name, one in times.items()}
    race_of.record(receipt, bench.Race(found, {}, "MONAI"), 4)
    race_of.record_memory(receipt, 10_000_000, 40_000_000)
    told = {name: one["value"] for name, one in receipt.metrics.items()}
    assert told["whole_over_monai"] == pytest.approx(10 / 9)
    assert told["rest_over_monai"] == pytest.approx(4.0)
    assert told["memory_of_monai"] == pytest.approx(0.25)
    assert told["seconds_ours_rest"] == 0.5 and told["seconds_monai"] == 10.0


def test_a_short_trial_without_peers_writes_its_receipt(tmp_path, monkeypatch):
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    monkeypatch.setattr(race_of.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(race_of, "ask_loadgen", lambda *given: None)
    race_of.main(["--small", "--rounds", "1", "--threads", "1"])
    (path,) = tmp_path.glob("*.race.json")
    assert json.loads(path.read_text())["script"] is None or path


def test_memory_of_a_call_is_that_of_its_sums():
    size = race_of.rise("ours", (128, 64, 64))
    assert size < 40e6, "a slab, a row, a window and the classes"


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
