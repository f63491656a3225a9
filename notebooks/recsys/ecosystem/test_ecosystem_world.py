"""The world: equal to plain loops, the documented population, known ends, bad input."""

import boosted_slates
import ecosystem_world as world
import numpy as np
import pytest
import torch
from array_backends import NumpyBackend, TorchBackend, fastest, largest
from bench_ecosystem import ecosystem_reference
from ecosystem_world import gini
from scipy import stats
from story import Entity, Variable

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
    plain = told(world.provider_aware(1.2), NumpyBackend(5))
    backend = TorchBackend(device=device, dtype=torch.float64, noise=NumpyBackend(5))
    fast = told(world.provider_aware(1.2), backend)
    for name in ("utility", "clicks", "documents", "pulls"):
        np.testing.assert_allclose(getattr(fast, name), getattr(plain, name), atol=1e-9)


@pytest.mark.parametrize("cap", [0.0, 1.2, 3.0])
def test_a_lazy_story_equals_one_user_at_a_time_with_the_same_noise(cap):
    utility, clicks = ecosystem_reference(cap, MEANS, 9, 37, seed=5, lazy=True)
    lazy = TorchBackend(dtype=torch.float64, noise=NumpyBackend(5), lazy=True)
    fast = told(world.provider_aware(cap), lazy)
    np.testing.assert_allclose(fast.utility[:, 0], utility, atol=1e-9)
    np.testing.assert_allclose(fast.clicks[-1, 0], clicks, atol=1e-9)


def crowd(documents, providers=7, users=33, worlds=2, spread=8.0):
    """Interests, topics, owners and boosts of both signs; two providers have nothing."""
    draw = np.random.default_rng(documents)
    means = spread * draw.normal(size=(worlds, providers, 2))
    owner = draw.integers(0, providers - 2, (worlds, documents))
    topics = np.take_along_axis(means, owner[..., None], 1)
    topics = topics + draw.normal(size=topics.shape)
    boost = draw.normal(size=(worlds, providers)) * 1.5
    return spread * draw.normal(size=(worlds, users, 2)), topics, owner, boost


@pytest.mark.parametrize("spread", [0.5, 8.0])
@pytest.mark.parametrize(("documents", "count"), [(5, 3), (3, 3), (61, 1), (61, 4)])
def test_lazy_slates_are_those_of_all_scores(documents, count, spread):
    interest, topics, owner, boost = crowd(documents, spread=spread)
    found = boosted_slates.slates(interest, topics, owner, boost, count, key=9)
    seeds = [boosted_slates.seed_of(9, at) for at in range(2)]
    places = range(33 * documents)
    levels = [[boosted_slates.level(seed, place) for place in places] for seed in seeds]
    width = np.take_along_axis(boost, owner, 1)[:, None]
    liking = 2 - np.linalg.norm(interest[:, :, None] - topics[:, None], axis=-1)
    scores = liking + np.reshape(levels, liking.shape) * width
    np.testing.assert_array_equal(found, largest(scores, count))


def test_the_noise_of_slates_is_uniform_and_of_its_own_for_each_place_draw_and_world():
    seeds = [boosted_slates.seed_of(key, at) for key, at in ((1, 0), (1, 1), (2, 0), (0, 0))]
    rows = np.array([[boosted_slates.level(seed, n) for n in range(4000)] for seed in seeds])
    assert rows.min() >= 0 and rows.max() < 1
    assert stats.kstest(rows.ravel(), "uniform").pvalue > 1e-3
    beside = [rows[:, 1:], rows[:, :-1], rows[[1, 2, 3, 0], 1:]]
    apart = np.corrcoef([one.ravel() for one in beside]) - np.eye(3)
    assert np.abs(apart).max() < 0.04


def test_worlds_of_a_batch_do_not_touch_each_other():
    apart = world.draw_providers(2, 0, clusters=3)
    both = world.run(world.myopic, 2, 6, 0, apart, 20, backend=NumpyBackend(1))
    moved = np.stack([apart[0], apart[1] + 1])
    other = world.run(world.myopic, 2, 6, 0, moved, 20, backend=NumpyBackend(1))
    np.testing.assert_array_equal(both.utility[:, 0], other.utility[:, 0])
    assert np.abs(both.clicks - other.clicks)[:, 0].max() == 0


BATCHES = [NumpyBackend, fastest]
BATCHES.append(lambda seed: TorchBackend(dtype=torch.float64, noise=NumpyBackend(seed)))


@pytest.mark.parametrize("backend", BATCHES)
def test_each_world_of_a_batch_shows_and_counts_its_own_documents(backend):
    story = world.ecosystem_story(world.myopic, world.draw_providers(2, 0, clusters=3), 20)
    kept = story.simulate(3, backend(1)).items()
    told = {name: np.stack([np.asarray(one) for one in values]) for name, values in kept}
    clicks = 0
    for step, at in np.ndindex(3, 2):
        slate, owner, topics, documents, pulls = (
            told[name][step, at]
            for name in ("recommender.slate", "catalogue.provider", "catalogue.topics")
            + ("metrics.documents", "recommender.pulls")
        )
        assert slate.shape == (20, 3)
        np.testing.assert_array_equal(told["recommender.shown_topics"][step, at], topics[slate])
        shown = told["recommender.shown_provider"][step, at]
        np.testing.assert_array_equal(shown, owner[slate])
        np.testing.assert_array_equal(documents, np.bincount(owner, minlength=6))
        before = told["user.provider"][:step, at].ravel()
        np.testing.assert_allclose(pulls, np.bincount(before, minlength=6))
        clicks += pulls.sum()
    assert clicks == 2 * 20 * (1 + 2)


def test_without_a_back_end_the_seed_draws_users_and_noise():
    one, same, other = (world.run(world.myopic, 1, 3, s, MEANS, 9).utility for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one[1:] != other[1:]).all()


def test_the_numbers_are_those_of_the_authors_code():
    found = world.GAMMA, world.DISCOUNT, world.SLATE, world.PER_PROVIDER, world.USER_SPREAD
    assert (*found, world.EDGE) == (2, 0.96, 3, 5, 20.5, 1e-4)


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


@pytest.mark.parametrize("kind", [BATCHES[0], BATCHES[2]])
def test_users_see_the_slates_of_whoever_is_put_in_the_recommender_s_place(kind):
    """A shop that shows all users one place, which is nobody's: no provider gets a click."""

    def shown_topics(recommender_shown_topics):
        return 0 * recommender_shown_topics + 5

    def shown_provider(recommender_shown_provider):
        return 0 * recommender_shown_provider + len(MEANS)

    rules = {"shown_topics": shown_topics, "shown_provider": shown_provider}
    shop = Entity("shop", tuple(Variable(name, rule, rule) for name, rule in rules.items()))
    story = world.ecosystem_story(world.myopic, MEANS[None], 11, shop=shop)
    record = story.simulate(3, kind(0))
    far = np.linalg.norm(np.asarray(record["user.interest"][0]) - 5, axis=-1)
    np.testing.assert_allclose(record["user.got"][2], 2 - far)
    assert record["provider.clicks"][2].sum() == 0


def test_without_gamma_clicks_make_no_items():
    clicks = torch.tensor([[0.0, 1.0, 30.0]])
    story = world.ecosystem_story(world.myopic, np.zeros((1, 3, 2)), 5, gamma=0.0)
    rule, _ = story._next["catalogue.provider"]
    torch.testing.assert_close(rule(clicks).logits, torch.zeros(1, 3))
    even = told(world.myopic, NumpyBackend(0), users=300, horizon=40, gamma=0.0)
    rich = told(world.myopic, NumpyBackend(0), users=300, horizon=40)
    assert np.ptp(even.documents[20:].mean(0)) < 3 < np.ptp(rich.documents[20:].mean(0))


def test_gini_of_known_shares():
    assert gini([1.0, 1, 1, 1]) == 0 and gini([0.0, 0, 0, 8]) == 0.75
    assert gini([0.0, 0.0]) == 0 and gini([1.0, 3.0]) == pytest.approx(0.25)
    with pytest.raises(ValueError, match="debt"):
        gini([-1.0, 2.0])


def test_survivors_had_a_document_in_the_window():
    out = told(world.myopic, NumpyBackend(0))
    assert (out.documents.sum(-1) == 5 * len(MEANS)).all()
    for window in (1, 4, 9, 50):
        for step in (0, 3, 8):
            there = out.documents[max(0, step + 1 - window) : step + 1, 0].sum(0) > 0
            np.testing.assert_array_equal(out.seen(window)[step, 0], there)
            assert out.survivors(window)[step, 0] == there.sum()
    assert (out.survivors(50) == out.survivors()).all()
    assert out.survivors(1)[-1, 0] < out.survivors(9)[-1, 0]  # some were there and are not


def test_the_chance_of_a_slate_is_refused():
    story = world.ecosystem_story(world.myopic, MEANS[None], 5)
    record = story.simulate(2, NumpyBackend(0))
    with pytest.raises(ValueError, match="no formula"):
        story.log_probability(record, NumpyBackend(0))


def late(pulls):
    """No number once somebody was pulled."""
    return 0 * pulls / (1.0 * (pulls.sum() == 0))


@pytest.mark.parametrize("backend", [NumpyBackend, fastest])
@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda pulls: pulls[:, :3], r"1, 3.*\(1, 8\) is needed"),
        (lambda pulls: pulls[0], r"8.*\(1, 8\) is needed"),
        (lambda pulls: 1.2, r"float.*\(1, 8\) is needed"),
        (lambda pulls: pulls + float("nan"), "step 0 are not all finite"),
        (lambda pulls: pulls - float("inf"), "step 0 are not all finite"),
        (late, "step 1 are not all finite"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_policy_s_boosts_are_one_finite_number_for_each_provider(policy, message, backend):
    with pytest.raises(ValueError, match=message):
        told(policy, backend(0), horizon=3, users=5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"worlds": 0}, "worlds=0"),
        ({"horizon": 1.5}, "horizon=1.5"),
        ({"users": -1}, "users=-1"),
        ({"users": True}, "users=True"),
        ({"seed": None}, "seed=None; a whole number from 0 on"),
        ({"seed": -1}, "seed=-1"),
        ({"gamma": -0.5}, "gamma=-0.5"),
        ({"gamma": float("nan")}, "gamma=nan"),
        ({"provider_means": np.zeros((3, 4, 2))}, "is allowed"),
        ({"provider_means": np.zeros(4)}, "is allowed"),
        ({"provider_means": np.full((4, 2), np.nan)}, "NaN"),
    ],
)
def test_sizes_and_means_that_do_not_fit_are_refused(change, message):
    told = {"policy": world.myopic, "worlds": 2, "horizon": 2, "seed": 0, "users": 3}
    with pytest.raises(ValueError, match=message):
        world.run(**told | change)


def test_sizes_may_be_numpy_s_whole_numbers():
    one, two = (world.run(world.myopic, *map(kind, (2, 3, 4))) for kind in (int, np.int64))
    np.testing.assert_array_equal(one.utility, two.utility)


@pytest.mark.parametrize("cap", [-0.1, float("nan")])
def test_a_cap_below_zero_is_refused(cap):
    with pytest.raises(ValueError, match="0 \\(myopic\\) or more"):
        world.provider_aware(cap)
