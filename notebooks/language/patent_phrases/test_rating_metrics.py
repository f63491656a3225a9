"""Correlations equal SciPy's; overlaps and intervals by known answers; bad input."""

import numpy as np
import pytest
import rating_metrics as rm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

RANDOM = np.random.default_rng(0)
LISTS = {
    "two": ([1, 2], [3, 1]),
    "ties": ([0, 0.25, 0.25, 1, 0.5, 0.5, 0.5], [0, 0, 1, 1, 0.5, 0.5, 0.25]),
    "far from zero": (1e8 + RANDOM.random(101), RANDOM.random(101)),
    "an outlier": ([0, 1, 2, 3, 1e6], [1, 0, 2, 3, 4]),
}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(
    ("ours", "theirs"), [(rm.pearson, stats.pearsonr), (rm.spearman, stats.spearmanr)]
)
def test_correlations_equal_scipys(name, ours, theirs):
    x, y = LISTS[name]
    assert ours(x, y) == pytest.approx(theirs(x, y)[0], abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), min_size=3, max_size=30))
def test_correlations_equal_scipys_on_any_integers(points):
    x, y = np.array(points, dtype=float).T
    if np.ptp(x) and np.ptp(y):
        assert rm.pearson(x, y) == pytest.approx(stats.pearsonr(x, y)[0], abs=1e-12)
        assert rm.spearman(x, y) == pytest.approx(stats.spearmanr(x, y)[0], abs=1e-12)


@pytest.mark.parametrize("correlation", [rm.pearson, rm.spearman])
@pytest.mark.parametrize(
    ("x", "y", "told"),
    [
        ([1, 1, 1], [1, 2, 3], "constant"),
        ([1, 2, 3], [0.5, 0.5, 0.5], "constant"),
        ([1, float("nan"), 3], [1, 2, 3], "no number, one at 1"),
        ([1, 2], [1, 2, 3], "equal length"),
        ([1], [1], "two values"),
        ([[1, 2]], [[1, 2]], "two lists"),
    ],
)
def test_what_has_no_correlation_is_refused(correlation, x, y, told):
    with pytest.raises(ValueError, match=told):
        correlation(x, y)


def test_overlaps_of_known_phrases():
    assert rm.token_jaccard("acid absorption", "absorption of acid") == 2 / 3
    assert rm.token_jaccard("a b", "c") == 0
    assert rm.ngram_jaccard("abcd", "bcde", padding=0) == 1 / 3  # bcd of abc, bcd, cde
    assert rm.ngram_jaccard("ab", "ab", padding=2) == 1


def test_padding_gives_the_ends_of_a_phrase_pieces_of_their_own():
    assert (
        rm.ngram_jaccard("abc", "xbc", padding=0)
        == 0
        < rm.ngram_jaccard("abc", "xbc", padding=2)
    )


@pytest.mark.parametrize(
    "overlap", [rm.token_jaccard, lambda a, b: rm.ngram_jaccard(a, b, padding=0)]
)
def test_phrases_without_parts_are_refused(overlap):
    with pytest.raises(ValueError, match="neither"):
        overlap("", "")


def pairs_of_anchors(count=30, each=20, alike=1.0):
    random = np.random.default_rng(1)
    anchors = np.repeat([f"anchor {n}" for n in range(count)], each)
    shift = np.repeat(random.standard_normal(count), each) * alike
    rated = random.standard_normal(count * each) + shift
    return rated + random.standard_normal(count * each) + shift, rated, anchors


def test_the_interval_is_that_of_drawing_anchors_one_by_one():
    predicted, rated, anchors = pairs_of_anchors()
    found = rm.pearson_interval(predicted, rated, anchors)
    random, names, drawn = np.random.default_rng(4), sorted(set(anchors)), []
    for _ in range(2000):
        rows = np.concatenate(
            [np.flatnonzero(anchors == one) for one in random.choice(names, len(names))]
        )
        drawn.append(np.corrcoef(predicted[rows], rated[rows])[0, 1])
    assert found.value == pytest.approx(stats.pearsonr(predicted, rated)[0])
    assert (found.low, found.high) == pytest.approx(
        np.quantile(drawn, (0.025, 0.975)), abs=0.005
    )


def test_anchors_that_differ_make_the_interval_wider_than_single_pairs_would():
    predicted, rated, anchors = pairs_of_anchors(alike=2.0)
    whole = rm.pearson_interval(predicted, rated, anchors)
    single = rm.pearson_interval(predicted, rated, np.arange(len(rated)).astype(str))
    assert whole.high - whole.low > 1.5 * (single.high - single.low)


def test_the_gain_is_what_the_better_one_has_more():
    predicted, rated, anchors = pairs_of_anchors()
    noisy = predicted + 3 * np.random.default_rng(5).standard_normal(len(rated))
    found = rm.gain_interval(predicted, noisy, rated, anchors)
    assert found.value == rm.pearson(predicted, rated) - rm.pearson(noisy, rated) > 0.2
    assert 0 < found.low < found.value < found.high
    assert rm.gain_interval(predicted, predicted, rated, anchors) == (0, 0, 0)


def test_the_gains_interval_holds_95_per_cent_of_the_draws():
    predicted, rated, anchors = pairs_of_anchors()
    noisy = predicted + np.random.default_rng(5).standard_normal(len(rated))
    random, names, drawn = np.random.default_rng(4), sorted(set(anchors)), []
    of = {one: np.flatnonzero(anchors == one) for one in names}
    for _ in range(2000):
        rows = np.concatenate([of[one] for one in random.choice(names, len(names))])
        both = [np.corrcoef(one[rows], rated[rows])[0, 1] for one in (predicted, noisy)]
        drawn.append(both[0] - both[1])
    found = rm.gain_interval(predicted, noisy, rated, anchors)
    wanted = np.quantile(drawn, (0.025, 0.975))
    assert (found.low, found.high) == pytest.approx(wanted, abs=0.1 * np.ptp(wanted))


def test_calibration_groups_by_prediction_whatever_the_ratings():
    table = rm.calibration([0.1, 0.2, 0.3, 0.4], [1, 0, 0.25, 0.5], bins=2)
    assert table.tolist() == [[pytest.approx(0.15), 0.5, 2], [pytest.approx(0.35), 0.375, 2]]


def test_a_share_is_drawn_by_anchors():
    hits, anchors = (
        np.repeat([0.0, 1.0] * 8, 10),
        np.repeat([f"{n:02d}" for n in range(16)], 10),
    )
    found = rm.share_interval(hits, anchors)
    assert found.value == 0.5
    assert found.high - found.low == pytest.approx(4 * 0.5 / 16**0.5, rel=0.15)  # 16 draws


def test_an_interval_over_seeds_has_the_mean_and_the_draws_of_all():
    predicted, rated, anchors = pairs_of_anchors()
    noise = np.random.default_rng(7).standard_normal((2, len(rated)))
    runs = np.stack([predicted, predicted + 0.5 * noise[0], predicted + 3 * noise[1]])
    each = [rm.pearson_interval(one, rated, anchors) for one in runs]
    found = rm.pearson_interval(runs, rated, anchors)
    assert found.value == pytest.approx(np.mean([one.value for one in each]))
    ends = np.array(each)[:, 1:]
    assert ends[:, 0].min() <= found.low < np.median(ends[:, 0]) - 0.02
    assert np.median(ends[:, 1]) < found.high + 0.02 and found.high <= ends[:, 1].max()
    same = rm.gain_interval(np.stack([runs[1]] * 2), np.stack([runs[0]] * 2), rated, anchors)
    assert same == pytest.approx(rm.gain_interval(runs[1], runs[0], rated, anchors))
    turned = rm.gain_interval(runs[:2], runs[1::-1], rated, anchors)
    assert turned.value == pytest.approx(0) and turned.low < 0 < turned.high
    hits = (runs > 0).astype(float)
    shares = [rm.share_interval(one, anchors) for one in hits]
    found = rm.share_interval(hits, anchors)
    assert found.value == pytest.approx(np.mean([one.value for one in shares]))
    assert min(one.low for one in shares) <= found.low
    with pytest.raises(ValueError, match="zip"):
        rm.gain_interval(runs, runs[:2], rated, anchors)


def test_an_interval_needs_two_anchors():
    with pytest.raises(ValueError, match="two or more"):
        rm.pearson_interval([1, 2, 3], [1, 2, 4], ["one"] * 3)


def test_calibration_covers_all_pairs_in_order():
    predicted = np.random.default_rng(2).random(103)
    table = rm.calibration(predicted, predicted**2, bins=10)
    assert table[:, 2].sum() == 103
    assert (np.diff(table[:, 0]) > 0).all()
    assert rm.calibration([3, 0, 2, 1], [9, 5, 7, 6], bins=2).tolist() == [
        [0.5, 5.5, 2],
        [2.5, 8, 2],
    ]


def test_kappa_by_hand():
    # two levels, so weights do not matter: 3 of 4 agree; chance agrees with 1/2
    assert rm.kappa([0, 0, 1, 1], [0, 0, 1, 0]) == pytest.approx((0.75 - 0.5) / (1 - 0.5))
    assert rm.kappa([0, 0.5, 1], [0, 0.5, 1]) == 1
    # squared distances: 1/4 in sum, by chance (0 + 1 + 1 + 1/4 + 1/4 + 1/4 + 1 + 0 + 0) / 3
    assert rm.kappa([0, 0.5, 1], [0, 1, 1]) == pytest.approx(1 - 0.25 / (3.75 / 3))


def test_kappa_refuses_other_levels_and_one_value_only():
    with pytest.raises(ValueError, match="allowed are"):
        rm.kappa([0.3], [0])
    with pytest.raises(ValueError, match="one value only"):
        rm.kappa([1, 1], [1, 1])
