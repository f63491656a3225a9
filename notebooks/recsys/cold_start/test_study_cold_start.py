"""The studies of worlds: what policies go on from, what judges them, and each gain's sign."""

from dataclasses import replace

import click_world
import numpy as np
import pytest
import study_cold_start as study
import torch
from helpers import receipts
from helpers.study import Job, student
from item_network import Recipe
from policy_run import Outcome, Policy
from press.study import hold, record, run
from study_cold_start import FILMS, NEWS

HOURLY, FULL = {"update": 1}, {"update": 1, "full": 3}
EXPECTED = {  # arm: (the network that it goes on from, in what its policy is not the plainest)
    "popular": ("network", {"kind": "popular", "update": 1}),
    "oracle": ("network", {"kind": "oracle"}),
    "baseline_never_trained_again": ("network", {}),
    "baseline_full": ("network", {"full": 3}),
    "weight_0_3_never": ("network", {"weight": 0.3}),
    "weight_0_hourly": ("network", HOURLY),
    "weight_0_3_hourly": ("network", {"weight": 0.3, **HOURLY}),
    "weight_1_hourly": ("network", {"weight": 1.0, **HOURLY}),
    "weight_0_hourly_and_full": ("network", FULL),
    "weight_0_3_hourly_and_full": ("network", {"weight": 0.3, **FULL}),
    "weight_1_hourly_and_full": ("network", {"weight": 1.0, **FULL}),
    "no_new_items": ("network", {"weight": 0.3, **FULL, "old_only": True}),
    "weight_1_wider_doubt_hourly": ("network", {"weight": 1.0, "doubt": 2.1, **HOURLY}),
    "half_the_genres_wrong": ("network_of_wrong_genres", {"weight": 0.3, **HOURLY}),
    "baseline_half_the_genres_wrong": ("network_of_wrong_genres", {}),
    "clicks_alone": ("network_of_clicks", {"weight": 0.3, **HOURLY, "sends": "clicks"}),
    "clicks_alone_drawn_hourly": (
        "network_of_clicks",
        {"weight": 0.3, **HOURLY, "sends": "clicks", "draws": True},
    ),
    "lists_with_a_click": (
        "network_of_lists_with_a_click",
        {"weight": 0.3, **HOURLY, "sends": "lists with a click"},
    ),
    "no_places": ("network_of_no_places", {"weight": 0.3, **HOURLY, "sends": "no places"}),
    "times_in_milliseconds": ("network", {"weight": 0.3, **HOURLY, "time_factor": 1000.0}),
    "cut_off_of_two_days": ("network", {"weight": 1.0, **HOURLY, "cutoff_days": 2.0}),
}
OFFLINE = {"offline_0": 0.0, "offline_0_3": 0.3, "offline_1": 1.0}
IN_NEWS = ["oracle", "baseline_full", "weight_0_hourly", "weight_0_3_hourly", "weight_1_hourly"]
IN_NEWS += ["weight_0_hourly_and_full", "weight_0_3_hourly_and_full"]
IN_NEWS += ["weight_1_wider_doubt_hourly"]
NEW, SAME = "weight_0_3_hourly_and_full", "weight_0_hourly_and_full"
OLD, EVERY, MOST, LEAST = (
    "baseline_full",
    "weight_0_3_hourly",
    "weight_1_hourly",
    "weight_0_hourly",
)
WIDE, ALONE = "weight_1_wider_doubt_hourly", "clicks_alone"
EVERYWHERE = {  # outcome: (metric, who, over whom)
    "ctr_gain": ("rate", NEW, OLD),
    "update_gain": ("rate", SAME, OLD),
    "explore_full_gain": ("rate", NEW, SAME),
    "explore_gain": ("rate", EVERY, LEAST),
    "explore_all_gain": ("rate", MOST, LEAST),
    "wider_gain": ("rate", WIDE, MOST),
    "explore_wider_gain": ("rate", WIDE, LEAST),
    "discovery_faster": ("discovery", NEW, OLD),
    "discovery_update": ("discovery", SAME, OLD),
    "discovery_explore": ("discovery", NEW, SAME),
    "discovery_explore_all": ("discovery", MOST, LEAST),
    "cold_ratio": ("cold", MOST, LEAST),
}
IN_FILMS = {
    "explore_all_full_gain": ("rate", "weight_1_hourly_and_full", SAME),
    "conversion_gain": ("rate", NEW, "no_new_items"),
    "coverage_end_gain": ("coverage", NEW, OLD),
    "ndcg_end_gain": ("ndcg", NEW, OLD),
    "never_gain": ("rate", "weight_0_3_never", EVERY),
    "half_the_genres_wrong_gain": ("rate", "half_the_genres_wrong", EVERY),
    "times_in_milliseconds_gain": ("rate", "times_in_milliseconds", EVERY),
    "clicks_alone_gain": ("rate", ALONE, EVERY),
    "drawn_hourly_gain": ("rate", "clicks_alone_drawn_hourly", ALONE),
    "lists_with_a_click_gain": ("rate", "lists_with_a_click", EVERY),
    "no_places_gain": ("rate", "no_places", EVERY),
    "cutoff_gain": ("rate", "cut_off_of_two_days", MOST),
    "noisy_baseline_gain": (
        "rate",
        "baseline_half_the_genres_wrong",
        "baseline_never_trained_again",
    ),
}
DROPS = {
    "mrr_at_25_drop_some": ("mrr_at_25", "offline_0", "offline_0_3"),
    "mrr_at_25_drop_all": ("mrr_at_25", "offline_0", "offline_1"),
    "coverage_drop_some": ("coverage", "offline_0", "offline_0_3"),
    "coverage_drop_all": ("coverage", "offline_0", "offline_1"),
}


@pytest.mark.parametrize("declared", [FILMS, NEWS], ids=["films", "news"])
def test_each_policy_goes_on_from_its_network_in_the_world_that_all_share(declared):
    seen = {at: one for at, one in hold(declared).items() if one.tests}  # networks have none
    names = [*EXPECTED, *OFFLINE] if declared is FILMS else IN_NEWS
    assert set(seen) == {(name, seed) for name in names for seed in (10, 11)}
    for (name, seed), one in seen.items():
        assert (one.job.train, one.job.choice, one.job.arm.loss) == (None, None, None)
        if name in OFFLINE:
            assert one.made == ("made", "network_of_others", seed)
            assert (one.job.arm.setting, list(one.tests)) == (
                {"weight": OFFLINE[name]},
                ["tested"],
            )
            continue
        network, changes = EXPECTED[name]
        assert one.made == ("made", network, seed)
        assert Policy(**one.job.arm.setting) == Policy(**changes)
        assert list(one.tests) == ["days"]
        assert one.tests["days"] is seen["oracle", seed].tests["days"]
    worlds = [seen["oracle", seed].tests["days"] for seed in (10, 11)]
    assert not torch.equal(worlds[0].tastes_UD, worlds[1].tastes_UD)


@pytest.mark.parametrize("declared", [FILMS, NEWS], ids=["films", "news"])
def test_what_is_recorded_is_ten_worlds_that_nobody_has_seen(declared):
    """Worlds 0 to 5 were looked at by an earlier study, 1000 and 1001 chose the settings."""
    assert (list(declared.seeds), declared.over, declared.added) == (
        [*range(10, 20)],
        "worlds",
        "",
    )
    assert not {*range(6), 1000, 1001} & set(declared.seeds)
    sizes = {"users": 400, "warm": 1740, "cold": 191, "days": 8, "visits": 40}
    assert declared.sizes == sizes


@pytest.mark.parametrize("declared", [FILMS, NEWS], ids=["films", "news"])
def test_each_world_is_drawn_by_a_seed_of_its_own(declared, monkeypatch):
    asked = []

    def drawn(seed, *_, **__):
        asked.append(seed)
        raise InterruptedError

    monkeypatch.setattr(study.click_world, "draw", drawn)
    for seed in declared.seeds:
        with pytest.raises(InterruptedError):
            declared.parts(seed, declared.sizes)
    assert asked == [*range(10, 20)]


def trained(declared):
    """{(network, seed): its job}: what every network is handed, its training left out."""
    jobs = {}

    def fit(job):
        jobs[job.name, job.seed] = job
        return job.name

    run(replace(declared.small(), fit=fit, judge=lambda *_: {}, outcomes={}))
    return jobs


@pytest.fixture(scope="module")
def networks():
    return trained(FILMS)


@pytest.fixture(scope="module")
def world():
    return hold(FILMS)["oracle", 10].tests["days"]


def same(one, other):
    return all(
        torch.equal(a, b) for a, b in zip(vars(one).values(), vars(other).values(), strict=True)
    )


def test_networks_learn_from_the_log_that_they_are_named_for(networks, world):
    parts = ("", "_of_clicks", "_of_wrong_genres", "_of_others", "_of_no_places")
    parts += ("_of_lists_with_a_click",)
    assert set(networks) == {(f"network{part}", seed) for part in parts for seed in (10, 11)}
    assert all(one.arm.loss == Recipe() and one.start == "new" for one in networks.values())
    given = {name: one.train for (name, seed), one in networks.items() if seed == 10}
    for name, (_, genres, created) in given.items():
        assert torch.equal(created, world.created_I)
        assert torch.equal(genres, world.genres_IG) == (name != "network_of_wrong_genres")
    log = given["network"][0]
    assert (log.position_SK >= 0).all() and (log.hour_S < 0).all()
    seen = torch.zeros_like(world.consumed_UI)
    users = log.user_S[:, None].expand_as(log.items_SK)
    seen[users[log.clicks_SK], log.items_SK[log.clicks_SK]] = 1
    assert torch.equal(seen, world.consumed_UI)
    blind = given["network_of_clicks"][0]
    assert blind.items_SK.shape == (int(log.clicks_SK.sum()), 1) and blind.clicks_SK.all()
    assert (blind.position_SK == click_world.UNKNOWN).all()
    assert sorted(blind.items_SK[:, 0].tolist()) == sorted(log.items_SK[log.clicks_SK].tolist())
    some = given["network_of_lists_with_a_click"][0]
    assert same(some, log.rows(log.clicks_SK.any(1))) and len(some) < len(log)
    nowhere = given["network_of_no_places"][0]
    assert (nowhere.position_SK == click_world.UNKNOWN).all()
    assert same(replace(nowhere, position_SK=log.position_SK), log)
    whole, wrong, _ = given["network_of_wrong_genres"]
    changed = (wrong != world.genres_IG).any(1).float().mean()
    assert same(whole, log) and 0.3 < changed < 0.6
    assert same(given["network_of_others"][0], log.rows(log.user_S % 10 != 0))
    assert set(trained(NEWS)) == {("network", 10), ("network", 11)}


def test_films_keep_their_appeal_and_news_lose_it():
    films, news = (hold(one)["oracle", 11].tests["days"] for one in (FILMS, NEWS))
    assert (films.ageing, news.ageing) == (0.0, 0.05)
    old = [one.created_I[one.created_I < 0].max() / -24 for one in (films, news)]
    assert old[0] >= 35 > old[1]


def test_offline_the_tested_users_and_new_items_are_those_of_the_world(networks, world):
    log, cold, hidden = hold(FILMS)["offline_0", 10].tests["tested"]
    whole = networks["network", 10].train[0]
    assert same(log, whole.rows(whole.user_S % 10 == 0))
    assert torch.equal(hidden, world.created_I > 0)
    assert torch.equal(cold, world.created_I == 0)  # all others are 35 days old or more


def test_a_network_is_fitted_to_what_it_is_handed(monkeypatch):
    asked = []
    monkeypatch.setattr(study.policy_run, "fit", lambda *told: asked.append(told) or "model")
    given = ("log", "genres", "times")
    job = Job("network", FILMS.arms["network"], 3, {"users": 7}, "new", given)
    assert study.fit(job) == ("model", *given, Recipe())
    assert asked == [(*given, 7, Recipe())]


def test_a_policy_lives_in_its_own_copy_of_the_world(monkeypatch, world):
    asked, before = [], world.consumed_UI.clone()

    def lived(own, *told):
        assert torch.equal(own.consumed_UI, before)
        own.consumed_UI[:] = True
        asked.append(told)
        return "outcome"

    monkeypatch.setattr(study.policy_run, "run", lived)
    monkeypatch.setattr(study, "measured", lambda *told: {"told": told})
    monkeypatch.setattr(study.policy_run, "surprise", lambda *told: ("mean", told[1]))
    begun = study.Begun("model", "log", "genres", "times", Recipe(steps=3))
    for name in ("clicks_alone", "weight_1_hourly_and_full"):
        job = Job(name, FILMS.arms[name], 0, {"days": 4, "visits": 15}, test="days")
        policy = Policy(**EXPECTED[name][1])
        found = study.judge(begun, world, job)
        assert found.pop("told") == (world, policy, "outcome", 96)
        assert found == {"surprise": "mean", "surprise_sd": "model"}
        wanted = ("log", "model", policy, "genres", 4, 15, Recipe(steps=3))
        assert asked.pop() == wanted
    assert torch.equal(world.consumed_UI, before)


def test_measures_are_of_the_days_and_of_items_that_came(world):
    items, hours = world.items, 48
    shown = torch.where(world.created_I <= hours, 1.0, 1e6)  # alike, but for who came too late
    expected = torch.cat([torch.full((24,), 2.0), torch.full((24,), 6.0)])
    ever, places = torch.arange(hours) / 100, torch.full((hours,), 10.0)
    never = torch.full((items,), torch.inf)
    about = expected, ever, places / 5, places, shown, never
    outcome = Outcome(torch.zeros(hours), *about, None)
    found = study.measured(world, Policy("oracle"), outcome, hours)
    assert found["rate"] == pytest.approx(0.4) and found["days"] == pytest.approx([0.2, 0.6])
    assert found["ever"] == pytest.approx([0.23, 0.47]) and found["cold"] == pytest.approx(0.2)
    assert (found["found"], found["gini"]) == pytest.approx((0, 0), abs=1e-9)
    assert "ndcg" not in found
    soon = torch.where(world.created_I <= 30, world.created_I + 1, torch.inf)
    outcome = replace(outcome, found_I=soon)
    share, finds = study.policy_run.discovery(world, outcome, hours)
    found = study.measured(world, Policy("oracle"), outcome, hours)
    assert (found["found"], found["discovery"]) == (share, finds) and 0 < share < 1 < finds


def test_the_last_lists_are_of_the_end_and_of_what_the_policy_had_learned(monkeypatch, world):
    asked, lists = [], {"ndcg": 0.5, "coverage": 0.25}
    monkeypatch.setattr(
        study.policy_run, "last_lists", lambda *told: asked.append(told) or lists
    )
    hours, items = torch.ones(24), torch.ones(world.items)
    outcome = Outcome(*[hours] * 5, items, items, "what it had learned")
    found = study.measured(world, Policy(weight=1.0), outcome, 24)
    assert asked == [(world, "what it had learned", Policy(weight=1.0), 24)]
    assert (found["ndcg"], found["coverage"]) == (0.5, 0.25)


def test_offline_reads_the_arm_s_weight_and_network(monkeypatch, networks):
    asked = []
    metrics = {"mrr_at_25": 0.1, "precision_at_10": 0.2, "coverage": 0.3}
    monkeypatch.setattr(
        study.off_policy, "offline_metrics", lambda *told: asked.append(told) or metrics
    )
    model = study.policy_run.Model("net", "known", None)
    begun = study.Begun(model, None, None, None, None)
    for name, weight in OFFLINE.items():
        job = Job(name, FILMS.arms[name], 5, {"users": 60}, test="tested")
        found = study.judge(begun, ("log", "cold", "hidden"), job)
        assert found == {"mrr_at_25": 0.1, "coverage": 0.3}
        *told, luck = asked.pop()
        assert told[:3] + told[4:] == ["net", "known", "log", weight, "cold", "hidden"]
        assert told[3].tolist() == [True] * 60 and luck.initial_seed() == 5


def test_a_small_world_for_real_repeats_and_the_oracle_is_best(networks, world):
    job = networks["network", 10]
    short = replace(job.arm, loss=Recipe(width=4, steps=10))
    begun = study.fit(job._replace(arm=short))
    sizes = job.sizes | {"days": 1}
    rates = []
    for name in ("oracle", "popular", EVERY, EVERY):
        of = Job(name, FILMS.arms[name], 0, sizes, test="days")
        rates.append(study.judge(begun, world, of))
    assert rates[2] == rates[3] and rates[0]["rate"] > max(rates[1]["rate"], rates[2]["rate"])
    assert 0 < rates[2]["ndcg"] < 1 and "ndcg" not in rates[0]
    assert rates[0]["surprise"] == rates[2]["surprise"]  # of the network that all begin with


def recorded(declared, change=lambda found: None):
    """The receipt of three worlds whose numbers `change` has moved; all alike before."""
    names = EXPECTED if declared is FILMS else IN_NEWS
    level, found = (0.1, 5.0, 0.04), {"network": {seed: {} for seed in range(3)}}
    for name in names:
        found[name] = {}
        for seed, x in enumerate(level):
            numbers = dict.fromkeys(("rate", "cold", "found", "gini", "discovery"), x)
            numbers |= {"ndcg": x, "coverage": x, "days": [x, 2 * x], "ever": [3 * x, 4 * x]}
            numbers |= {"surprise": -x, "surprise_sd": 2 * x}
            found[name][seed] = {"days": numbers}
    for name in OFFLINE if declared is FILMS else ():
        metrics = {"mrr_at_25": 0.2, "coverage": 0.5}
        found[name] = {seed: {"tested": dict(metrics)} for seed in range(3)}
    change(found)
    receipt = receipts.start("cold_start", "cpu")
    record(replace(declared, seeds=range(3)), receipt, found)
    return receipt


@pytest.mark.parametrize("declared", [FILMS, NEWS], ids=["films", "news"])
def test_a_gain_is_above_zero_for_who_clicks_more_in_the_same_world(declared):
    films, start = declared is FILMS, "" if declared is FILMS else "news_"
    table = EVERYWHERE | (IN_FILMS if films else {})
    wanted = {start + name for name in table | (DROPS if films else {})}
    assert set(declared.outcomes) == wanted
    for name, (metric, who, _) in table.items():

        def half_as_much_again(found, who=who, metric=metric):
            for factor, one in zip((1.4, 1.5, 1.6), found[who].values(), strict=True):
                one["days"][metric] *= factor

        found = recorded(declared, half_as_much_again).metrics[start + name]
        log = student(np.log([1.4, 1.5, 1.6]).tolist())
        ends, unit = np.exp(log), "×" if name.startswith(("discovery", "cold")) else "%"
        ends = ends if unit == "×" else 100 * (ends - 1)
        assert [found[key] for key in ("value", "low", "high")] == pytest.approx(list(ends)), (
            name
        )
        assert (found["unit"], found["repeats"]) == (unit, 3)
        assert found["note"] == "mean over worlds, 95 % interval"


def test_who_is_compared_with_whom_is_as_the_page_says():
    for declared, table in ((FILMS, EVERYWHERE | IN_FILMS | DROPS), (NEWS, EVERYWHERE)):
        start = "" if declared is FILMS else "news_"
        for name, told in table.items():
            one = declared.outcomes[start + name]
            assert (one.metric, one.arm, one.less) == told


def test_a_drop_is_above_zero_where_exploration_ranks_worse():
    def dropped(found):
        for seed, by in enumerate((0.01, 0.02, 0.03)):
            found["offline_0_3"][seed]["tested"]["mrr_at_25"] -= by
            found["offline_1"][seed]["tested"]["coverage"] += by

    found, half = recorded(FILMS, dropped).metrics, 4.302652729911275 / 3**0.5
    drop = found["mrr_at_25_drop_some"]
    assert [drop[k] for k in ("value", "low", "high")] == pytest.approx([2, 2 - half, 2 + half])
    assert (drop["unit"], drop["repeats"]) == ("points", 3)
    assert found["mrr_at_25_drop_all"]["value"] == found["coverage_drop_some"]["value"] == 0
    assert found["coverage_drop_all"]["value"] == pytest.approx(-2)


@pytest.mark.parametrize("declared", [FILMS, NEWS], ids=["films", "news"])
def test_a_regret_is_what_the_oracle_s_clicks_were_and_these_are_not(declared):
    def less(found):
        for share, seed in zip((0.5, 0.6, 0.7), range(3), strict=True):
            found[EVERY][seed]["days"]["rate"] *= share
            found["oracle"][seed]["days"]["rate"] *= 2

    receipt, start = recorded(declared, less), "" if declared is FILMS else "news_"
    regret = receipt.metrics[f"{start}{EVERY}_regret"]
    half = 4.302652729911275 * 0.05 / 3**0.5
    ends = [regret[key] for key in ("value", "low", "high")]
    assert ends == pytest.approx([0.7, 0.7 - half, 0.7 + half])
    assert (regret["unit"], regret["repeats"]) == ("share", 3)
    assert receipt.metrics[f"{start}oracle_regret"]["value"] == 0
    assert receipt.metrics[f"{start}{MOST}_regret"]["value"] == 0.5
    mean = np.mean([0.1, 5.0, 0.04])
    assert receipt.metrics[f"{start}{MOST}_rate"]["value"] == pytest.approx(mean)
    curve = receipt.curves[f"{start}days_{MOST}"]
    assert curve["day"] == [1, 2] and curve["rate"] == pytest.approx([mean, 2 * mean])
    assert curve["ever"] == pytest.approx([3 * mean, 4 * mean])
