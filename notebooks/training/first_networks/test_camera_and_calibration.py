"""Late work drops frames and not the clock; stated chances are held against what happened."""

import calibration
import camera_loop as cl
import numpy as np
import pytest


def test_fast_work_drops_nothing():
    found = cl.camera([0.05] * 9, fps=10)
    assert found.dropped == 0 and found.latency_s == pytest.approx([0.05] * 9)
    assert found.per_second == pytest.approx(10)


def test_slow_work_drops_frames_and_latency_stays_bounded():
    found = cl.camera([0.25] * 100, fps=10)
    assert found.per_second == pytest.approx(4, rel=0.02)
    assert found.dropped == pytest.approx(150, abs=3) and max(found.latency_s) < 0.25 + 0.1


def test_one_slow_frame_is_caught_up_with():
    found = cl.camera([0.01, 0.95, *[0.01] * 8], fps=10)
    assert found.dropped == 8 and found.latency_s[-1] == pytest.approx(0.01)


def test_latency_counts_from_the_arrival_and_not_from_the_begin():
    # frames come each 0.1 s; the loop takes frame 0 at 0, then 2 (0.05 s old), then 5 (fresh)
    found = cl.camera([0.25] * 3, fps=10)
    assert found.latency_s == pytest.approx([0.25, 0.30, 0.25]) and found.dropped == 3


def test_the_boards_are_the_developer_kits():
    assert {name: size / 2**30 for name, size in cl.BOARDS.items()} == {
        "Jetson Nano": 4,
        "Jetson Xavier NX": 8,
    }


def test_the_first_call_is_not_timed():
    seen = []
    assert len(cl.timed(seen.append, [1, 2])) == 2 and seen == [1, 1, 2]


def test_bytes_of_training_by_hand():
    assert cl.training_bytes(10, 3, batch=2) == 4 * (10 * 2 + 6)
    assert cl.training_bytes(10, 3, batch=2, optimiser=2) == 4 * (10 * 4 + 6)


def test_the_largest_batch_fits_and_one_more_does_not():
    batch = cl.largest_batch("Jetson Nano", 10**8, 10**6)
    room = cl.BOARDS["Jetson Nano"] / 2
    assert cl.training_bytes(10**8, 10**6, batch) <= room
    assert cl.training_bytes(10**8, 10**6, batch + 1) > room
    assert cl.largest_batch("Jetson Nano", 10**9, 10**6) == 0


def test_bad_loops_and_boards_are_refused():
    with pytest.raises(ValueError, match="must be positive"):
        cl.camera([0.1], fps=0)
    with pytest.raises(ValueError, match="must be positive"):
        cl.camera([], fps=10)
    with pytest.raises(ValueError, match="one at least"):
        cl.timed(len, [])
    with pytest.raises(ValueError, match="Jetson Xavier NX"):
        cl.largest_batch("Jetson", 1, 1)
    with pytest.raises(ValueError, match="1 or more"):
        cl.training_bytes(0, 1, 1)


def test_a_model_that_says_nine_tenths_and_is_right_so_often_is_calibrated():
    log_p = np.log(np.tile([0.9, 0.1], (10, 1)))
    truth = np.array([0] * 9 + [1])
    assert calibration.calibration_error(log_p, truth) == pytest.approx(0)
    assert calibration.calibration_error(log_p, 1 - truth) == pytest.approx(0.8)


def test_bins_are_weighted_by_their_answers_and_say_what_was_said_and_what_happened():
    # three say 0.95 and are right; one says 0.65 and is wrong
    log_p = np.log([[0.95, 0.05]] * 3 + [[0.65, 0.35]])
    confidence, right, count = calibration.reliability(log_p, [0, 0, 0, 1])
    assert count.tolist() == [0] * 6 + [1, 0, 0, 3]
    assert confidence[[6, 9]] == pytest.approx([0.65, 0.95]) and right[[6, 9]].tolist() == [
        0,
        1,
    ]
    wanted = (3 * 0.05 + 0.65) / 4
    assert calibration.calibration_error(log_p, [0, 0, 0, 1]) == pytest.approx(wanted)


def test_certainty_lies_in_the_last_bin():
    with np.errstate(divide="ignore"):
        confidence, right, count = calibration.reliability(np.log([[1.0, 0.0]]), [0], bins=5)
    assert count.tolist() == [0, 0, 0, 0, 1] and confidence[-1] == right[-1] == 1


def test_rows_that_are_no_probabilities_are_refused():
    with pytest.raises(ValueError, match="do not sum to 1"):
        calibration.reliability(np.zeros((2, 2)), [0, 1])
    with pytest.raises(ValueError, match="are the least"):
        calibration.reliability(np.zeros((2, 1)), [0])
