"""Which way the race's numbers point, and that all have one detector."""

import json

import pytest
import torch

grpc = pytest.importorskip("grpc")

import bench_camera_gate as race_of  # noqa: E402
from helpers import check  # noqa: E402
from helpers.bench import Measurement, Race, ratio  # noqa: E402


def test_half_the_time_is_told_as_twice_as_fast(monkeypatch, tmp_path):
    rounds = []

    def raced(ways, repeats, reference, device):
        rounds.append((repeats, reference))
        took = {name: 1.0 if name == "person" else 2.0 for name in ways}
        results = {
            n: Measurement(t, t, t, (t,) * repeats, None, "cpu") for n, t in took.items()
        }
        ratios = {n: ratio(results[reference], one) for n, one in results.items()}
        return Race(results, ratios, reference)

    monkeypatch.setattr(race_of.bench, "race", raced)
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    race_of.main(["--rounds", "6", "--clips", "3", "--threads", "1"])
    (path,) = tmp_path.glob("*.json")
    found = json.loads(path.read_text())["metrics"]
    assert found["gated_speedup"]["value"] == 2 and rounds == [(6, "all")]
    assert found["cameras_person"]["value"] == 2 * found["cameras_all"]["value"] == 3 * 240 / 5
    assert found["lost_all"]["value"] == 0 and found["passed_all"]["value"] == 100
    assert found["passed_socket"]["value"] == found["passed_person"]["value"] < 50
    assert found["lost_socket"]["value"] == found["lost_person"]["value"]


def test_a_race_has_twenty_rounds():
    assert race_of._options([]).rounds == 20


def test_an_event_is_lost_where_all_frames_find_it_and_the_gate_does_not():
    truth = torch.tensor([False, True, True])
    whole = [torch.tensor([0.0, 0.9, 0.2])] * 3
    nan = torch.nan
    gated = [
        torch.tensor([nan, 0.9, nan]),
        torch.tensor([0.9, nan, 0.2]),
        torch.full((3,), nan),
    ]
    assert race_of.lost(gated, whole, [(None, truth)] * 3, 0.5) == 2
    assert race_of.lost(gated, [torch.zeros(3)] * 3, [(None, truth)] * 3, 0.5) == 0


def test_other_scores_and_unanswered_frames_are_refused():
    whole, nan = [torch.tensor([0.1, 0.9])], torch.nan
    good = {
        "all": whole,
        "person": [torch.tensor([nan, 0.9])],
        "socket": [torch.tensor([nan, 0.9])],
    }
    race_of.agree({name: lambda one=one: one for name, one in good.items()})
    for name, bad in (("person", [0.1, 0.8]), ("socket", [nan, nan]), ("socket", [0.1, 0.9])):
        ways = good | {name: [torch.tensor(bad)]}
        with pytest.raises(check.Failed):
            race_of.agree({name: lambda one=one: one for name, one in ways.items()})


def test_the_peer_scores_a_person_above_an_empty_scene():
    pytest.importorskip("cv2")
    frames = torch.full((60, 48, 64), 100, dtype=torch.uint8)
    frames[40:44, 20:36, 30:36] = 180
    scores = race_of.mog2_scores(frames)
    assert scores.shape == (60,) and scores[41] > 0.8 > scores[39] + 0.5
