"""The race gives all the same boxes, and its ratios point the right way."""

import json

import numpy as np
import pytest
from helpers.bench import Measurement, Race, ratio

from . import bench_tracking as race_of
from .detector import Found
from .footage import Frame
from .scene import Seen, to_picture


def rows(many=20):
    """Frames in which one truck drives and another stands, both found as they are."""
    made = []
    for at in range(many):
        places = ((-10 + at * 0.4, 5), (-8, -8))
        found, seen = [], []
        for number, place in enumerate(places):
            u, v = to_picture(race_of.CAMERA, [place])[0]
            box = (u - 8, v - 12, u + 8, v + 2)
            found.append(Found("tug", 0.9, box, (u, v)))
            seen.append(Seen(number, "tug", box, (u, v), 1.0))
        made.append((float(at), found[:: 1 - 2 * (at % 2)], seen))
    return made


def test_ours_keeps_two_numbers():
    told = race_of.ours(rows())
    assert {tuple(sorted(ids)) for ids, _ in told} == {(1, 2)}


def test_boxes_are_of_one_camera_and_truth_of_what_can_be_seen(monkeypatch):
    picture = np.zeros((race_of.scene.HIGH, race_of.scene.WIDE, 3), np.uint8)
    seen = [Seen(n, "tug", (0, 0, 9, 9), (5, 5), share) for n, share in ((1, 0.2), (2, 0.3))]
    frames = [Frame(camera, 1.0, picture, seen, 1.0) for camera in "AB"]
    monkeypatch.setattr(race_of, "film", lambda *given, **more: iter(frames))
    ((clock, _, truth),) = race_of.boxes(1, seed=3)
    assert clock == 1.0 and [one.number for one in truth] == [2]


def test_a_race_has_twenty_rounds_and_a_whole_film():
    options = race_of._options([])
    assert (options.rounds, options.threads, options.minutes) == (20, 1, 50)
    assert race_of.EQUAL == 0.03 and len(race_of.GRID) == len(set(race_of.GRID)) == 64


@pytest.fixture
def raced(monkeypatch, tmp_path):
    """Runs the race with fakes: its receipt's metrics, and what was chosen and raced."""

    def run(peer_hota):
        log = {"films": [], "raced": None}

        def fake(contestants, repeats, reference, device):
            log["raced"] = (sorted(contestants), repeats, reference)
            log["timed"] = {name: one() for name, one in contestants.items()}
            took = {"ours": 0.001, "peer": 0.002}
            results = {
                n: Measurement(took[n], took[n], took[n], (took[n],) * repeats, None, "cpu")
                for n in contestants
            }
            ratios = {n: ratio(results[reference], one) for n, one in results.items()}
            return Race(results, ratios, reference)

        def best(frames):
            log["chosen on"] = frames[-1]
            return ("SORTTracker", 30, 1, 0.1, 0.3, True)

        frames = rows()
        monkeypatch.setattr(
            race_of, "boxes", lambda m, seed: log["films"].append(seed) or Marked(frames, seed)
        )
        monkeypatch.setattr(race_of, "best", best)
        monkeypatch.setattr(
            race_of, "handed", lambda *given: log.update(handed=given[1]) or given
        )
        ours = lambda frames: log.setdefault("ours", []).append(len(frames)) or "ours"  # noqa: E731
        monkeypatch.setattr(race_of, "ours", ours)
        monkeypatch.setattr(race_of, "peer", lambda detections, *setting: (detections, setting))
        told = {"ours": {"hota": 0.8, "idf1": 0.9}, "peer": {"hota": peer_hota, "idf1": 0.7}}
        pick = lambda frames, told_: told["ours" if told_ == "ours" else "peer"]  # noqa: E731
        monkeypatch.setattr(race_of, "scores", pick)
        monkeypatch.setattr(race_of.importlib.util, "find_spec", lambda name: True)
        monkeypatch.setattr(race_of.bench, "race", fake)
        monkeypatch.setattr(race_of, "_latency", lambda receipt, options: None)
        monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
        race_of.main(["--rounds", "6"])
        (path,) = tmp_path.glob("*.json")
        return json.loads(path.read_text())["metrics"], log

    return run


class Marked(list):
    """Frames that end with the seed of their film, for whoever asks."""

    def __init__(self, frames, seed):
        super().__init__(frames)
        self.seed = seed

    def __getitem__(self, at):
        return self.seed if at == -1 else super().__getitem__(at)


def test_half_the_time_is_told_as_twice_the_rate(raced):
    found, log = raced(0.79)
    assert found["tracker_over_peer"]["value"] == 2
    assert found["ours_frame_rate"]["value"] == 2 * found["peer_frame_rate"]["value"] == 20_000
    assert found["ours_hota"]["value"] == 0.8 and found["peer_hota"]["value"] == 0.79
    assert log["raced"] == (["ours", "peer"], 6, "ours")
    assert set(log["ours"]) == {20} and log["timed"]["ours"] == "ours"  # the whole film
    (frames, _), setting = log["timed"]["peer"]
    assert frames.seed == 1 and setting[-1] is True
    assert log["handed"] is True  # as the setting that was chosen wants it
    assert log["films"] == [1, 2] and log["chosen on"] == 2  # never on the film that is raced


def test_a_peer_below_equal_hota_is_named_and_not_timed(raced):
    found, log = raced(0.76)
    assert log["raced"][0] == ["ours"] and "tracker_over_peer" not in found
    assert found["peer_hota"]["value"] == 0.76


def test_the_best_setting_is_the_one_of_the_highest_hota(monkeypatch):
    wanted = race_of.GRID[37]
    monkeypatch.setattr(race_of, "handed", lambda frames, apart: apart)
    monkeypatch.setattr(race_of, "peer", lambda apart, *setting: (apart, setting))
    hota = lambda frames, told: {"hota": 0.9 if told == (wanted[-1], wanted) else 0.5}  # noqa: E731
    monkeypatch.setattr(race_of, "scores", hota)
    assert race_of.best([]) == wanted


def test_of_equal_settings_the_one_with_a_single_tracker_is_raced(monkeypatch):
    monkeypatch.setattr(race_of, "handed", lambda frames, apart: apart)
    monkeypatch.setattr(race_of, "peer", lambda apart, *setting: setting)
    hota = lambda frames, told: {"hota": 0.8 + 0.004 * told[-1]}  # noqa: E731
    monkeypatch.setattr(race_of, "scores", hota)
    assert race_of.best([])[-1] is False


def test_latency_is_that_of_a_busy_stand(monkeypatch):
    tracked = []

    class Receipt:
        def record(self, *about, **more):
            pass

    def measure(fn, repeats, device):
        tracked.extend(fn())

    monkeypatch.setattr(race_of.bench, "measure", measure)
    race_of._latency(Receipt(), race_of._options([]))
    assert {"aircraft", "stairs", "people", "cleaning van"} <= {one.kind for one in tracked}


def test_latency_is_told_in_seconds_and_cameras_in_frames_a_second(monkeypatch):
    told = {}

    class Receipt:
        def record(self, name, value, unit=None, count=None):
            told[name] = (value, unit, count)

    one = Measurement(0.02, 0.02, 0.02, (0.02,) * 20, None, "cpu")
    monkeypatch.setattr(
        race_of.bench, "measure", lambda fn, repeats, device: fn() and None or one
    )
    race_of._latency(Receipt(), race_of._options([]))
    assert told == {"frame_latency": (one, None, None), "cameras_a_core": (one, "frames/s", 1)}


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("name", ["SORTTracker", "ByteTrackTracker"])
def test_a_peer_and_trackeval_agree_on_an_easy_film(name, apart):
    pytest.importorskip("trackers")
    pytest.importorskip("trackeval")
    frames = rows()
    found = race_of.scores(
        frames, race_of.peer(race_of.handed(frames, apart), name, 30, 1, 0.1, 0.3, apart)
    )
    mine = race_of.scores(frames, race_of.ours(frames))
    assert mine["hota"] == pytest.approx(1) and found["hota"] > 0.9
    broken = [
        (list(np.array(ids) + 10 * at), boxes)
        for at, (ids, boxes) in enumerate(race_of.ours(frames))
    ]
    assert race_of.scores(frames, broken)["hota"] < 0.5
