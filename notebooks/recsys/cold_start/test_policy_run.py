"""Policies in the world: what they may see, what they share, and what is counted."""

import copy
from dataclasses import replace

import click_world
import item_network
import policy_run
import pytest
import torch
from item_network import Recipe
from policy_run import POLICIES, Policy

RECIPE = Recipe(width=4, steps=20)


@pytest.fixture(scope="module")
def start():
    world = click_world.draw(11, users=60, warm=60, cold=12, each_day=24, days=2)
    log = click_world.history(world)
    return (
        world,
        log,
        policy_run.fit(log, world.genres_IG, world.created_I, world.users, RECIPE),
    )


def ran(start, policy, days=1, **more):
    world, log, model = start
    return policy_run.run(
        copy.deepcopy(world), log, model, policy, days=days, visits=15, recipe=RECIPE, **more
    )


def test_a_run_repeats_and_leaves_its_model_alone(start):
    before = start[2].state_UP.clone()
    one, two = (ran(start, POLICIES["weight 1, hourly"]) for _ in range(2))
    assert torch.equal(one.clicks_H, two.clicks_H) and torch.equal(one.shown_I, two.shown_I)
    assert torch.equal(start[2].state_UP, before)


def test_the_oracle_has_no_regret_and_others_have_some(start):
    best = ran(start, POLICIES["oracle"])
    assert policy_run.regret(best, best) == 0
    for name in ("popular", "weight 0.3, hourly", "weight 0, hourly"):
        assert policy_run.regret(ran(start, POLICIES[name]), best) > 0


def test_the_share_of_items_ever_shown_is_counted_hour_by_hour(start):
    found, world = ran(start, POLICIES["popular"]), start[0]
    there = int((world.created_I <= 23).sum())
    assert abs(float(found.ever_H[-1]) - int((found.shown_I > 0).sum()) / there) < 1e-6


def test_ndcg_is_one_for_who_knows_and_less_for_others(start, monkeypatch):
    world, _, model = start
    assert 0 < policy_run.last_lists(world, model, Policy(), 24)["ndcg"] < 1
    chance = world.attraction(torch.arange(60), 24)
    monkeypatch.setattr(item_network, "scores", lambda *_: chance)
    assert abs(policy_run.last_lists(world, model, Policy(), 24)["ndcg"] - 1) < 1e-6
    monkeypatch.setattr(item_network, "scores", lambda *_: -chance)
    assert policy_run.last_lists(world, model, Policy(), 24)["ndcg"] < 0.5


def test_ndcg_counts_each_place_by_its_looks(start, monkeypatch):
    world, _, model = start
    score = torch.rand(60, world.items, generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr(item_network, "scores", lambda *_: score)
    shares = []
    for row, rank in zip(world.attraction(torch.arange(60), 24), score, strict=True):
        order = sorted((row > 0).nonzero()[:, 0].tolist(), key=lambda item: -rank[item])
        lists = row[order[:10]], row.sort(descending=True).values
        earned, best = (sum(list_[k] * (k + 1) ** -0.6 for k in range(10)) for list_ in lists)
        shares.append(float(earned / best))
    found = policy_run.last_lists(world, model, Policy(), 24)["ndcg"]
    assert found == pytest.approx(sum(shares) / 60, rel=1e-4)


def test_the_last_lists_are_the_policy_s_own(start):
    """Its doubt, its items' times as they are told, and no new ones where none are shown."""

    def lists(**more):
        return policy_run.last_lists(*start[::2], Policy(**more), 24)

    plain, drawn = lists(), lists(weight=1.0)
    assert lists(weight=1.0, doubt=0.0) == lists(weight=1.0, time_factor=0.001) == plain
    assert plain != drawn != lists(weight=1.0, doubt=9.0) != plain
    old = lists(weight=1.0, doubt=9.0, old_only=True)
    assert old == lists(old_only=True) != plain
    assert lists(weight=1.0, time_factor=1000.0) != drawn


def test_draws_are_new_in_every_hour(start):
    world, _, model = start
    users = torch.arange(30)
    for weight in (0.0, 1.0):
        about = Policy(weight=weight), model, None, users, model.state_UP[users]
        lists = [policy_run._lists(world, *about, hour) for hour in (60, 61)]  # all are there
        assert torch.equal(*lists) == (weight == 0)


def test_an_update_reads_each_list_with_the_state_before_its_own_clicks(start, monkeypatch):
    shown, read, lists, updated = [], [], policy_run._lists, policy_run._updated
    spy = lambda *a: shown.append(a[5].clone()) or lists(*a)  # noqa: E731
    monkeypatch.setattr(policy_run, "_lists", spy)
    monkeypatch.setattr(policy_run, "_updated", lambda *a: read.append(a[1]) or updated(*a))
    ran(start, Policy(update=1))
    assert len(read) == 23 and all(map(torch.equal, read, shown[:-1]))


def test_coverage_counts_each_item_that_stands_in_a_list_once(start, monkeypatch):
    world, _, model = start
    same = torch.arange(world.items, 0.0, -1).expand(60, -1)
    world = replace(world, consumed_UI=torch.zeros_like(world.consumed_UI))
    monkeypatch.setattr(item_network, "scores", lambda *_: same)
    found = policy_run.last_lists(world, model, Policy(), 24)["coverage"]
    assert found == 10 / int(world.exists_I(24).sum())


def test_a_users_state_reads_every_click_at_once(start):
    world, log, model = start
    own = copy.deepcopy(world)
    found = policy_run.run(own, log, model, Policy(), days=1, visits=15, recipe=RECIPE)
    clicked = (own.consumed_UI & ~world.consumed_UI).any(1)
    moved = (found.model.state_UP != model.state_UP).any(1)
    assert clicked.any() and torch.equal(moved, clicked)


def test_the_states_of_a_run_are_those_of_its_whole_log(start, monkeypatch):
    world, log, model = start
    shown, real = [], click_world.slates
    monkeypatch.setattr(policy_run, "slates", lambda *a: shown.append(real(*a)) or shown[-1])
    mean = model.net.vectors().detach()  # states_of reads the network's own vectors
    plain = replace(model, known=replace(model.known, mean_IP=mean))
    found = ran((world, log, plain), Policy())
    wanted = policy_run.states_of(model.net, click_world.join([log, *shown]), world.users)
    torch.testing.assert_close(found.model.state_UP, wanted, atol=1e-4, rtol=1e-3)


def test_an_item_is_found_with_its_fifth_click():
    world = click_world.draw(1, users=6, warm=12, cold=1, each_day=0)
    tally = policy_run._Tally(world)
    items, clicks = torch.arange(10)[None], torch.zeros(1, 10, dtype=torch.bool)
    clicks[0, 3] = True
    for hour in range(6):
        tally.add(hour, items, clicks, torch.tensor(0.5))
    found = tally.outcome(None)
    assert found.found_I.isfinite().nonzero().tolist() == [[3]]
    assert found.found_I[3] == 4 and found.shown_I[3] == 6


def test_only_the_best_fifth_of_the_new_items_counts_as_discovery():
    world = click_world.draw(1, users=6, warm=12, cold=10, each_day=0)
    world.quality_I[12:] = torch.arange(10).float() * 20 - 150  # the last two are the best
    found = torch.full((22,), torch.inf)
    found[[20, 12]] = torch.tensor([10.0, 1.0])  # one of the best two, and the worst
    outcome = policy_run.Outcome(*[torch.zeros(1)] * 5, torch.zeros(22), found, None)
    share, rate = policy_run.discovery(world, outcome, 24)
    assert share == 0.5 and abs(rate - 1000 * 1.5 / (10 + 24)) < 1e-3


def test_the_cut_off_decides_what_is_explored(start):
    runs = [ran(start, Policy(weight=1.0, cutoff_days=days)) for days in (30.0, 0.5)]
    assert runs[1].cold_share() < runs[0].cold_share()


def test_expected_clicks_are_the_mean_of_the_drawn(start):
    found = ran(start, POLICIES["weight 0, hourly"], days=2)
    drawn, mean = found.clicks_H.sum(), found.expected_H.sum()
    assert abs(drawn - mean) < 4 * mean**0.5  # clicks vary less than a Poisson number does


def test_expected_clicks_are_those_before_the_clicks_came(start, monkeypatch):
    shown, real = [], click_world.slates
    monkeypatch.setattr(policy_run, "slates", lambda *a: shown.append(a) or real(*a))
    found = ran(start, POLICIES["oracle"])
    users, hour, items, clicks = shown[0]
    assert hour == 0 and clicks.any()
    torch.testing.assert_close(found.expected_H[0], start[0].expected(users, items, 0).sum())


def test_everything_shown_is_counted_once(start):
    found = ran(start, POLICIES["popular"])
    assert found.shown_I.sum() == found.places_H.sum() == 24 * 15 * 10


def test_more_weight_shows_more_new_items(start):
    shares = [ran(start, Policy(weight=w, update=1)).cold_share() for w in (0.0, 1.0)]
    assert shares[1] > shares[0]


def test_wrong_times_make_all_cold_or_none(start):
    """Milliseconds lie in the far future: everything is new. A thousandth: nothing is."""
    explores = Policy(weight=1.0)
    none = ran(start, replace(explores, time_factor=0.001))
    assert torch.equal(none.shown_I, ran(start, Policy()).shown_I)
    everything = ran(start, replace(explores, time_factor=1000.0))
    right = ran(start, explores)
    old = start[0].created_I < 0
    assert not torch.equal(everything.shown_I, right.shown_I)
    assert everything.shown_I[old].gt(0).sum() > right.shown_I[old].gt(0).sum()


def test_old_items_alone_means_no_new_one(start):
    found = ran(start, POLICIES["no new items"])
    assert found.shown_I[start[0].created_I >= 0].sum() == 0
    assert found.cold_share() == 0


def test_without_update_beliefs_stay_and_with_it_they_move(start):
    known = start[2].known
    assert ran(start, Policy(weight=0.3)).model.known is known
    moved = ran(start, Policy(weight=0.3, update=1)).model.known.mean_IP
    assert not torch.equal(moved, known.mean_IP)


def test_full_training_is_that_of_a_new_network_on_the_whole_log(start, monkeypatch):
    """FULL starts from nothing, with everything that was shown until then."""
    world, log, _ = start
    seen = []
    train = item_network.train
    monkeypatch.setattr(
        item_network, "train", lambda log, *a: seen.append(log) or train(log, *a)
    )
    found = ran(start, Policy(full=1), days=2)
    assert [len(one) for one in seen] == [len(log) + 24 * 15]
    assert seen[0].hour_S.max() == 23
    assert found.model.net is not start[2].net


def test_after_full_training_no_list_counts_twice(start, monkeypatch):
    """FULL has read all lists so far: the UPDATE of the same hour has nothing left to read."""
    read, update = [], item_network.update
    monkeypatch.setattr(item_network, "update", lambda *a: read.append(len(a[2])) or update(*a))
    ran(start, Policy(update=1, full=1), days=2)
    assert read == [15] * (23 + 23)


def updated(start, monkeypatch, policy):
    """What an UPDATE hands on after four lists, two of them with a click."""
    world, _, model = start
    clicks = torch.zeros(4, 10, dtype=torch.bool)
    clicks[[1, 3], 2] = True
    part = click_world.slates(torch.arange(4), 5.0, torch.arange(40).reshape(4, 10), clicks)
    phi, seen = torch.randn(4, 5), []
    monkeypatch.setattr(item_network, "update", lambda *a: seen.append(a) or a[0])
    policy_run._updated(model, phi, part, policy, world.created_I)
    return phi, seen[0]


def test_lists_with_a_click_alone_keep_their_own_states(start, monkeypatch):
    policy = Policy(update=1, sends="lists with a click")
    phi, (_, state, items, _, clicks) = updated(start, monkeypatch, policy)
    assert torch.equal(state, phi[[1, 3]]) and items[clicks].tolist() == [12, 32]
    assert items.shape == (2, 10)


def test_clicks_without_their_lists_move_no_item_unless_negatives_are_drawn(start, monkeypatch):
    policy = Policy(update=1, sends="clicks")
    _, (_, state, items, _, _) = updated(start, monkeypatch, policy)
    assert len(state) == len(items) == 0
    phi, (_, state, items, theta, clicks) = updated(
        start, monkeypatch, replace(policy, draws=True)
    )
    assert torch.equal(state, phi[[1, 3]]) and items[clicks].tolist() == [12, 32]
    assert items.shape == (2, 10) and (theta == 1).all()


def test_a_run_without_lists_updates_nothing_and_its_full_training_draws(start, monkeypatch):
    """The service's own answer to clicks alone: the same function, the same drawn negatives."""
    seen, train = [], item_network.train
    monkeypatch.setattr(
        item_network, "train", lambda log, *a: seen.append(log) or train(log, *a)
    )
    world, log, model = start
    alone = click_world.as_sent(log, "clicks")[0]
    found = ran((world, alone, model), Policy(update=1, sends="clicks"))
    assert torch.equal(found.model.known.mean_IP, model.known.mean_IP) and not seen
    ran((world, alone, model), Policy(full=1, sends="clicks"), days=2)
    assert seen[0].items_SK.shape[1] == 10 and (seen[0].clicks_SK.sum(1) == 1).all()
    assert len(seen[0]) > len(alone)


def test_a_wider_doubt_carries_draws_further_and_changes_no_belief(start):
    shares = [ran(start, Policy(weight=1.0, doubt=d)).cold_share() for d in (1.0, 3.0)]
    assert shares[1] > shares[0]
    none = [ran(start, Policy(doubt=d)).shown_I for d in (1.0, 3.0)]
    assert torch.equal(*none)
    assert ran(start, Policy(weight=1.0, doubt=3.0)).model.known is start[2].known


def test_twice_the_doubt_carries_a_draw_twice_as_far(start):
    world, _, model = start
    none, once, twice = (
        policy_run._scores(
            world, Policy(weight=1.0, doubt=doubt), model, model.state_UP, 5, luck
        )
        for doubt in (0.0, 1.0, 2.0)
        for luck in [torch.Generator().manual_seed(0)]
    )
    assert (once != none).any()
    torch.testing.assert_close(twice - none, 2 * (once - none), atol=1e-5, rtol=1e-4)


def test_the_surprise_is_0_and_1_where_the_doubt_is_right(start):
    """True logits that were drawn around what is believed; one draw an item, for 60 users."""
    world, _, model = start
    new = (world.created_I >= 0).nonzero()[:, 0]
    known = replace(model.known, mean_IP=model.known.mean_IP.clone())
    width = world.latent_ID.shape[1]
    own = replace(world, quality_I=torch.zeros(world.items), base=0.0)
    state = torch.cat([world.tastes_UD, torch.ones(world.users, 1)], 1)
    eye = 0.25 * torch.eye(width + 1).expand(world.items, -1, -1)
    luck = torch.Generator().manual_seed(0)
    mean = torch.cat([world.latent_ID, torch.zeros(world.items, 1)], 1)
    mean = mean - 0.5 * torch.randn(mean.shape, generator=luck)
    known = replace(known, mean_IP=mean, covariance_IPP=eye)
    off, deviation = policy_run.surprise(own, policy_run.Model(model.net, known, state))
    assert abs(off) < 0.3 and abs(deviation - 1) < 0.15 and len(new) == 60
    shifted = replace(known, mean_IP=mean - 10 * torch.eye(width + 1)[-1])
    assert policy_run.surprise(own, policy_run.Model(model.net, shifted, state))[0] > 3
    narrow = replace(known, covariance_IPP=eye / 4)
    _, deviation = policy_run.surprise(own, policy_run.Model(model.net, narrow, state))
    assert abs(deviation - 2) < 0.3


def test_popularity_shrinks_to_the_mean_rate_and_learns_every_hour(start, monkeypatch):
    world, log, model = start
    clicks, looks = policy_run._looks(log.rows(slice(0, 40)), model.net, world.items)
    assert clicks.sum() == log.clicks_SK[:40].sum()
    theta = model.net.examined(log.position_SK[:40]).detach()
    torch.testing.assert_close(looks.sum(), theta.sum())
    assert (looks == 0).any()
    users, hour = torch.arange(3), 5
    policy, both = POLICIES["popular"], torch.stack([clicks, looks])
    lists = policy_run._lists(world, policy, model, both, users, None, hour)
    score = (clicks + 100 * clicks.sum() / looks.sum()) / (looks + 100)
    hidden = ~world.exists_I(hour) | world.consumed_UI[users]
    wanted = score.expand(3, -1).masked_fill(hidden, -torch.inf).topk(10)
    torch.testing.assert_close(score.expand(3, -1).gather(1, lists), wanted.values)
    read, real = [], policy_run._looks
    monkeypatch.setattr(policy_run, "_looks", lambda *a: read.append(len(a[0])) or real(*a))
    held, listed = [], policy_run._lists
    spy = lambda *a: held.append(float(a[3][1].sum())) or listed(*a)  # noqa: E731
    monkeypatch.setattr(policy_run, "_lists", spy)
    ran(start, policy)
    assert read == [len(log)] + 23 * [15]
    assert all(later > before for before, later in zip(held, held[1:], strict=False))


def test_gini_is_0_for_equal_shares_and_near_1_for_one_item():
    assert abs(policy_run.gini(torch.ones(7))) < 1e-12
    one = torch.zeros(100)
    one[3] = 5
    assert abs(policy_run.gini(one) - 0.99) < 1e-9
    with pytest.raises(ValueError, match="nothing was shown"):
        policy_run.gini(torch.zeros(3))


def test_discovery_counts_waiting_items_and_half_a_find(start):
    world = start[0]
    found = ran(start, POLICIES["baseline, never trained again"])
    found.found_I[:] = torch.inf
    share, rate = policy_run.discovery(world, found, 24)
    assert share == 0 and rate > 0
    found.found_I[:] = 12.0
    late, early = policy_run.discovery(world, found, 24), None
    found.found_I[:] = 6.0
    early = policy_run.discovery(world, found, 24)
    assert late[0] == early[0] == 1 and early[1] > late[1]


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="network, popular or oracle"):
        Policy("best")
