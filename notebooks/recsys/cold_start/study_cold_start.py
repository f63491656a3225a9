"""The recorded studies of worlds: every policy and every spoilt input, paired by world.

    make study CHAPTERS=recsys/cold_start STUDY=films
    make study CHAPTERS=recsys/cold_start STUDY=news

A seed draws a world. Films keep their appeal; news lose 0.05 a day of their logit for 30 days,
and their log holds items of every age. A network learns from the log before hour 0, all
policies go on from it, each in its own copy of the world with the same users and luck, and are
judged by the hours after. Offline metrics are of a network that never saw the tested users.
Settings were chosen in worlds 1000 and 1001; the worlds here are the seeds 0, 1, …
"""

import copy
import functools
from dataclasses import asdict, replace
from typing import NamedTuple

import click_world
import item_network
import off_policy
import policy_run
import torch
from helpers.study import Arm, Metric, Outcome, Part, Study, student
from item_network import Recipe
from policy_run import POLICIES, Policy

FAMILIES = {"films": {}, "news": {"ageing": 0.05, "youngest": 0.0}}
NEW, SAME, OLD = "weight 0.3, hourly and FULL", "weight 0, hourly and FULL", "baseline, FULL"
MOST, EVERY, LEAST = (f"weight {weight}, hourly" for weight in ("1", "0.3", "0"))
STILL, BLIND = "baseline, never trained again", "no impressions, never updated"
WRONG = "half the genres wrong"
IN_NEWS = (OLD, LEAST, EVERY, MOST, SAME, NEW, "oracle")
WITHOUT = replace(POLICIES[EVERY], impressions=False)
SPOILT = {  # name: (policy, the network that it goes on from)
    WRONG: (POLICIES[EVERY], "network_of_wrong_genres"),
    f"baseline, {WRONG}": (POLICIES[STILL], "network_of_wrong_genres"),
    "no impressions": (WITHOUT, "network_of_clicks"),
    BLIND: (replace(WITHOUT, update=None), "network_of_clicks"),
    "times in milliseconds": (replace(POLICIES[EVERY], time_factor=1000.0), "network"),
    "cut-off of two days": (replace(POLICIES[MOST], cutoff_days=2), "network"),
}
OFFLINE = {"offline_0": 0.0, "offline_0_3": 0.3, "offline_1": 1.0}  # weights


class Begun(NamedTuple):
    """What a policy goes on from: a trained model, and all that it was trained by."""

    model: policy_run.Model
    log: click_world.SlateLog
    genres_IG: torch.Tensor
    recipe: Recipe


def slug(name):
    """A metric's name of a policy's."""
    return "".join(c if c.isalnum() else "_" for c in name.lower()).replace("__", "_")


def parts(family, seed, sizes):
    """A world's parts: (log, genres) to learn from, the world from hour 0 on, and (log, new
    items, items that are not there yet) of tested users. Units are hours; offline users."""
    count = sizes["users"], sizes["warm"], sizes["cold"]
    world = click_world.draw(seed, *count, days=sizes["days"], **FAMILIES[family])
    log, genres, hidden = click_world.history(world), world.genres_IG, ~world.exists_I(0)
    tested = log.user_S % 10 == 0
    rest, own = log.rows(~tested), log.rows(tested)
    cold = item_network.is_cold(world.created_I, 0.0, 30.0, ~hidden)
    shown = {
        "log": (log, genres),
        "clicks": (click_world.without_impressions(log, world), genres),
    }
    shown["wrong_genres"] = log, click_world.noisy_genres(world, 0.5)
    found = {name: Part(one, set(one[0].hour_S.tolist())) for name, one in shown.items()}
    found["days"] = Part(world, range(int(click_world.DAY * sizes["days"])))
    found["others"] = Part((rest, genres), set(rest.user_S.tolist()))
    return found | {"tested": Part((own, cold, hidden), set(own.user_S.tolist()))}


def fit(job):
    """A FULL training on what was shown."""
    model = policy_run.fit(*job.train, job.sizes["users"], job.arm.loss)
    return Begun(model, *job.train, job.arm.loss)


def judge(begun, data, job):
    """What a policy earned in its own copy of the world; offline, how well it ranks."""
    if job.test == "tested":
        return offline(begun, data, job)
    policy, days = Policy(**job.arm.setting), job.sizes["days"]
    args = copy.deepcopy(data), begun.log, begun.model, policy, begun.genres_IG, days
    outcome = policy_run.run(*args, job.sizes["visits"], begun.recipe)
    return measured(data, policy, outcome, int(click_world.DAY * days))


def measured(world, policy, outcome, hours):
    """{metric: number or list} of one policy; `world` is as it was when all began."""
    found, discovery = policy_run.discovery(world, outcome, hours)
    numbers = {"rate": outcome.rate(), "cold": outcome.cold_share(), "found": found}
    numbers |= {"gini": policy_run.gini(outcome.shown_I[world.created_I <= hours])}
    numbers |= {"discovery": discovery, "ever": outcome.ever_H[23::24].tolist()}
    numbers["days"] = [outcome.rate(slice(at, at + 24)) for at in range(0, hours, 24)]
    if policy.kind == "network":
        numbers |= policy_run.last_lists(world, outcome.model, policy, hours)
    return numbers


def offline(begun, data, job):
    """The service's metrics at the start, on users whom the network never saw."""
    log, cold, hidden = data
    everybody = torch.ones(job.sizes["users"], dtype=torch.bool)
    luck = torch.Generator().manual_seed(job.seed)
    told = log, everybody, job.arm.setting["weight"], cold, hidden, luck
    found = off_policy.offline_metrics(begun.model.net, begun.model.known, *told)
    return {name: found[name] for name in ("mrr_at_25", "coverage")}


def extra(family, receipt, found):
    """None; records regrets, curves by day, and gains in per cent.

    A regret is the share of the oracle's expected clicks that was lost: all show equally many
    places, so rates stand for clicks.
    """
    start = prefix(family)
    runs = {name: [one.get("days") for one in each.values()] for name, each in found.items()}
    runs = {name: worlds for name, worlds in runs.items() if all(worlds)}
    for name, worlds in runs.items():
        pairs = zip(worlds, runs["oracle"], strict=True)
        lost, low, high = student([1 - one["rate"] / best["rate"] for one, best in pairs])
        note = "mean over worlds, 95 % interval"
        receipt.record(
            f"{start}{name}_regret",
            lost,
            "share",
            low,
            high,
            len(worlds),
            note,
            interval="95 %",
        )
    for name in filter(runs.get, map(slug, POLICIES)):
        columns = (
            zip(*(one[what] for one in runs[name]), strict=True) for what in ("days", "ever")
        )
        rate, ever = ([sum(day) / len(day) for day in column] for column in columns)
        day = range(1, len(rate) + 1)
        receipt.curve(f"{start}days_{name}", day=day, rate=rate, ever=ever)
    for label, one in outcomes(family).items():
        if one.unit == "%":
            ratio = receipt.metrics[label]
            mean, low, high = (100 * (ratio[end] - 1) for end in ("value", "low", "high"))
            receipt.record(
                label, mean, "%", low, high, ratio["repeats"], ratio["note"], interval="95 %"
            )


def prefix(family):
    """What the names of a family's metrics and curves begin with."""
    return "" if family == "films" else f"{family}_"


def arms(family):
    """{name: Arm}: networks, which are judged by what goes on from them, then these."""
    films = family == "films"
    networks, found = {"network": "log"}, {}
    policies = {name: (POLICIES[name], "network") for name in (POLICIES if films else IN_NEWS)}
    if films:
        networks |= {
            f"network_of_{part}": part for part in ("clicks", "wrong_genres", "others")
        }
        policies |= SPOILT
    for name, weight in OFFLINE.items() if films else ():
        about = {"start": "network_of_others", "setting": {"weight": weight}}
        found[name] = Arm(test=("tested",), **about)
    found |= {name: Arm(train=part, test=(), loss=Recipe()) for name, part in networks.items()}
    for name, (policy, start) in policies.items():
        found[slug(name)] = Arm(test=("days",), start=start, setting=asdict(policy))
    return found


def ratio(metric, one, other, *differs, unit=None):
    """One policy's metric over another's, who differ in these fields, or in their `start`."""
    names = tuple(name if name == "start" else f"setting.{name}" for name in differs)
    return Outcome(metric, slug(one), slug(other), names, ratio=True, unit=unit)


gain = functools.partial(ratio, "rate", unit="%")


def outcomes(family):
    """{name: Outcome}: which policy is compared with which, and in what they differ."""
    found = {
        "ctr_gain": gain(NEW, OLD, "weight", "update"),
        "update_gain": gain(SAME, OLD, "update"),
        "explore_full_gain": gain(NEW, SAME, "weight"),
        "explore_gain": gain(EVERY, LEAST, "weight"),
        "explore_all_gain": gain(MOST, LEAST, "weight"),
        "discovery_faster": ratio("discovery", NEW, OLD, "weight", "update"),
        "discovery_update": ratio("discovery", SAME, OLD, "update"),
        "discovery_explore": ratio("discovery", NEW, SAME, "weight"),
        "discovery_explore_all": ratio("discovery", MOST, LEAST, "weight"),
        "cold_ratio": ratio("cold", MOST, LEAST, "weight"),
    }
    found |= in_films() if family == "films" else {}
    return {prefix(family) + name: one for name, one in found.items()}


def in_films():
    """Those of films alone; a drop offline is above zero where weight 0 ranks better."""
    drops = {
        f"{metric}_drop_{name}": Outcome(
            metric, "offline_0", arm, ("setting.weight",), unit="points"
        )
        for metric in ("mrr_at_25", "coverage")
        for arm, name in (("offline_0_3", "some"), ("offline_1", "all"))
    }
    return drops | {
        "explore_all_full_gain": gain("weight 1, hourly and FULL", SAME, "weight"),
        "conversion_gain": gain(NEW, "no new items", "old_only"),
        "coverage_end_gain": ratio("coverage", NEW, OLD, "weight", "update", unit="%"),
        "ndcg_end_gain": ratio("ndcg", NEW, OLD, "weight", "update", unit="%"),
        "never_gain": gain("weight 0.3, never", EVERY, "update"),
        "half_the_genres_wrong_gain": gain(WRONG, EVERY, "start"),
        "times_in_milliseconds_gain": gain("times in milliseconds", EVERY, "time_factor"),
        "no_impressions_gain": gain("no impressions", EVERY, "impressions", "start"),
        f"{slug(BLIND)}_gain": gain(BLIND, EVERY, "impressions", "update", "start"),
        "random_negatives_gain": gain("no impressions", BLIND, "update"),
        "cutoff_gain": gain("cut-off of two days", MOST, "cutoff_days"),
        "noisy_baseline_gain": gain(f"baseline, {WRONG}", STILL, "start"),
    }


def study(family):
    """The study of a family of worlds."""
    shares = dict.fromkeys(("rate", "cold", "found", "gini", "ndcg"), Metric("share"))
    per_cent = dict.fromkeys(("coverage", "mrr_at_25"), Metric("%", 100))
    return Study(
        notebook="cold_start",
        name=family,
        arms=arms(family),
        seeds=range(6),
        over="worlds",
        added="worlds 4 and 5 were added after the first four had been seen",
        sizes={"users": 400, "warm": 1740, "cold": 191, "days": 8, "visits": 40},
        trial={"users": 60, "warm": 60, "cold": 12, "days": 4, "visits": 15},
        metrics=shares | per_cent | {"discovery": Metric("finds in 1,000 h")},
        outcomes=outcomes(family),
        key=prefix(family) + "{arm}_{metric}",
        parts=functools.partial(parts, family),
        fit=fit,
        judge=judge,
        extra=functools.partial(extra, family),
    )


FILMS, NEWS = study("films"), study("news")
