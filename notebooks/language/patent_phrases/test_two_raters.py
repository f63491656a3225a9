"""The formulas hold in a simulation without levels; with levels and a meeting the order of the
correlations holds."""

import numpy as np
import pytest
import two_raters as tr

SHARES = np.array([0.2, 0.32, 0.34, 0.11, 0.03])


def test_the_formulas_are_those_of_equal_raters_with_independent_noise():
    random = np.random.default_rng(0)
    truth = random.standard_normal(200_000)
    first, second, third = truth + 0.6 * random.standard_normal((3, len(truth)))
    mean = (first + second) / 2
    between, of_third, of_truth = tr.from_rater(np.corrcoef(first, mean)[0, 1])
    wanted = [
        np.corrcoef(a, b)[0, 1] for a, b in ((first, second), (third, mean), (truth, mean))
    ]
    assert (between, of_third, of_truth) == pytest.approx(wanted, abs=0.01)


def test_raters_give_each_level_its_share():
    found = tr.rated(
        np.random.default_rng(1).standard_normal(10_000), 0.5, SHARES, np.random.default_rng(2)
    )
    np.testing.assert_allclose(
        [(found == level).mean() for level in tr.LEVELS], SHARES, atol=0.002
    )


def test_the_final_score_lies_between_the_raters_and_is_a_level():
    random = np.random.default_rng(3)
    first, second = random.choice(tr.LEVELS, (2, 500))
    final = tr.agreed(first, second, random)
    assert np.isin(final, tr.LEVELS).all()
    assert (np.minimum(first, second) <= final).all()
    assert (final <= np.maximum(first, second)).all()
    assert abs(final.mean() - (first + second).mean() / 2) < 0.02


def test_a_rater_who_took_part_looks_better_than_one_who_did_not():
    found = tr.simulated(tr.noise_for(0.93, SHARES), SHARES)
    assert found.rater == pytest.approx(0.93, abs=1e-3)
    assert found.third < found.rater - 0.05
    assert found.third < found.truth
    assert found.kappa < found.third
    # raters of equal shares: weighted kappa is their correlation, but for what rounding leaves
    assert found.kappa == pytest.approx(found.between, abs=1e-9)


def test_whoever_knows_the_truth_of_faultless_raters_is_hardly_wrong():
    found = tr.simulated(0.0, SHARES)
    assert (found.rater, found.third, found.between, found.kappa) == pytest.approx((1,) * 4)
    assert 0.99 < found.truth < 1


@pytest.mark.parametrize("correlation", [0.5, 1.2])
def test_a_correlation_that_no_rater_has_is_refused(correlation):
    with pytest.raises(ValueError, match="correlation"):
        tr.from_rater(correlation)
