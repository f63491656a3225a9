"""The scene obeys its geometry, faults do what they say, and the parts find what is there."""

import numpy as np
import pytest
import torch
from critical_path import EVENTS

from . import Clock, Faults, Visit, events, film, fusion, identities, scene, script, watch
from . import detector as finding
from .footage import examples
from .scene import CAMERAS, KINDS, ZONES, Thing, render, to_ground, to_picture
from .tracker import Tracker

A, B = CAMERAS
PARKED = Thing("aircraft", 0, 0, 0, 0)


@pytest.mark.parametrize("camera", CAMERAS, ids=lambda one: one.name)
def test_the_homography_and_its_inverse_meet(camera):
    points = np.array([(x, y) for x in (-20, 0, 7) for y in (-10, 0, 25)], float)
    assert np.allclose(to_ground(camera, to_picture(camera, points)), points)


@pytest.mark.parametrize("camera", CAMERAS, ids=lambda one: one.name)
def test_the_homography_is_the_camera_on_the_ground(camera):
    whole = camera.matrix() @ [5, -3, 0, 1]
    assert np.allclose(to_picture(camera, [(5, -3)])[0], whole[:2] / whole[2])


def test_a_box_holds_its_thing_and_its_foot():
    for kind in KINDS[1:]:
        picture, (seen,) = render(A, [Thing(kind, *ZONES[kind], 0, 7)])
        empty, _ = render(A, [])
        rows, columns = np.nonzero((picture != empty).any(2))
        left, top, right, bottom = seen.box
        assert left - 1 <= columns.min() and columns.max() <= right + 1
        assert top - 1 <= rows.min() and rows.max() <= bottom + 1
        assert left <= seen.foot[0] <= right and top <= seen.foot[1] <= bottom + 2
        assert seen.visible == 1 and seen.number == 7


def test_what_stands_behind_the_fuselage_is_hidden_and_the_nearer_hides():
    truck = Thing("fuel truck", *ZONES["fuel truck"], 0, 1)
    hidden, open_ = (render(one, [PARKED, truck])[1][1].visible for one in CAMERAS)
    assert hidden < 0.1 and open_ > 0.9
    both = [Thing("tug", 0, 0, 0, 1), Thing("cleaning van", 3, -3, 0, 2)]
    near, far = (next(s for s in render(B, both)[1] if s.number == n) for n in (2, 1))
    assert near.visible == 1 > far.visible


def test_each_side_is_seen_by_its_own_camera_and_the_nose_by_both():
    seen = fusion.sight()
    assert {"stairs", "people", "supply cart"} <= seen["A"] - seen["B"]
    assert {"fuel truck", "belt loader"} <= seen["B"] - seen["A"]
    assert {"aircraft", "chocks", "tug"} <= seen["A"] & seen["B"]
    assert seen["A"] | seen["B"] == set(KINDS)


VISITS = [Visit("chocks", 90, 400), Visit("fuel truck", 150, 300), Visit("tug", 350, 420)]
AT = script(VISITS, 60, 420)


def test_things_are_at_their_places_while_they_work_and_gone_later():
    for time in (150, 200, 300):
        thing = next(one for one in AT(time) if one.kind == "fuel truck")
        assert (thing.x, thing.y) == ZONES["fuel truck"]
    away = next(one for one in AT(320) if one.kind == "fuel truck")
    assert away.x > ZONES["fuel truck"][0] + 5
    assert {one.kind for one in AT(345)} == {"aircraft", "chocks", "tug"}
    assert next(one for one in AT(60) if one.kind == "aircraft").y == 0
    assert next(one for one in AT(440) if one.kind == "aircraft").y < -5
    assert AT(600) == []


def test_faults_do_what_they_say():
    whole = list(film(AT, 60, Faults(0, 0, offset=11, drift_ppm=1e4), 0))
    assert [f.camera for f in whole] == ["A", "B"] * 10
    assert all(f.clock == f.time for f in whole if f.camera == "A")
    assert all(f.clock == pytest.approx(f.time * 1.01 + 11) for f in whole if f.camera == "B")
    assert 8 < len(list(film(AT, 60, Faults(0.3, 0), 1))) < 19
    dead = list(film(AT, 60, Faults(0, 0, dies={"A": 30}), 0))
    assert max(f.time for f in dead if f.camera == "A") == 24 and len(dead) == 15
    again = list(film(AT, 60, Faults(0, 0, offset=11, drift_ppm=1e4), 0))
    assert all(np.array_equal(a.picture, b.picture) for a, b in zip(whole, again, strict=True))


def test_examples_are_drawn_anew_for_each_seed():
    (one, seen), (two, _) = examples(2, 0), examples(2, 1)
    assert one.shape == (2, scene.HIGH, scene.WIDE, 3) and not np.array_equal(one, two)
    assert len(seen) == 2


def test_the_network_is_asked_for_what_it_can_see():
    _, seen = render(A, [PARKED, Thing("fuel truck", *ZONES["fuel truck"], 0, 1)])
    heat, places, counts = finding.targets(seen)
    assert heat[KINDS.index("aircraft")].max() == 1 and counts.sum() == 1
    assert heat[KINDS.index("fuel truck")].max() == 0
    assert np.all(places[2:, counts] > 0)


def test_a_perfect_head_is_read_as_what_it_says():
    _, seen = render(A, [PARKED, Thing("tug", *ZONES["tug"], 0, 1)])
    heat, places, _ = finding.targets(seen)
    head = np.concatenate([(heat - 0.5) * 20, places])[None].astype(np.float32)

    class Said(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Parameter(torch.from_numpy(head))

        def forward(self, pictures):
            return self.head

    (found,) = finding.find(Said(), np.zeros((1, scene.HIGH, scene.WIDE, 3), np.uint8), 0.9)
    told = {one.kind: one for one in found}
    for one in seen:
        assert told[one.kind].foot == pytest.approx(one.foot, abs=1e-3)
        assert told[one.kind].box == pytest.approx(one.box, abs=1e-2)


def test_the_loss_falls_when_the_network_learns():
    pictures, seen = examples(6, 7)
    few, more = (finding.train(pictures, seen, steps, batch=4) for steps in (1, 20))
    made = [
        torch.from_numpy(np.stack(one)) for one in zip(*map(finding.targets, seen), strict=True)
    ]
    x = torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        losses = [float(finding.loss(net.train()(x), *made)) for net in (few, more)]
    assert losses[1] < 0.7 * losses[0]


@pytest.fixture(scope="module")
def network():
    return finding.load()


def test_weights_are_small_and_find_unseen_examples(network):
    assert finding.WEIGHTS.stat().st_size < 1e6
    pictures, truth = examples(24, 77)
    hit = asked = told = 0
    for found, seen in zip(finding.find(network, pictures), truth, strict=True):
        for one in seen:
            u, v = one.foot
            if one.visible >= 0.5 and 0 < u < scene.WIDE and 0 < v < scene.HIGH:
                asked += 1
                hit += any(
                    f.kind == one.kind and np.hypot(f.foot[0] - u, f.foot[1] - v) < 6
                    for f in found
                )
        told += len(found)
    assert hit > 0.8 * asked and told < 1.3 * asked


def found(kind, *place, camera=A):
    foot = tuple(to_picture(camera, [place])[0])
    return finding.Found(kind, 0.9, (0, 0, 1, 1), foot)


def test_a_number_stays_through_dropped_frames_and_crossing_ways():
    tracker, numbers = Tracker(A), []
    for time in (0, 6, 12, 36, 42, 48):
        things = [found("tug", time / 3 - 8, 5), found("tug", 8 - time / 3, 8)]
        told = tracker.step(time, things if time % 12 else things[::-1])
        numbers.append({round(one.y): one.number for one in told})
    assert all(one == numbers[0] for one in numbers) and len(set(numbers[0].values())) == 2
    assert told[0].speed == pytest.approx(1 / 3, abs=0.1)


def test_another_kind_or_a_far_place_or_a_long_time_is_another_number():
    tracker = Tracker(A)
    first = tracker.step(0, [found("tug", 0, 5)])[0].number
    assert tracker.step(6, [found("stairs", 0, 5)])[0].number != first
    assert tracker.step(12, [found("tug", 0, 5)])[0].number == first
    assert tracker.step(13, [found("tug", 0, 25)])[0].number != first
    assert tracker.step(90, [found("tug", 0, 5)])[0].number != first
    assert tracker.step(91, []) == []


def test_a_frame_that_is_not_later_is_refused():
    tracker = Tracker(A)
    tracker.step(6, [])
    with pytest.raises(ValueError, match="sort them first"):
        tracker.step(6, [])


def perfect(faults, seed=0, visits=VISITS, ends=480):
    """A film with what is truly visible in the place of what a network would find."""

    class Truth:
        pass

    frames = list(film(script(visits, 60, 420), ends, faults, seed))
    kept = [f._replace(picture=None) for f in frames]
    things = [
        [finding.Found(s.kind, 1.0, s.box, s.foot) for s in f.seen if s.visible > 0.25]
        for f in frames
    ]
    sightings = {}
    for camera in CAMERAS:
        tracker, rows = Tracker(camera), []
        for frame, seen in zip(kept, things, strict=True):
            if frame.camera == camera.name:
                rows += tracker.step(frame.clock, seen)
        sightings[camera.name] = rows
    from .pipeline import Watched

    return Watched(kept, things, sightings)


@pytest.fixture(scope="module")
def watched():
    return perfect(Faults(0.05, 0, offset=17, drift_ppm=0))


def test_ways_that_both_saw_tell_the_clock(watched):
    clock = fusion.clock(watched.sightings["A"], watched.sightings["B"])
    assert clock.pairs >= 1 and clock.offset == pytest.approx(17, abs=1.5)
    assert clock.true(17 + 100) == pytest.approx(100, abs=1.5)
    assert fusion.clock(watched.sightings["A"], []) == Clock()


def test_events_are_found_with_the_clock_and_late_without(watched):
    told = {one.name: one.time for one in events(watched, Clock(17.0, 0.0, 1))[0]}
    wanted = {"on block": 60, "chocks start": 90, "fuel start": 150, "fuel end": 300}
    wanted |= {"chocks end": 400, "tug start": 350, "off block": 420}
    assert set(told) == set(wanted) <= set(EVENTS)
    assert all(abs(told[name] - at) <= 14 for name, at in wanted.items()), told
    raw = {one.name: one.time for one in events(watched, Clock())[0]}
    assert raw["fuel start"] > 160


def test_one_camera_tells_what_it_sees(watched):
    alone = {one.name for one in events(watched, Clock(17.0, 0.0, 1), "A")[0]}
    assert "fuel start" not in alone and {"on block", "chocks start"} <= alone


def test_perfect_things_have_perfect_numbers(watched):
    from event_scores import idf1

    assert idf1(*identities(watched, "A")) > 0.95


def test_a_film_is_watched_from_pictures(network):
    frames = film(script([], 60, 1000), 120, Faults(0, 0), 3)
    seen = watch(frames, network)
    told = events(seen, Clock(11.0, 0.002, 1))[0]
    assert [one.name for one in told] == ["on block"] and abs(told[0].time - 60) <= 14
    assert all(one.picture is None for one in seen.frames)
