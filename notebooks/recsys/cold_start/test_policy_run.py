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
    return world, log, policy_run.fit(log, world.genres_IG, world.users, RECIPE)


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


def test_without_impressions_each_list_keeps_its_own_state(start, monkeypatch):
    world, _, model = start
    clicks = torch.zeros(4, 10, dtype=torch.bool)
    clicks[[1, 3], 2] = True
    part = click_world.slates(torch.arange(4), 5.0, torch.arange(40).reshape(4, 10), clicks)
    phi, seen = torch.randn(4, 5), []
    monkeypatch.setattr(item_network, "update", lambda *a: seen.append(a) or a[0])
    policy = Policy(update=1, impressions=False)
    policy_run._updated(model, [(phi, part)], world, policy, None)
    assert torch.equal(seen[0][1], phi[[1, 3]])
    assert seen[0][2][seen[0][4]].tolist() == [12, 32]


def test_popularity_shrinks_to_the_mean_rate(start):
    world, log, model = start
    found = policy_run.Popularity(log.rows(slice(0, 40)), model.net)
    mean = found.clicks_I.sum() / found.looks_I.sum()
    never = found.looks_I == 0
    assert never.any()
    torch.testing.assert_close(found.score_I[never], mean.expand(int(never.sum())))
    assert (found.score_I <= (found.clicks_I + 100 * mean) / 100).all()
    wanted = (found.clicks_I + 100 * mean) / (found.looks_I + 100)
    torch.testing.assert_close(found.score_I, wanted)


def test_without_impressions_an_update_sees_clicks_alone(start, monkeypatch):
    lists = []
    update = item_network.update

    def look(known, phi, items, theta, clicks):
        lists.append((theta, clicks))
        return update(known, phi, items, theta, clicks)

    monkeypatch.setattr(item_network, "update", look)
    ran(start, Policy(update=1, impressions=False))
    assert lists and all((theta == 1).all() and clicks.any(1).all() for theta, clicks in lists)


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
