"""What votes give, by hand, by going through all subsets, and by law."""

from itertools import combinations

import pytest
import voting
from hypothesis import given
from hypothesis import strategies as st

COUNTS = st.integers(1, 9).flatmap(
    lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))
)


@given(COUNTS)
def test_pass_at_k_is_the_share_of_subsets_with_a_right_one(counts):
    samples, correct, k = counts
    right = [at < correct for at in range(samples)]
    subsets = list(combinations(right, k))
    assert voting.pass_at_k(samples, correct, k) == pytest.approx(
        sum(map(any, subsets)) / len(subsets)
    )


def test_pass_at_k_knows_its_ends_and_many_samples():
    assert voting.pass_at_k(8, 2, 1) == 0.25 and voting.pass_at_k(8, 0, 8) == 0.0
    assert voting.pass_at_k(8, 1, 8) == 1.0 and voting.pass_at_k(8, 5, 4) == 1.0
    assert isinstance(voting.pass_at_k(1, 1, 1), float)
    assert voting.pass_at_k(10**5, 1, 10**4) == pytest.approx(0.1)


@pytest.mark.parametrize(
    "counts", [(8, 9, 1), (8, -1, 1), (8, 1, 0), (8, 1, 9), (0, 0, 1), (8, 0.5, 1)]
)
def test_counts_that_cannot_be_are_refused(counts):
    with pytest.raises(ValueError, match="0 <= correct <= samples"):
        voting.pass_at_k(*counts)


def test_the_majority_is_the_most_common_and_of_a_tie_the_first():
    assert voting.majority(["4", "7", None, "7"]) == "7"
    assert voting.majority(["4", "7", "7", "4"]) == "4"
    assert voting.majority(iter(["7"])) == "7"
    assert voting.leaders(["a", "b", "b", "a", "c"]) == ["a", "b"]


def test_no_answer_never_votes():
    assert voting.majority([None, None, "3"]) == "3"
    assert voting.majority([None, None]) is None and voting.majority([]) is None
    assert voting.share_right([None], [False]) == 0.0


def test_equal_answers_vote_as_one_and_what_is_not_judged_does_not():
    def same(a, b):
        return None if "?" in a + b else float(a) == float(b)

    found = voting.classes(["1.0", "?a", "1", "?b", None, "?a", "2"], same)
    assert found == ["1.0", "?a", "1.0", "?b", None, "?a", "2"]


def test_a_tie_is_shared():
    assert voting.share_right(["a", "b"], [True, False]) == 0.5
    assert voting.share_right(["a", "b", "c"], [False, False, False]) == 0.0


def test_maj_at_k_by_hand():
    answers, right = ["x", "x", "y"], [True, True, False]
    assert voting.maj_at_k(answers, right, 1) == pytest.approx(2 / 3)
    assert voting.maj_at_k(answers, right, 2) == pytest.approx((1 + 0.5 + 0.5) / 3)
    assert voting.maj_at_k(answers, right, 3) == 1.0 == voting.limit(answers, right)


def test_votes_help_where_the_right_answer_is_the_mode_and_harm_where_it_is_not():
    mode = ["r"] * 4 + ["a", "b", "c", "d"]
    lost = ["r"] * 2 + ["a"] * 3 + ["b", "c", "d"]
    for answers, sign in ((mode, 1), (lost, -1)):
        right = [one == "r" for one in answers]
        curve = [voting.maj_at_k(answers, right, k) for k in range(1, 9)]
        assert sign * (curve[-1] - curve[0]) > 0.2
        assert voting.limit(answers, right) == curve[-1]


def test_drawn_subsets_come_near_all_of_them(monkeypatch):
    answers = list("rrrraabcde")
    right = [one == "r" for one in answers]
    exact = voting.maj_at_k(answers, right, 5)
    monkeypatch.setattr(voting, "MOST_SUBSETS", 251)  # one less than there are
    assert voting.maj_at_k(answers, right, 5, seed=3, draws=4000) == pytest.approx(
        exact, abs=0.03
    )


def test_the_best_score_of_k_by_going_through_all():
    scores, right = [0.3, 0.9, 0.9, -1.0], [True, False, True, True]
    for k in range(1, 5):
        subsets = list(combinations(range(4), k))
        best = [right[max(one, key=lambda at: (scores[at], -at))] for one in subsets]
        assert voting.best_at_k(scores, right, k) == pytest.approx(sum(best) / len(subsets))


@pytest.mark.parametrize("k", [0, 4])
def test_more_votes_than_samples_are_refused(k):
    for fn, first in ((voting.maj_at_k, ["a"] * 3), (voting.best_at_k, [1.0] * 3)):
        with pytest.raises(ValueError, match="1 <= k <= samples"):
            fn(first, [True] * 3, k)


def test_a_gain_is_paired_by_problem():
    before = [0.0, 1.0] * 20
    mean, low, high = voting.paired_gain([one + 0.1 for one in before], before)
    assert mean == pytest.approx(0.1) and high - low < 1e-9  # unpaired it would hold 0
    mean, low, high = voting.paired_gain([1.0, 0.0] * 20, before)
    assert mean == 0 and low < 0 < high
    mean, low, high = voting.paired_gain([0.0], [1.0])
    assert (mean, low, high) == (-1, -1, -1)
