"""Equal to scikit-learn and to Bayes' rule as written; parts give what the whole gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_bayes import (
    BernoulliNaiveBayes,
    GaussianNaiveBayes,
    MultinomialNaiveBayes,
    log_posterior_reference,
)

FORMS = [GaussianNaiveBayes, MultinomialNaiveBayes, BernoulliNaiveBayes]


@pytest.fixture(scope="module")
def digits():
    datasets = pytest.importorskip("sklearn.datasets")
    return datasets.load_digits(return_X_y=True)


def peer(form, priors=None):
    bayes = pytest.importorskip("sklearn.naive_bayes")
    if form is GaussianNaiveBayes:
        return bayes.GaussianNB(priors=priors)
    kind = bayes.MultinomialNB if form is MultinomialNaiveBayes else bayes.BernoulliNB
    return kind(class_prior=priors)


def counts(seed=0, samples=37, features=5, classes=3):
    rng = np.random.default_rng(seed)
    return rng.poisson(2.0, (samples, features)), rng.permutation(np.arange(samples) % classes)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("priors", [None, np.arange(1, 11) / 55])
def test_equals_scikit_learn_on_digits(form, priors, digits):
    x, y = digits
    x, y, rest = x[:900], y[:900], x[900:]
    ours = form(priors).fit(x, y).log_posterior(rest)
    theirs = peer(form, priors).fit(x, y).predict_log_proba(rest)
    # some features are nearly constant, so log-posteriors reach −1e8: 1e-9 of the value
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-6)


def test_equals_bayes_rule_as_written():
    x, y = counts()
    ours = GaussianNaiveBayes().fit(x, y)
    want = log_posterior_reference(x, ours.means(), ours.variances(), ours.class_priors())
    np.testing.assert_allclose(ours.log_posterior(x), want, atol=1e-9)


def test_products_underflow_where_sums_of_logarithms_do_not():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 2000)) * 10
    ours = GaussianNaiveBayes().fit(x, np.arange(20) % 2)
    parts = ours.means(), ours.variances(), ours.class_priors()
    assert np.isnan(log_posterior_reference(x[:1], *parts)).all()
    assert np.isfinite(ours.log_posterior(x).max(axis=1)).all()


def test_a_constant_pixel_changes_nothing():
    x, y = counts()
    wider = np.c_[x, np.full(len(x), 7.0)]
    plain, ours = (GaussianNaiveBayes().fit(one, y).log_posterior(one) for one in (x, wider))
    np.testing.assert_allclose(ours, plain, atol=1e-9)


def test_a_pixel_that_was_constant_in_all_classes_and_changes_is_still_answered():
    x, y = np.c_[[0.0, 1, 2, 3], np.zeros(4)], [0, 0, 1, 1]
    assert np.isfinite(GaussianNaiveBayes().fit(x, y).log_posterior([[0.5, 1.0]]).max())


@pytest.mark.parametrize("form", [MultinomialNaiveBayes, BernoulliNaiveBayes])
def test_a_value_never_seen_in_a_class_is_improbable_and_not_impossible(form):
    found = form().fit([[3, 0], [3, 0], [0, 3], [0, 3]], [0, 0, 1, 1]).log_posterior([[0, 9]])
    assert np.isfinite(found).all() and found[0, 0] < found[0, 1]


def test_smoothing_of_the_multinomial_form_is_the_known_share():
    ours = MultinomialNaiveBayes().fit([[3, 0, 1]], ["a"])
    np.testing.assert_allclose(np.exp(ours.log_shares()), [[4 / 7, 1 / 7, 2 / 7]])


def test_smoothing_of_the_bernoulli_form_is_the_known_rate():
    ours = BernoulliNaiveBayes().fit([[1, 0], [1, 0], [0, 0]], [5, 5, 5])
    np.testing.assert_allclose(ours.rates(), [[3 / 5, 1 / 5]])


def test_without_evidence_the_posterior_is_the_prior():
    ours = MultinomialNaiveBayes().fit(np.ones((4, 2)), [0, 0, 0, 1])
    np.testing.assert_allclose(np.exp(ours.log_posterior([[0, 0]])), [[3 / 4, 1 / 4]])


@pytest.mark.parametrize("form", FORMS)
def test_given_priors_move_the_posterior_by_their_ratio(form):
    x, y = counts()
    even, tilted = (form(p).fit(x, y).log_posterior(x) for p in ([1 / 3] * 3, [0.2, 0.2, 0.6]))
    moved = (tilted[:, 2] - tilted[:, 0]) - (even[:, 2] - even[:, 0])
    np.testing.assert_allclose(moved, np.log(3), atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_posteriors_sum_to_one(form):
    x, y = counts()
    np.testing.assert_allclose(np.exp(form().fit(x, y).log_posterior(x)).sum(axis=1), 1)


@pytest.mark.parametrize("form", FORMS)
@given(cut=st.integers(1, 36), offset=st.sampled_from([0, 1, 1_000_000]))
@settings(max_examples=20, deadline=None)
def test_parts_give_what_the_whole_gives(form, cut, offset):
    x, y = counts()
    x = x + offset
    whole = form().fit(x, y)
    ours = form().partial_fit(x[:cut], y[:cut], classes=[0, 1, 2]).partial_fit(x[cut:], y[cut:])
    # a million times larger than the spread: 1e-16 · 1e12 of rounding in a square
    np.testing.assert_allclose(
        ours.log_posterior(x), whole.log_posterior(x), atol=1e-7 if offset < 2 else 1e-3
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_second_fit_forgets_the_first(form):
    x, y = counts()
    again = form().fit(x[::2], y[::2]).fit(x, y)
    np.testing.assert_array_equal(again.log_posterior(x), form().fit(x, y).log_posterior(x))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("priors", [None, [0.2, 0.2, 0.6]])
def test_a_class_without_samples_so_far_has_probability_zero(form, priors):
    x, _ = counts()
    ours = form(priors).partial_fit(x[:9], np.arange(9) % 2, classes=[0, 1, 2])
    found = ours.log_posterior(x)
    assert np.isneginf(found[:, 2]).all() and np.isfinite(found[:, 0]).all()


def test_classes_are_sorted_whatever_the_order_of_labels():
    ours = GaussianNaiveBayes().fit([[9.0], [1.0], [8.0], [0.0]], ["cat", "ant", "cat", "ant"])
    assert ours.classes.tolist() == ["ant", "cat"] and ours.predict([[8.5]]) == ["cat"]


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ([[1.0], [np.nan]], [0, 1], "NaN or infinity"),
        ([1.0, 2.0], [0, 1], "samples of shape"),
        ([[1.0], [2.0]], [0], "one each is needed"),
        (np.ones((0, 2)), [], "one at least"),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_bad_samples_are_refused(form, x, y, words):
    with pytest.raises(ValueError, match=words):
        form().fit(x, y)


def test_a_negative_count_is_refused():
    with pytest.raises(ValueError, match="counts are 0 or more"):
        MultinomialNaiveBayes().fit([[-1, 2]], [0])


@pytest.mark.parametrize("priors", [[0.5, 0.6], [1.0], [1.5, -0.5]])
def test_priors_that_are_none_are_refused(priors):
    with pytest.raises(ValueError, match="2 numbers from 0 with sum 1"):
        GaussianNaiveBayes(priors).fit([[0.0], [1.0]], [0, 1])


def test_a_label_that_is_no_class_is_refused():
    ours = GaussianNaiveBayes().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match=r"\[2\] are no classes"):
        ours.partial_fit([[0.0]], [2])


@pytest.mark.parametrize("form", FORMS)
def test_a_question_before_the_fit_or_of_another_width_is_refused(form):
    with pytest.raises(ValueError, match="call fit"):
        form().log_posterior([[1.0]])
    with pytest.raises(ValueError, match="2 features; the training data had 1"):
        form().fit([[0.0], [1.0]], [0, 1]).log_posterior([[1.0, 2.0]])


def test_samples_that_are_all_alike_are_refused():
    ours = GaussianNaiveBayes().fit([[1.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="a variance is 0"):
        ours.log_posterior([[1.0]])


@pytest.mark.parametrize("form", [MultinomialNaiveBayes, BernoulliNaiveBayes])
def test_no_smoothing_of_counts_is_refused(form):
    with pytest.raises(ValueError, match="above 0"):
        form(alpha=0)


@pytest.mark.parametrize("form", FORMS)
def test_priors_that_leave_no_class_are_refused(form):
    x, _ = counts()
    ours = form([0, 0, 1]).partial_fit(x[:8], np.arange(8) % 2, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="no class is possible"):
        ours.log_posterior(x)


@pytest.mark.parametrize("form", FORMS)
def test_defaults_are_scikit_learn_s(form):
    names = {"smoothing": "var_smoothing", "alpha": "alpha", "threshold": "binarize"}
    own, theirs = vars(form()), peer(form).get_params()
    same = {name: theirs[word] for name, word in names.items() if word in theirs}
    assert {name: own[name] for name in same} == same and own["priors"] is None
