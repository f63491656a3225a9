"""The world: equal to plain loops, the documented population, known ends, bad input."""

import ecosystem_world as world
import numpy as np
import pytest
import torch
from array_backends import NumpyBackend, TorchBackend, fastest
from bench_ecosystem import ecosystem_reference
from ecosystem_outcome import gini
from scipy import stats

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=GPU)]
MEANS = world.draw_providers(1, 3, clusters=4)[0]


def told(policy, backend, users=37, horizon=9, means=MEANS, **more):
    return world.run(policy, 1, horizon, 0, means, users, backend=backend, **more)


@pytest.mark.parametrize("cap", [0.0, 0.3, 1.2])
def test_equals_one_user_at_a_time(cap):
    utility, clicks = ecosystem_reference(cap, MEANS, 9, 37, seed=5)
    fast = told(world.provider_aware(cap), NumpyBackend(5))
    np.testing.assert_allclose(fast.utility[:, 0], utility, atol=1e-9)
    np.testing.assert_allclose(fast.clicks[-1, 0], clicks, atol=1e-9)


@pytest.mark.parametrize("device", DEVICES)
def test_torch_tells_numpy_s_story(device):
    ad = world.Advertiser((0.0, 0.0), bid=5.0, budget=9.0)
    plain = told(world.provider_aware(1.2), NumpyBackend(5), advertiser=ad)
    backend = TorchBackend(device=device, dtype=torch.float64, noise=NumpyBackend(5))
    fast = told(world.provider_aware(1.2), backend, advertiser=ad)
    for name in ("utility", "clicks", "documents", "pulls", "budget", "ad_clicks"):
        np.testing.assert_allclose(getattr(fast, name), getattr(plain, name), atol=1e-9)


def test_worlds_of_a_batch_do_not_touch_each_other():
    apart = world.draw_providers(2, 0, clusters=3)
    both = world.run(world.myopic, 2, 6, 0, apart, 20, backend=NumpyBackend(1))
    moved = np.stack([apart[0], apart[1] + 1])
    other = world.run(world.myopic, 2, 6, 0, moved, 20, backend=NumpyBackend(1))
    np.testing.assert_array_equal(both.utility[:, 0], other.utility[:, 0])
    assert np.abs(both.clicks - other.clicks)[:, 0].max() == 0


def test_a_horizon_of_h_sums_h_less_one_utilities():
    out = told(world.myopic, fastest(0), users=2000, horizon=2)
    assert out.utility[0, 0] == 0 and out.cumulative[0] == out.utility[1, 0] != 0
    assert told(world.myopic, fastest(0), horizon=1).cumulative[0] == 0


def test_users_are_the_documented_mixture():
    """Provider p with chance ∝ 1/(1+‖m_p‖), then N(m_p, (20.5/(1+‖m_p‖))²) on each topic."""
    means = np.array([[0.0, 0.0], [30.0, 0.0], [0.0, -40.0]])
    story = world.ecosystem_story(world.myopic, means[None], 40_000)
    interest = story.simulate(1, NumpyBackend(2))["user.interest"][0][0]
    far = 1 + np.sqrt((means**2).sum(1))
    chance = (1 / far) / (1 / far).sum()
    for topic in (0, 1):
        parts = [stats.norm(m, 20.5 / f) for m, f in zip(means[:, topic], far, strict=True)]
        cdf = lambda x: sum(c * part.cdf(x) for c, part in zip(chance, parts, strict=True))  # noqa: B023, E731
        assert stats.kstest(interest[:, topic], cdf).pvalue > 1e-3
    near_second = np.linalg.norm(interest - means[1], axis=1) < 3
    expected = chance[1] * stats.chi2(2).cdf((3 * far[1] / 20.5) ** 2)
    others = chance[0] * stats.ncx2(2, (30 / 20.5) ** 2).cdf((3 / 20.5) ** 2)
    assert near_second.mean() == pytest.approx(expected + others, abs=0.01)


def test_providers_stand_in_pairs_close_to_their_centre():
    """Centres N(0, 64), and around each two providers with the variance ½ on each topic."""
    pairs = world.draw_providers(50, 0).reshape(50, 40, 2, 2)
    apart = (pairs[:, :, 0] - pairs[:, :, 1]).ravel()  # 4,000 numbers: a deviation within 1.1 %
    assert apart.std() == pytest.approx(1, rel=0.05)
    assert pairs.mean(2).std() == pytest.approx((64 + 0.25) ** 0.5, rel=0.05)


def test_a_provider_s_share_of_the_catalogue_is_the_square_of_one_plus_its_clicks():
    clicks = torch.tensor([[0.0, 1.0, 3.0]])
    story = world.ecosystem_story(world.myopic, np.zeros((1, 3, 2)), 5)
    rule, _ = story._next["catalogue.provider"]
    law = rule(clicks)
    chances = law.logits.softmax(-1)[0]
    torch.testing.assert_close(chances, torch.tensor([1.0, 4.0, 16.0]) / 21)
    assert law.count == 15


def test_the_boost_lifts_who_has_less_and_stays_below_its_cap():
    pulls = torch.tensor([[0.0, 2.0, 10.0]])
    boost = world.provider_aware(3.0)(pulls)
    torch.testing.assert_close(boost, torch.tensor([[3.0, 2.0, -3.0]]))
    assert world.provider_aware(0)(pulls).abs().max() == world.myopic(pulls).abs().max() == 0


def test_the_myopic_slate_is_the_nearest_documents():
    story = world.ecosystem_story(world.myopic, MEANS[None], 11)
    record = story.simulate(2, NumpyBackend(0))
    interest, places = record["user.interest"][1][0], record["catalogue.topics"][1][0]
    far = np.linalg.norm(interest[:, None] - places, axis=2)
    worst = np.take_along_axis(far, record["recommender.slate"][1][0], 1).max(1)
    assert (worst <= np.sort(far, 1)[:, 2] + world.EDGE).all()


def test_clicks_fade_and_pulls_do_not():
    out = told(world.myopic, NumpyBackend(0), users=10, horizon=3)
    assert out.pulls.sum() == pytest.approx(20)
    assert out.clicks[-1].sum() == pytest.approx(10 + 0.96 * 10)


def test_an_ad_is_paid_by_the_click_until_the_money_is_gone():
    ad = world.Advertiser((0.0, 0.0), bid=100.0, price=2.0, budget=30.0)
    out = told(world.myopic, NumpyBackend(0), advertiser=ad)
    spent = np.minimum(2.0 * out.ad_clicks.cumsum(0), 30.0)
    np.testing.assert_allclose(out.budget[1:], 30.0 - spent[:-1])
    assert out.budget[-1] == 0 and (out.ad_clicks[out.budget == 0] == 0).all()
    assert out.pulls.sum() + out.ad_clicks[:-1].sum() == 8 * 37  # each click has one owner


def test_an_ad_that_bids_nothing_wins_only_where_it_is_nearer():
    story = world.ecosystem_story(
        world.myopic, MEANS[None], 50, world.Advertiser((0.0, 0.0), bid=0.0)
    )
    record = story.simulate(1, NumpyBackend(0))
    own = np.linalg.norm(record["user.interest"][0], axis=-1)
    last = record["recommender.shown_topics"][0][:, :, -1]
    other = np.linalg.norm(record["user.interest"][0] - last, axis=-1)
    np.testing.assert_array_equal(record["advertiser.wins"][0], own < other)


def test_gini_of_known_shares():
    assert gini([1.0, 1, 1, 1]) == 0 and gini([0.0, 0, 0, 8]) == 0.75
    assert gini([0.0, 0.0]) == 0 and gini([1.0, 3.0]) == pytest.approx(0.25)
    with pytest.raises(ValueError, match="debt"):
        gini([-1.0, 2.0])


def test_survivors_have_documents():
    out = told(world.myopic, NumpyBackend(0))
    assert (out.documents.sum(-1) == 5 * len(MEANS)).all()
    assert out.survivors[-1, 0] == len(np.flatnonzero(out.documents[-1, 0]))


def test_the_log_probability_of_a_world_sums_its_laws():
    story = world.ecosystem_story(world.provider_aware(1.2), MEANS[None], 5)
    record = story.simulate(3, NumpyBackend(0))
    whole = story.log_probability(record, NumpyBackend(9))
    changed = dict(record)
    changed["user.utility"] = [one + 1.0 for one in record["user.utility"]]
    got = np.stack(record["user.got"])[:-1]
    late = np.stack(record["user.utility"])[1:] - got
    expected = (0.5 * late**2 - 0.5 * (late + 1) ** 2).sum()
    assert story.log_probability(changed, NumpyBackend(9)) - whole == pytest.approx(expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"worlds": 0}, "worlds=0"),
        ({"horizon": 1.5}, "horizon=1.5"),
        ({"users": -1}, "users=-1"),
        ({"provider_means": np.zeros((3, 4, 2))}, "is allowed"),
        ({"provider_means": np.zeros(4)}, "is allowed"),
        ({"provider_means": np.full((4, 2), np.nan)}, "NaN"),
    ],
)
def test_sizes_and_means_that_do_not_fit_are_refused(change, message):
    told = {"policy": world.myopic, "worlds": 2, "horizon": 2, "seed": 0, "users": 3}
    with pytest.raises(ValueError, match=message):
        world.run(**told | change)


@pytest.mark.parametrize("cap", [-0.1, float("nan")])
def test_a_cap_below_zero_is_refused(cap):
    with pytest.raises(ValueError, match="0 \\(myopic\\) or more"):
        world.provider_aware(cap)


@pytest.mark.parametrize(
    "told", [{"price": -1.0}, {"budget": float("nan")}, {"budget": -1.0}, {"bid": float("inf")}]
)
def test_money_that_is_no_amount_is_refused(told):
    with pytest.raises(ValueError, match="from 0 on"):
        world.Advertiser((0.0, 0.0), **told)


def test_an_ad_of_other_topics_is_refused():
    with pytest.raises(ValueError, match="2 topics"):
        world.run(world.myopic, 1, 2, 0, MEANS, 5, world.Advertiser((0.0, 0.0, 0.0)))
