"""Scenes are what they say, and the detector sees the plate, and only that."""

import numpy as np
import pytest
import torch
from camera_scenes import KINDS, PLATE, SIDE, _walk, render
from plate_detector import correlation_reference, detect


@pytest.mark.parametrize("kind", [*KINDS, "none"])
def test_a_clip_is_drawn_by_its_seed_alone(kind):
    one, same, other = render(3, kind), render(3, kind), render(4, kind)
    assert (one.frames == same.frames).all() and (one.frames != other.frames).any()
    assert one.frames.dtype == np.uint8 and one.frames.shape == (240, 48, 64)
    assert str(kind) in repr(one)


@pytest.mark.parametrize("seed", range(6))
def test_kinds_differ_in_who_is_there(seed):
    carried, left, thrown, none = (render(seed, kind) for kind in (*KINDS, "none"))
    assert carried.plate.sum() in range(3, 9) and (carried.persons[carried.plate]).all()
    assert left.plate.sum() >= 30 and (left.plate & ~left.persons).any()
    assert not (thrown.plate & thrown.persons).any() and thrown.plate.sum() >= 8
    assert not none.plate.any() and none.persons.any()


@pytest.mark.parametrize("bad", [("lost", 240), ("left", 100)])
def test_what_cannot_be_drawn_is_refused(bad):
    with pytest.raises(ValueError, match="allowed are"):
        render(0, *bad)


def test_persons_have_any_height_and_fill_it():
    heights = set()
    for seed in range(30):
        scene = np.zeros((60, 48, 64))
        there, path = _walk(scene, np.random.default_rng(seed), 5, tall=True)
        at = sorted(path)[len(path) // 2]
        rows = np.flatnonzero(scene[at].any(1))
        assert there[at] and len(rows) == path[at][2] and rows[-1] == path[at][0] - 1
        heights.add(len(rows))
    assert len(heights) >= 8 and min(heights) < 9 and max(heights) > 14


def test_no_two_clips_have_a_place_in_common():
    made = [render(seed, kind).frames[0, 20:] for seed in range(3) for kind in (*KINDS, "none")]
    for at, one in enumerate(made):
        for other in made[
            :at
        ]:  # the ground's own pattern, without what changes from row to row
            a, b = (each.astype(float) - each.mean(1, keepdims=True) for each in (one, other))
            assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.15


def test_the_detector_fires_where_the_plate_is_and_errs():
    """It must err, or one frame of each event would do, and no gate were worth its cost."""
    limit = max(
        float(detect(torch.from_numpy(render(90 + s, "none").frames)).max()) for s in (0, 1)
    )
    hits, alarms = {}, []
    for kind in KINDS:
        clips = [render(seed, kind) for seed in range(6)]
        fires = [(detect(torch.from_numpy(one.frames)) > limit).numpy() for one in clips]
        pairs = list(zip(fires, clips, strict=True))
        hits[kind] = np.concatenate([fire[one.plate] for fire, one in pairs]).mean()
        alarms += [fire[~one.plate].mean() for fire, one in pairs]
    assert 0.2 < hits["carried"] < 0.8 and hits["left"] > 0.6 and hits["thrown"] > 0.6
    assert np.mean(alarms) < 0.01


def test_the_detector_is_the_loop_that_tries_all_places():
    rng = np.random.default_rng(0)
    frame = rng.integers(0, 256, (14, 15)).astype(np.uint8)
    got = detect(
        torch.from_numpy(frame[None]), [torch.tensor(PLATE, dtype=torch.float32)[None, None]]
    )
    assert float(got[0]) == pytest.approx(correlation_reference(frame, PLATE), abs=1e-5)


@pytest.mark.parametrize("level", [0, 128, 255])
def test_light_and_contrast_change_nothing_and_a_flat_frame_is_no_plate(level):
    flat = torch.full((1, 20, 20), float(level))
    assert abs(float(detect(flat)[0])) < 0.01
    frame = torch.full((2, 20, 20), 100.0)
    plate = torch.tensor(PLATE)
    frame[0, 5 : 5 + SIDE, 5 : 5 + SIDE] += 28 * plate
    frame[1, 5 : 5 + SIDE, 5 : 5 + SIDE] += 56 * plate + 20
    assert detect(frame).tolist() == pytest.approx([1, detect(frame)[1].item()], abs=1e-4)
    assert float(detect(frame)[0]) == pytest.approx(1, abs=1e-4)


def test_no_frames_give_no_scores():
    assert detect(torch.zeros(0, 20, 20)).shape == (0,)
