"""A study of worlds: every policy and ablation in fresh worlds, differences paired by world.

    nice python -m study_cold_start --worlds 10 --family films
    nice python -m study_cold_start --worlds 10 --family news

Films keep their appeal; news lose 0.05 a day of their logit for 30 days, and their log holds
items of every age. Each world is one file in `--folder`, so that an interrupted study goes on.
Worlds of the study have the seeds 0, 1, …; settings were chosen in worlds 1000 and 1001.
"""

import argparse
import copy
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import click_world
import item_network
import numpy as np
import off_policy
import policy_run
import torch
from helpers import cards, device, receipts
from policy_run import POLICIES

FAMILIES = {"films": {}, "news": {"ageing": 0.05, "youngest": 0.0}}
EXPLORES = POLICIES["weight 0.3, hourly"]
ABLATED = {
    "half the genres wrong": EXPLORES,
    "baseline, half the genres wrong": POLICIES["baseline, never trained again"],
    "no impressions": replace(EXPLORES, impressions=False),
    "no impressions, never updated": replace(EXPLORES, impressions=False, update=None),
    "times in milliseconds": replace(EXPLORES, time_factor=1000.0),
    "cut-off of two days": replace(EXPLORES, weight=1.0, cutoff_days=2),
}
NEWS = ("baseline, FULL", "weight 0, hourly", "weight 0.3, hourly", "weight 1, hourly")
NEWS += ("weight 0, hourly and FULL", "weight 0.3, hourly and FULL", "oracle")


def one_world(seed, family, days=8, users=400):
    """{policy: {metric: number or list}} of one fresh world."""
    world = click_world.draw(seed, users, days=days, **FAMILIES[family])
    log = click_world.history(world)
    model = policy_run.fit(log, world.genres_IG, world.users)
    films, found = family == "films", {}
    policies = POLICIES | ABLATED if films else {name: POLICIES[name] for name in NEWS}
    best = None
    for name, policy in sorted(policies.items(), key=lambda one: one[0] != "oracle"):
        genres, own = world.genres_IG, model
        if "genres" in name:
            genres = click_world.noisy_genres(world, 0.5)
            own = policy_run.fit(log, genres, world.users)
        elif not policy.impressions:
            own = policy_run.fit(
                click_world.without_impressions(log, world), genres, world.users
            )
        args = copy.deepcopy(world), log, own, policy, genres, days
        outcome = policy_run.run(*args, visits=40)
        best = best or outcome  # the oracle is the first
        found[name] = measured(world, policy, outcome, best, 24 * days)
    return found | ({"offline": offline(world, log)} if films else {})


def measured(world, policy, outcome, best, hours):
    """{metric: number or list} of one policy; `world` is as it was when all began."""
    share, discovery = policy_run.discovery(world, outcome, hours)
    found = {"rate": outcome.rate(), "regret": policy_run.regret(outcome, best), "found": share}
    found |= {"discovery": discovery, "cold": outcome.cold_share()}
    found["gini"] = policy_run.gini(outcome.shown_I[world.created_I <= hours])
    found["days"] = [outcome.rate(slice(at, at + 24)) for at in range(0, hours, 24)]
    found["ever"] = outcome.ever_H[23::24].tolist()
    if policy.kind == "network":
        found |= policy_run.last_lists(world, outcome.model, policy, hours)
    return found


def offline(world, log):
    """The service's metrics at the start, of a network that never saw a tenth of the users."""
    tested = torch.arange(world.users) % 10 == 0
    rest = log.rows(~tested[log.user_S])
    net = item_network.train(rest, world.genres_IG, world.users)
    known, hidden = item_network.beliefs(net, rest, world.users), ~world.exists_I(0)
    cold = item_network.is_cold(world.created_I, 0.0, 30.0, ~hidden)
    rows = {}
    for weight in (0.0, 0.3, 1.0):
        luck = torch.Generator().manual_seed(world.seed)
        rows[str(weight)] = off_policy.offline_metrics(
            net, known, log, tested, weight, cold, hidden, luck
        )
    return rows


def interval(values):
    """(mean, low, high) of a 95 % interval over worlds, by Student's t."""
    from scipy import stats

    values = np.asarray(values, dtype=float)
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return values.mean(), values.mean() - half, values.mean() + half


def ratio(worlds, metric, one, other):
    """(ratio, low, high) of two policies' metric: geometric mean over worlds, paired."""
    logs = [np.log((w[one][metric] + 1e-9) / (w[other][metric] + 1e-9)) for w in worlds]
    return tuple(float(np.exp(value)) for value in interval(logs))


def record(receipt, worlds, family):
    """Everything that the page says of these worlds goes into the receipt."""
    start, count = "" if family == "films" else "news_", len(worlds)
    for name in worlds[0]:
        for metric in ("rate", "regret", "cold", "found", "gini") if name != "offline" else ():
            mean, low, high = interval([world[name][metric] for world in worlds])
            receipt.record(f"{start}{slug(name)}_{metric}", mean, "share", low, high, count)
        if name in POLICIES:
            y = {
                m: np.mean([w[name][m] for w in worlds], axis=0).tolist()
                for m in ("days", "ever")
            }
            day = list(range(1, len(y["days"]) + 1))
            receipt.curve(f"{start}days_{slug(name)}", day=day, rate=y["days"], ever=y["ever"])
    for name, (unit, metric, one, other) in comparisons(family).items():
        values = ratio(worlds, metric, one, other)
        if unit == "%":
            values = [100 * (value - 1) for value in values]
        receipt.record(start + name, values[0], unit, *values[1:], count)
    for metric in ("mrr_at_25", "coverage") if not start else ():
        for weight, name in (("0.3", "some"), ("1.0", "all")):
            less = [w["offline"]["0.0"][metric] - w["offline"][weight][metric] for w in worlds]
            mean, low, high = interval([100 * one for one in less])
            receipt.record(f"{metric}_drop_{name}", mean, "points", low, high, count)


def comparisons(family):
    """{name: (unit, metric, policy, the policy that it is compared with)}"""
    new, old, every = "weight 0.3, hourly and FULL", "baseline, FULL", "weight 0.3, hourly"
    most, least, same = "weight 1, hourly", "weight 0, hourly", "weight 0, hourly and FULL"
    found = {"ctr_gain": ("%", "rate", new, old), "update_gain": ("%", "rate", same, old)}
    found["explore_full_gain"] = "%", "rate", new, same
    found["explore_gain"] = "%", "rate", every, least
    found["explore_all_gain"] = "%", "rate", most, least
    found["discovery_faster"] = "×", "discovery", new, old
    found["discovery_update"] = "×", "discovery", same, old
    found["discovery_explore"] = "×", "discovery", new, same
    found["discovery_explore_all"] = "×", "discovery", most, least
    found["cold_ratio"] = "×", "cold", most, least
    if family == "films":
        blind = "no impressions, never updated"
        found["explore_all_full_gain"] = "%", "rate", "weight 1, hourly and FULL", same
        found["conversion_gain"] = "%", "rate", new, "no new items"
        found["coverage_end_gain"] = "%", "coverage", new, old
        found["ndcg_end_gain"] = "%", "ndcg", new, old
        found["never_gain"] = "%", "rate", "weight 0.3, never", every
        for name in ("half the genres wrong", "times in milliseconds", "no impressions", blind):
            found[f"{slug(name)}_gain"] = "%", "rate", name, every
        found["random_negatives_gain"] = "%", "rate", "no impressions", blind
        found["cutoff_gain"] = "%", "rate", "cut-off of two days", most
        still = "baseline, never trained again"
        found["noisy_baseline_gain"] = "%", "rate", "baseline, half the genres wrong", still
    return found


def slug(name):
    """A metric's name of a policy's."""
    return "".join(c if c.isalnum() else "_" for c in name.lower()).replace("__", "_")


def fingerprint():
    """A hash of the code that makes a world's numbers, without comments and docstrings."""
    modules = ("click_world", "item_network", "off_policy", "policy_run", "study_cold_start")
    texts = [
        Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8") for name in modules
    ]
    return hashlib.sha256("".join(map(cards.executed, texts)).encode()).hexdigest()


def kept(seed, family, folder):
    """One world's numbers, from its file or made now; another code's are made again."""
    path, code = folder / f"{family}-{seed}.json", fingerprint()
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if known.get("code") != code:
        known = {"code": code, "found": one_world(seed, family)}
        path.write_text(json.dumps(known), encoding="utf-8")
        print(path, flush=True)
    return known["found"]


def main(argv=None):
    """Run the worlds that are not there yet, then write the receipt of all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--worlds", type=int, default=10)
    parser.add_argument("--family", choices=sorted(FAMILIES), default="films")
    parser.add_argument("--folder", type=Path, default=Path("_study"))
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    if options.worlds < 2:
        parser.error("--worlds must be 2 or more: an interval over one world has no meaning")
    receipt = receipts.start("cold_start", device.tier("cpu"), threads=1)
    options.folder.mkdir(parents=True, exist_ok=True)
    worlds = [kept(seed, options.family, options.folder) for seed in range(options.worlds)]
    record(receipt, worlds, options.family)
    receipt.sizes(worlds=options.worlds, users=400, items=1931, cold=191, days=8, visits=40)
    print(receipt.write(name=options.family))


if __name__ == "__main__":
    main()
