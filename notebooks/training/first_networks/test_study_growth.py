"""The study: arms differ in who learns or in how many pictures; the tests are the same."""

import digit_pictures as dp
import numpy as np
import pytest
import study_growth as study
from helpers import receipts
from press.study import hold, record

SHOWN = (10, 20, 50, 100, 200, 500, 1000)
LEARNERS = {"gaussian", "default", "multinomial", "bernoulli", "regression", "network"}


@pytest.fixture(scope="module")
def seen():
    return hold(study.STUDY)


def test_each_arm_has_the_learner_and_the_pictures_that_it_is_named_for(seen):
    assert {name for name, _ in seen} == {f"{one}_{n}" for one in LEARNERS for n in SHOWN}
    for (name, _), one in seen.items():
        learner, shown = name.rsplit("_", 1)
        assert one.job.arm.loss.learner == learner and len(one.job.train[1]) == int(shown)
        assert (one.job.choice is not None) == (learner == "gaussian"), "one alone chooses"


def test_the_sets_are_balanced_and_the_small_ones_lie_in_the_large_ones(seen):
    for seed in (0, 1):
        for n in SHOWN[:5]:
            x, y = seen[f"network_{n}", seed].job.train
            assert (np.bincount(y, minlength=10) == n // 10).all()
            assert (seen["network_1000", seed].job.train[0][:n] == x).all()
        for one in LEARNERS:
            assert (seen[f"{one}_50", seed].job.train[0] == x[:50]).all(), "the same for all"


def test_no_test_picture_is_learned_from_or_chosen_on(seen):
    _, digits = dp.load()
    for seed in (0, 1):
        parts = study.parts(seed, {})
        _, test = dp.split(digits, seed)
        assert set(parts["test"].units) == set(test.tolist())
        apart = [set(parts[one].units) for one in ("first_1000", "choice", "test")]
        assert sum(map(len, apart)) == len(set.union(*apart)) == len(digits)
        assert len(seen["gaussian_10", seed].job.choice[1]) == 200
    assert parts["first_10"].units != study.parts(0, {})["first_10"].units


def test_the_sizes_and_seeds_of_the_study():
    assert list(study.STUDY.seeds) == list(range(20)) and study.STUDY.sizes == {"steps": 2000}
    assert study.STUDY.trial == {"steps": 20}


def test_the_smoothing_is_chosen_on_the_choice_and_on_nothing_else(seen):
    job = seen["gaussian_20", 0].job
    x, y = job.choice
    shares = [
        (study.nb.GaussianNaiveBayes(smoothing=s).fit(*job.train).predict(x) == y).mean()
        for s in study.SMOOTHINGS
    ]
    assert study.share(study.fit(job), job.choice) == max(shares) > min(shares)


@pytest.mark.parametrize(("shown", "epochs"), [(10, 20), (100, 5), (1000, 1)])
def test_the_network_takes_about_as_many_steps_for_every_size(seen, monkeypatch, shown, epochs):
    asked = []
    monkeypatch.setattr(
        study.dn, "train", lambda net, x, y, **named: asked.append(named) or (net, [])
    )
    study.fit(seen[f"network_{shown}", 1].job)
    assert asked == [{"epochs": epochs, "seed": 1}]


@pytest.mark.parametrize("learner", sorted(LEARNERS))
def test_every_learner_learns(seen, learner):
    one = seen[f"{learner}_1000", 0]
    job = one.job._replace(sizes={"steps": 300})
    assert study.judge(study.fit(job), one.tests["test"], job)["right"] > 0.8


@pytest.mark.parametrize(
    ("learner", "named"),
    [
        ("default", study.nb.GaussianNaiveBayes()),
        ("multinomial", study.nb.MultinomialNaiveBayes()),
        ("bernoulli", study.nb.BernoulliNaiveBayes(threshold=8)),
    ],
)
def test_each_form_is_the_one_that_it_is_named_for(seen, learner, named):
    one = seen[f"{learner}_100", 0]
    x, _ = one.tests["test"]
    assert (study.fit(one.job)(x) == named.fit(*one.job.train).predict(x)).all()


def test_the_network_is_the_page_s_and_reads_counts_divided_by_16(seen):
    one = seen["network_20", 1]
    (x, y), (z, _) = one.job.train, one.tests["test"]
    net, _ = study.dn.train(study.dn.network(64, 32, 10, seed=1), x / 16, y, epochs=20, seed=1)
    assert (study.fit(one.job)(z) == study.dn.predict(net, z / 16)).all()


def test_the_regression_is_linear_in_the_counts(seen):
    from sklearn.linear_model import LogisticRegression

    one = seen["regression_50", 0]
    (x, y), (z, _) = one.job.train, one.tests["test"]
    peer = LogisticRegression(max_iter=1000).fit(x / 16, y)
    assert (study.fit(one.job)(z) == peer.predict(z / 16)).all()


def test_a_learner_of_labels_that_are_turned_round_is_judged_badly(seen):
    one = seen["multinomial_100", 0]
    x, y = one.job.train
    job = one.job._replace(train=(x, (y + 1) % 10))
    assert study.judge(study.fit(job), one.tests["test"], job)["right"] < 0.2


def test_a_lead_is_above_zero_where_naive_bayes_is_ahead():
    value = {"gaussian": 0.9, "multinomial": 0.8, "network": 0.7, "regression": 0.85}
    found = {
        name: {
            s: {"test": {"right": value.get(name.rsplit("_", 1)[0], 0.5) + s / 100}}
            for s in range(3)
        }
        for name in study.ARMS
    }
    receipt = receipts.start("first_networks", "cpu")
    record(study.STUDY, receipt, found)
    told = {name: one["value"] for name, one in receipt.metrics.items()}
    assert told["study_gaussian_lead_10"] == pytest.approx(0.2)
    assert told["study_multinomial_lead_1000"] == pytest.approx(0.1)
    assert told["study_pair_lead_50"] == pytest.approx(-0.05)
