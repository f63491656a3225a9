"""Scenes are what they say, and the detector sees the plate, and only that."""

import numpy as np
import pytest
import torch
from camera_scenes import CONTRAST, KINDS, PLATE, SIDE, render
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


def test_the_detector_fires_where_the_plate_is():
    for kind in ("left", "thrown"):
        clip = render(1, kind)
        score = detect(torch.from_numpy(clip.frames)).numpy()
        assert np.median(score[clip.plate]) > 0.85 > np.quantile(score[~clip.plate], 0.99)


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
    frame[0, 5 : 5 + SIDE, 5 : 5 + SIDE] += CONTRAST * plate
    frame[1, 5 : 5 + SIDE, 5 : 5 + SIDE] += 2 * CONTRAST * plate + 20
    assert detect(frame).tolist() == pytest.approx([1, detect(frame)[1].item()], abs=1e-4)
    assert float(detect(frame)[0]) == pytest.approx(1, abs=1e-4)


def test_no_frames_give_no_scores():
    assert detect(torch.zeros(0, 20, 20)).shape == (0,)
