"""The recorded studies of worlds: every policy and every spoilt input, paired by world.

    make study CHAPTERS=recsys/cold_start STUDY=films
    make study CHAPTERS=recsys/cold_start STUDY=news

A seed draws a world. Films keep their appeal; news lose 0.05 a day of their logit for 30 days,
and their log holds items of every age. A network learns from the log before hour 0, all
policies go on from it, each in its own copy of the world with the same users and luck, and are
judged by the hours after. Offline metrics are of a network that never saw the tested users.
Settings were chosen in worlds 1000 and 1001. Worlds 0 to 5 belong to an earlier study; they
were seen, so none is here: the ten of this one were fixed before the first of them ran.
"""

import copy
import functools
from dataclasses import asdict, replace
from typing import NamedTuple

import click_world
import item_network
import numpy as np
import off_policy
import policy_run
import torch
from helpers.study import Arm, Metric, Outcome, Part, Study, student
from item_network import Recipe
from policy_run import POLICIES, Policy

FAMILIES = {"films": {}, "news": {"ageing": 0.05, "youngest": 0.0}}
NEW, SAME, OLD = "weight 0.3, hourly and FULL", "weight 0, hourly and FULL", "baseline, FULL"
MOST, EVERY, LEAST = (f"weight {weight}, hourly" for weight in ("1", "0.3", "0"))
STILL, WIDE = "baseline, never trained again", "weight 1, wider doubt, hourly"
WRONG, ALONE, GUESSED = "half the genres wrong", "clicks alone", "clicks alone, drawn hourly"
DOUBT = 2.1  # deviation of new items' true logits, in doubts: 2.0 to 2.2 in worlds 1000, 1001
WIDER = {WIDE: replace(POLICIES[MOST], doubt=DOUBT)}
IN_NEWS = (OLD, LEAST, EVERY, MOST, WIDE, SAME, NEW, "oracle")
SPOILT = {  # name: (what is other in the policy, the network that it goes on from)
    WRONG: ({}, "network_of_wrong_genres"),
    "lists with a click": ({"sends": "lists with a click"}, "network_of_lists_with_a_click"),
    "no places": ({"sends": "no places"}, "network_of_no_places"),
    ALONE: ({"sends": "clicks"}, "network_of_clicks"),
    GUESSED: ({"sends": "clicks", "draws": True}, "network_of_clicks"),
    "times in milliseconds": ({"time_factor": 1000.0}, "network"),
    "cut-off of two days": ({"weight": 1.0, "cutoff_days": 2.0}, "network"),
    f"baseline, {WRONG}": ({"weight": 0.0, "update": None}, "network_of_wrong_genres"),
}
OFFLINE = {"offline_0": 0.0, "offline_0_3": 0.3, "offline_1": 1.0}  # weights


class Begun(NamedTuple):
    """What a policy goes on from: a trained model, and all that it was trained by."""

    model: policy_run.Model
    log: click_world.SlateLog
    genres_IG: torch.Tensor
    created_I: torch.Tensor
    recipe: Recipe


def slug(name):
    """A metric's name of a policy's."""
    return "".join(c if c.isalnum() else "_" for c in name.lower()).replace("__", "_")


def parts(family, seed, sizes):
    """A world's parts: (log, genres, times) to learn from, the world from hour 0 on, and (log,
    new items, items that are not there yet) of tested users. Units are hours; offline users."""
    count = sizes["users"], sizes["warm"], sizes["cold"]
    world = click_world.draw(seed, *count, days=sizes["days"], **FAMILIES[family])
    log, about = click_world.history(world), (world.genres_IG, world.created_I)
    tested, hidden = log.user_S % 10 == 0, ~world.exists_I(0)
    rest, own = log.rows(~tested), log.rows(tested)
    cold = item_network.is_cold(world.created_I, 0.0, 30.0, ~hidden)
    shown = {
        slug(sends): (click_world.as_sent(log, sends)[0], *about)
        for sends in ("all", "lists with a click", "no places", "clicks")
    }
    shown["wrong_genres"] = log, click_world.noisy_genres(world, 0.5), world.created_I
    found = {name: Part(one, set(one[0].hour_S.tolist())) for name, one in shown.items()}
    found["days"] = Part(world, range(int(click_world.DAY * sizes["days"])))
    found["others"] = Part((rest, *about), set(rest.user_S.tolist()))
    return found | {"tested": Part((own, cold, hidden), set(own.user_S.tolist()))}


def fit(job):
    """A FULL training on what was shown."""
    model = policy_run.fit(*job.train, job.sizes["users"], job.arm.loss)
    return Begun(model, *job.train, job.arm.loss)


def judge(begun, data, job):
    """What a policy earned in its own copy of the world; offline, how well it ranks."""
    if job.test == "tested":
        return offline(begun.model, *data, job)
    policy, days = Policy(**job.arm.setting), job.sizes["days"]
    args = copy.deepcopy(data), begun.log, begun.model, policy, begun.genres_IG, days
    outcome = policy_run.run(*args, job.sizes["visits"], begun.recipe)
    found = measured(data, policy, outcome, int(click_world.DAY * days))
    mean, deviation = policy_run.surprise(data, begun.model)
    return found | {"surprise": mean, "surprise_sd": deviation}


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


def offline(model, log, cold, hidden, job):
    """The service's metrics at the start, on users whom the network never saw."""
    everybody = torch.ones(job.sizes["users"], dtype=torch.bool)
    luck = torch.Generator().manual_seed(job.seed)
    about = log, everybody, job.arm.setting["weight"], cold, hidden, luck
    found = off_policy.offline_metrics(model.net, model.known, *about)
    return {name: found[name] for name in ("mrr_at_25", "coverage")}


def extra(family, receipt, found):
    """None; records gains in per cent, curves by day, and regrets: the share of the oracle's
    expected clicks that was lost. All show equally many places, so rates stand for clicks."""
    about = {"note": "mean over worlds, 95 % interval", "interval": "95 %"}
    runs = {name: [one.get("days") for one in each.values()] for name, each in found.items()}
    best = [one["rate"] for one in runs["oracle"]]
    for name, worlds in [pair for pair in runs.items() if all(pair[1])]:
        lost = [1 - one["rate"] / most for one, most in zip(worlds, best, strict=True)]
        mean, *ends = student(lost)
        label = f"{prefix(family)}{name}_regret"
        receipt.record(label, mean, "share", *ends, len(worlds), **about)
        kept = {
            "rate": [one["days"] for one in worlds],
            "ever": [one["ever"] for one in worlds],
        }
        kept = {what: np.mean(rows, 0).tolist() for what, rows in kept.items()}
        day = range(1, len(kept["rate"]) + 1)
        receipt.curve(f"{prefix(family)}days_{name}", day=day, **kept)
    for label, one in outcomes(family).items():
        if one.unit == "%":
            metric = receipt.metrics[label]
            mean, *ends = (100 * (metric[end] - 1) for end in ("value", "low", "high"))
            receipt.record(label, mean, "%", *ends, metric["repeats"], **about)


def prefix(family):
    """What the names of a family's metrics and curves begin with."""
    return "" if family == "films" else f"{family}_"


def arms(family):
    """{name: Arm}: networks, which are judged by what goes on from them, then these."""
    networks, found = {"network": "all"}, {}
    policies = {name: (one, "network") for name, one in (POLICIES | WIDER).items()}
    if family == "films":
        told = ("clicks", "wrong_genres", "others", "no_places", "lists_with_a_click")
        networks |= {f"network_of_{part}": part for part in told}
        for name, (other, start) in SPOILT.items():
            policies[name] = replace(POLICIES[EVERY], **other), start
        for name, weight in OFFLINE.items():
            about = {"start": "network_of_others", "setting": {"weight": weight}}
            found[name] = Arm(test=("tested",), **about)
    found |= {name: Arm(train=part, test=(), loss=Recipe()) for name, part in networks.items()}
    for name, (policy, start) in policies.items():
        if family == "films" or name in IN_NEWS:
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
        "wider_gain": gain(WIDE, MOST, "doubt"),
        "explore_wider_gain": gain(WIDE, LEAST, "weight", "doubt"),
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
    drops, differs = {}, ("setting.weight",)
    for name, arm in (("some", "offline_0_3"), ("all", "offline_1")):
        for metric in ("mrr_at_25", "coverage"):
            drop = Outcome(metric, "offline_0", arm, differs, unit="points")
            drops[f"{metric}_drop_{name}"] = drop
    return drops | {
        "explore_all_full_gain": gain("weight 1, hourly and FULL", SAME, "weight"),
        "conversion_gain": gain(NEW, "no new items", "old_only"),
        "coverage_end_gain": ratio("coverage", NEW, OLD, "weight", "update", unit="%"),
        "ndcg_end_gain": ratio("ndcg", NEW, OLD, "weight", "update", unit="%"),
        "never_gain": gain("weight 0.3, never", EVERY, "update"),
        "half_the_genres_wrong_gain": gain(WRONG, EVERY, "start"),
        "times_in_milliseconds_gain": gain("times in milliseconds", EVERY, "time_factor"),
        "lists_with_a_click_gain": gain("lists with a click", EVERY, "sends", "start"),
        "no_places_gain": gain("no places", EVERY, "sends", "start"),
        "clicks_alone_gain": gain(ALONE, EVERY, "sends", "start"),
        "drawn_hourly_gain": gain(GUESSED, ALONE, "draws"),
        "cutoff_gain": gain("cut-off of two days", MOST, "cutoff_days"),
        "noisy_baseline_gain": gain(f"baseline, {WRONG}", STILL, "start"),
    }


def study(family):
    """The study of a family of worlds; no number that it records is a time."""
    shares = dict.fromkeys(("rate", "cold", "found", "gini", "ndcg"), Metric("share"))
    per_cent = dict.fromkeys(("coverage", "mrr_at_25"), Metric("%", 100))
    doubts = dict.fromkeys(("surprise", "surprise_sd"), Metric("doubts"))
    return Study(
        notebook="cold_start",
        name=family,
        arms=arms(family),
        seeds=range(10, 20),
        over="worlds",
        processes=2,
        sizes={"users": 400, "warm": 1740, "cold": 191, "days": 8, "visits": 40},
        trial={"users": 60, "warm": 60, "cold": 12, "days": 4, "visits": 15},
        metrics=shares | per_cent | doubts | {"discovery": Metric("finds in 1,000 h")},
        outcomes=outcomes(family),
        key=prefix(family) + "{arm}_{metric}",
        parts=functools.partial(parts, family),
        fit=fit,
        judge=judge,
        extra=functools.partial(extra, family),
    )


FILMS, NEWS = study("films"), study("news")
