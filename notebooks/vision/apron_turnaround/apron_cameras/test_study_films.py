"""Arms of the films' study get one film; F1 counts what it should."""

import pytest
from critical_path import observed
from event_scores import Event
from press.study import hold

from . import study_films as study
from .footage import Faults
from .test_apron_cameras import perfect

ARMS = {
    "fused": ("AB", True),
    "raw": ("AB", False),
    "only_a": ("A", True),
    "only_b": ("B", True),
}
TRUE = {"on block": 60, "chocks start": 90, "fuel start": 150, "fuel end": 300}
TRUE |= {"chocks end": 400, "tug start": 350, "off block": 420}


@pytest.fixture(scope="module")
def data():
    faults = Faults(0.05, 0, offset=25, drift_ppm=0)
    return perfect(faults), TRUE, faults, None


def judged(name, data):
    class Job:
        arm = study.STUDY.arms[name]

    return study.judge("new", data, Job)


def test_arms_are_handed_one_film_and_their_own_cameras(data):
    part = {"film": study.Part(data, ["one"])}
    seen = hold(study.STUDY, parts=lambda seed, sizes: part)
    assert {name for name, _ in seen} == set(ARMS)
    for (name, _), one in seen.items():
        cameras, clock = ARMS[name]
        assert one.job.arm.setting == {"cameras": cameras, "clock": clock}
        assert one.tests["film"][1:] == data[1:] and one.job.train is None


def test_a_film_has_its_truth_its_faults_and_a_seed_of_its_own():
    part = study.parts(1, study.STUDY.trial)["film"]
    watched, true, faults, intruder = part.data
    assert true == {"on block": 90.0} and abs(faults.offset) <= 30 and part.units == ["film 1"]
    assert 45 <= intruder <= 70
    assert max(one.time for one in watched.frames) < 130
    assert abs(faults.drift_ppm) <= 3000 and faults.dropped == 0.05


def test_each_film_is_watched_with_its_own_faults_and_seed(monkeypatch):
    given = []
    monkeypatch.setattr(study, "film", lambda *about: given.append(about) or [])
    parts = [study.parts(seed, study.STUDY.sizes)["film"].data for seed in (1, 2)]
    assert [about[3:] for about in given] == [(1, 6.0), (2, 6.0)]
    assert [about[2] for about in given] == [faults for _, _, faults, _ in parts]
    assert parts[0][2] != parts[1][2] and parts[0][1] != parts[1][1]
    assert parts[0][3] is not None and parts[1][3] is None
    assert all(
        about[1] > true["off block"]
        for about, (_, true, _, _) in zip(given, parts, strict=True)
    )


def test_numbers_are_judged_of_an_arm_s_own_cameras(data, monkeypatch):
    asked = []
    monkeypatch.setattr(
        study.pipeline, "identities", lambda w, camera: asked.append(camera) or ([], [])
    )
    for name in ("only_a", "only_b", "fused"):
        judged(name, data)
    assert "".join(asked) == "ABAB"


def test_delays_count_from_the_true_second(data):
    events, _ = study.pipeline.events(data[0], study.pipeline.set_clocks(data[0]))
    ends = [e.told - TRUE[e.name] for e in events if e.name.endswith(" end")]
    starts = [e.told - TRUE[e.name] for e in events if not e.name.endswith(" end")]
    fused = judged("fused", data)
    assert fused["known_end"] == pytest.approx(sum(ends) / len(ends))
    assert fused["known_start"] == pytest.approx(sum(starts) / len(starts))


def test_a_set_clock_and_a_second_camera_are_worth_something(data):
    fused, raw, only_a = (judged(name, data) for name in ("fused", "raw", "only_a"))
    assert fused["f1_20"] > raw["f1_20"] and fused["f1_20"] > only_a["f1_20"]
    assert fused["clock"] < 2 < raw["clock"] == pytest.approx(25)
    assert fused["idf1"] > 0.95 and fused["off"] < 14


def test_the_truth_of_a_clock_only_judges(data):
    watched, true, faults, _ = data
    wrong = faults._replace(offset=-9.0)
    one, other = judged("fused", data), judged("fused", (watched, true, wrong, None))
    assert one["f1_10"] == other["f1_10"] and other["clock"] > 30 > one["clock"]


def test_the_errors_of_many_turnarounds_are_those_of_films(data):
    fused, films = judged("fused", data), observed.LIKE_FILMS
    assert fused["missed"] == 0 and abs(fused["late"] - 60 * films.late) < 6  # a frame
    assert abs(fused["known_start"] - 60 * films.start) < 6
    assert abs(fused["known_end"] - 60 * films.end) < 9  # the mean of two ends


def test_walks_and_what_is_missed_are_counted(data):
    watched, true, faults, _ = data
    more = {**true, "deboarding end": 100, "bags start": 9}
    assert judged("fused", (watched, more, faults, None))["missed"] == pytest.approx(2 / 9)
    assert study.WALKS == ("deboarding end", "boarding end")


@pytest.mark.parametrize(("told", "true", "wanted"), [(1, 60.0, 1), (1, None, 0), (0, 60.0, 0)])
def test_what_is_in_the_way_is_right_when_it_is_there(data, monkeypatch, told, true, wanted):
    events = [Event("tug in the way", 60, 60, "A")] * told
    monkeypatch.setattr(study.pipeline, "events", lambda *given: ([], events))
    assert judged("fused", (*data[:3], true))["in_the_way"] == wanted


def test_f1_pairs_each_kind_by_itself_and_rises_with_tolerance(data):
    found = [Event(name, time + 15, 0, "A") for name, time in TRUE.items()]
    assert study.f1(TRUE, found, 20) == 1 and study.f1(TRUE, found, 10) == 0
    other = [Event("bags start", 60, 0, "A")]
    assert study.f1(TRUE, other, 20) == 0 and study.f1(TRUE, [], 20) == 0
    assert study.f1(TRUE, found + other, 20) == pytest.approx(14 / 15)
    fused = judged("fused", data)
    rising = [fused[f"f1_{t}"] for t in study.TOLERANCES]
    assert rising == sorted(rising) and study.TOLERANCES == (10, 20, 30, 60)


def test_outcomes_point_the_right_way():
    told = {name: (one.metric, one.arm, one.less) for name, one in study.STUDY.outcomes.items()}
    assert told["study_clock_gain"] == ("f1_20", "fused", "raw")
    assert told["study_second_camera_gain"] == ("f1_20", "fused", "only_a")
    for one in study.STUDY.outcomes.values():
        assert study.STUDY.arms[one.arm].test == study.STUDY.arms[one.less].test == ("film",)
    assert max(study.STUDY.seeds) < 100  # from there on are those that set `LIKE_FILMS`
    assert list(study.STUDY.seeds) == list(range(24)) and study.STUDY.sizes["every"] == 6.0
