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

    asked, sent = [], []

    def chosen(frames, truth, limit, gates=race_of.gates):
        asked.append(frames)
        return gates(frames, truth, limit)

    def watched(frames, wanted, client, watch=race_of.watch):
        sent.append(len(frames))
        return watch(frames, wanted, client)

    monkeypatch.setattr(race_of, "gates", chosen)
    monkeypatch.setattr(race_of, "watch", watched)
    monkeypatch.setattr(race_of.bench, "race", raced)
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    race_of.main(["--rounds", "6", "--clips", "3", "--threads", "1"])
    (path,) = tmp_path.glob("*.json")
    found = json.loads(path.read_text())["metrics"]
    assert found["gated_speedup"]["value"] == 2 and rounds == [(6, "all")]
    assert found["cameras_person"]["value"] == 2 * found["cameras_all"]["value"] == 3 * 240 / 5
    assert found["lost_all"]["value"] == 0 and found["passed_all"]["value"] == 100
    assert found["passed_socket"]["value"] == found["passed_person"]["value"] < 50
    assert len(asked) == 1 and torch.equal(asked[0], race_of.clips_of(3, 4)[0])
    assert 100 * sum(sent) / 720 == pytest.approx(found["passed_socket"]["value"])
    assert found["passed_every"]["value"] == found["passed_person"]["value"]
    assert found["lost_socket"]["value"] == found["lost_person"]["value"]


def test_a_race_has_twenty_rounds():
    assert race_of._options([]).rounds == 20


def test_an_event_is_lost_where_all_frames_find_it_and_the_gate_does_not():
    truth = torch.tensor([[False, True, True]] * 3)
    whole, nan = torch.tensor([[0.0, 0.9, 0.2]] * 3), torch.nan
    gated = torch.tensor([[nan, 0.9, nan], [0.9, nan, 0.2], [nan] * 3])
    assert race_of.lost(gated, whole, truth, 0.5) == 2
    assert race_of.lost(gated, torch.zeros(3, 3), truth, 0.5) == 0


def test_other_scores_unanswered_frames_and_unequal_counts_are_refused():
    nan = torch.nan
    good = {"all": [0.1, 0.9], "every": [0.1, nan], "person": [nan, 0.9], "socket": [nan, 0.9]}

    def ways(**changed):
        return {n: lambda one=one: torch.tensor([one]) for n, one in (good | changed).items()}

    race_of.agree(ways())
    for name, bad in (
        ("person", [0.1, 0.8]),
        ("socket", [nan, nan]),
        ("socket", [0.1, 0.9]),
        ("every", [0.1, 0.9]),
        ("all", [nan, 0.9]),
    ):
        with pytest.raises(check.Failed):
            race_of.agree(ways(**{name: bad}))


def test_clips_that_judge_are_none_of_those_that_choose():
    (frames, _), (others, _) = race_of.clips_of(3, 3), race_of.clips_of(3, 4)
    assert not any(torch.equal(one, other) for one in frames for other in others)
    with pytest.raises(ValueError, match="1 to 999"):
        race_of.clips_of(1000, 3)


def test_a_frame_is_scored_before_the_next_one_comes():
    order = []

    class Gate:
        def score(self, frame):
            order.append(int(frame[0, 0, 0]))
            return torch.tensor([1.0, 0.0])

    def look(frames):
        order.append(-int(frames[0, 0, 0]))
        return torch.tensor([0.5])

    frames = torch.arange(1, 4)[None, :, None, None].expand(2, 3, 1, 1)
    found = race_of.streamed(frames, Gate(), 1, look)
    assert order == [1, -1, 2, -2, 3, -3] and found[0].tolist() == [0.5] * 3
    assert bool(found[1].isnan().all())


def test_the_peers_memory_is_the_one_that_finds_most_on_other_clips(monkeypatch):
    class Peer:
        def __init__(self, history):
            self.history, self.at = history, -1

        def score(self, frame):  # a memory of 200 alone fires where the plate is, at frame 7
            self.at += 1
            return torch.tensor([float(self.at == (7 if self.history == 200 else 3))])

    monkeypatch.setattr(race_of, "Mog2", Peer)
    monkeypatch.setattr(race_of.importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(race_of, "detect", lambda frames: torch.ones(len(frames)))
    truth = (torch.arange(20) == 7)[None]
    make, _ = race_of.gates(torch.zeros(1, 20, 48, 64), truth, 0.5)["mog2"]
    assert make().history == 200


def test_the_peer_scores_a_person_above_an_empty_scene():
    pytest.importorskip("cv2")
    frames = torch.full((1, 60, 48, 64), 100, dtype=torch.uint8)
    frames[0, 40:44, 20:36, 30:36] = 180
    scores = race_of.scored(race_of.Mog2(50), frames)[0]
    assert scores.shape == (60,) and scores[41] > 0.8 > scores[39] + 0.5
