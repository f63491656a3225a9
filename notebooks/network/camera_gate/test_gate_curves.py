"""Events are counted as events; curves begin and end where they must."""

import pytest
import torch
from gate_curves import (
    cameras_a_core,
    curve,
    found,
    in_turn,
    over,
    passes,
    recall,
    roc,
    threshold_for,
)

YES = torch.tensor([[1, 1, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0]]).bool()


def test_one_frame_of_an_event_will_do():
    passed = torch.tensor([[0, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 1]]).bool()
    assert found(passed, torch.ones_like(YES), YES).tolist() == [True, False, False]
    assert recall(passed, torch.ones_like(YES), YES) == 0.5  # the third has no event


def test_a_frame_in_which_the_detector_is_silent_finds_nothing():
    assert recall(torch.ones_like(YES), torch.zeros_like(YES), YES) == 0


def test_an_alarm_beside_the_event_does_not_count():
    passed = torch.ones_like(YES)
    seen = ~YES
    assert recall(passed, seen, YES) == 0


@pytest.mark.parametrize("share", [0, 0.1, 0.33, 0.5, 1])
def test_all_gates_pass_equally_many_also_with_ties(share):
    for scores in (torch.rand(5, 40), torch.zeros(5, 40), torch.ones(5, 40).cumsum(1) // 7):
        assert int(passes(scores, share).sum()) == round(share * 200)


def test_the_highest_pass_and_ties_prefer_no_beginning():
    scores = torch.tensor([[0.1, 0.9, 0.5, 0.7]])
    assert passes(scores, 0.5).tolist() == [[False, True, False, True]]
    where = passes(torch.zeros(1, 64), 0.25)[0].nonzero().flatten().float()
    assert 24 < float(where.mean()) < 40


def test_a_share_that_is_none_is_refused():
    with pytest.raises(ValueError, match="0 to 1"):
        passes(torch.zeros(1, 4), 1.1)


def test_a_threshold_lets_so_large_a_share_pass():
    scores = torch.rand(10, 1000, generator=torch.Generator().manual_seed(0))
    limit = threshold_for(scores, 0.1)
    assert float(over(scores, limit).float().mean()) == pytest.approx(0.1, abs=0.002)


def test_a_threshold_among_ties_lets_no_more_pass_than_was_said():
    scores = torch.tensor([[0.0] * 6 + [0.5] * 2 + [1.0] * 2])
    assert [threshold_for(scores, share) for share in (0.1, 0.2, 0.3, 0.4, 1)] == [
        1,
        1,
        1,
        0.5,
        0,
    ]


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
def test_a_gate_that_says_one_score_of_most_frames_is_thinned_evenly(share):
    scores = torch.zeros(4, 256)
    scores[:, 100:200] = 1
    thin = in_turn(scores)
    passed = over(thin, threshold_for(thin, share))
    assert float(passed.float().mean()) == pytest.approx(share, abs=0.005)
    assert (
        not bool(passed[:, :100].any())
        and 130 < float(passed.nonzero()[:, 1].float().mean()) < 170
    )
    steps = torch.tensor([[0.25, 0.5, 0.5 + 1 / 840, 1.0]])
    assert in_turn(steps)[0].argsort().tolist() == [0, 1, 2, 3]


def test_a_curve_goes_from_all_found_to_nothing_and_never_up():
    generator = torch.Generator().manual_seed(1)
    scores, truth = torch.rand(20, 50, generator=generator), torch.zeros(20, 50).bool()
    truth[:, 20:25] = True
    made = curve(scores, torch.ones_like(truth), truth, [0, 0.1, 0.3, 0.6, 1])
    assert made[0] == (1, 0, 0) and made[-1] == (0, 1, 1)
    assert [one[1] for one in made] == sorted(one[1] for one in made)


def test_areas_of_the_best_the_worst_and_of_no_gate():
    truth = torch.zeros(4, 25).bool()
    truth[:, :5] = True
    assert roc(truth.float(), truth)[2] == pytest.approx(1)
    assert roc(-truth.float(), truth)[2] == pytest.approx(0)
    assert roc(torch.zeros(4, 25), truth)[2] == pytest.approx(0.5)  # all tie: one step


def test_cameras_are_bounded_by_the_gates_own_cost():
    assert cameras_a_core(0.001, 0.1, 1, 5) == pytest.approx(1 / 0.505)
    assert cameras_a_core(0.001, 0.1, 0, 5) == pytest.approx(200)
    assert cameras_a_core(0, 0.1, 1, 5) == pytest.approx(2)
