"""The recorded study of worlds: policies at full size.

    python study_ecosystem.py --threads 1       # from the slice's folder; some ten minutes

In each world (a draw of providers) every policy runs as often as the others, with the same
users and noise in run number r. A world's number is the mean of its runs; intervals are 95 %
(Student's t) over worlds, of differences within worlds. The number of worlds, the runs and the
caps were fixed before the first of them ran; none was chosen by what came out.
"""

import argparse

import numpy as np
import torch
from array_backends import fastest
from ecosystem_outcome import gini
from ecosystem_world import draw_providers, provider_aware, run
from helpers import device, receipts
from scipy import stats

CAPS = {"myopic": 0.0, "cap_0_3": 0.3, "cap_1_2": 1.2, "cap_3": 3.0}
EDGE = 50  # steps that count as the beginning, and as the end
UNITS = {"survivors": "providers", "gini": "Gini", "late_gini": "Gini"}  # else utility
ENDS = {"cap_1_2_gain": "low", "concentration": "high", "myopic_gini_moved": "low"}
ENDS |= {"topics_beyond_clicks": "low"}  # of an interval, where a claim is about its sign


def world(number, given, where):
    """{policy: its measures} of one draw of providers, all with the same users and noise."""
    means = draw_providers(1, number)[0]

    def told(cap):
        backend = fastest(1000 + number, where)
        about = given.runs, given.horizon, number, means, given.users
        return measures(run(provider_aware(cap), *about, backend=backend))

    return {name: told(cap) for name, cap in CAPS.items()}


def measures(out):
    """What is kept of an `Outcome`: means over its runs, their own sums, the mean's path."""
    edge = min(EDGE, len(out.utility) // 3)
    first, late = slice(1, edge + 1), slice(-edge, None)
    return {
        "cumulative": float(out.cumulative.mean()),
        "survivors": float(out.survivors[-1].mean()),
        "early_utility": float(out.utility[first].mean()),
        "late_utility": float(out.utility[late].mean()),
        "early_gini": float(gini(out.clicks[first]).mean()),
        "late_gini": float(gini(out.clicks[late]).mean()),
        "runs": out.cumulative,
        "path": out.utility.mean(1).cumsum(),
    }


def ends(values, level=0.95):
    """(mean, low, high) over the first axis, Student's t."""
    values = np.asarray(values, float)
    half = stats.t.ppf((1 + level) / 2, len(values) - 1) * stats.sem(values, 0)
    return values.mean(0), values.mean(0) - half, values.mean(0) + half


def record_interval(receipt, name, values, unit):
    """None; records a mean over worlds with its interval."""
    mean, low, high = ends(values)
    note = "mean over worlds, 95 % interval"
    receipt.record(f"study_{name}", mean, unit, low, high, len(values), note)
    if name in ENDS:
        end, note = {"low": low, "high": high}[ENDS[name]], "that end of the interval"
        receipt.record(f"study_{name}_{ENDS[name]}", end, unit, note=note)


def record_worlds(receipt, found):
    """None; policies, their gains within worlds, and what concentration costs."""

    def each(policy, measure):
        return np.array([one[policy][measure] for one in found])

    for policy in CAPS:
        for name in ("cumulative", "survivors", "late_gini"):
            unit = UNITS.get(name, "utility")
            record_interval(receipt, f"{policy}_{name}", each(policy, name), unit)
        if policy == "myopic":
            continue
        gains = each(policy, "cumulative") - each("myopic", "cumulative")
        record_interval(receipt, f"{policy}_gain", gains, "utility")
        receipt.record(f"study_{policy}_worlds_better", int((gains > 0).sum()), "worlds")
        receipt.curve(f"{policy}_gains", world=list(range(len(gains))), y=gains.tolist())
        mean, low, high = (
            one.tolist() for one in ends(each(policy, "path") - each("myopic", "path"))
        )
        receipt.curve(f"{policy}_path", step=list(range(len(mean))), y=mean, low=low, high=high)

    def moved(policy, what):
        return each(policy, f"late_{what}") - each(policy, f"early_{what}")

    cost = moved("myopic", "utility") - moved("cap_1_2", "utility")
    record_interval(receipt, "concentration", cost, "utility")  # utility falls under all
    for what in ("utility", "gini"):
        unit = UNITS.get(what, "utility")
        record_interval(receipt, f"myopic_{what}_moved", moved("myopic", what), unit)
    runs = each("myopic", "runs")
    within, between = runs.var(1, ddof=1).mean() ** 0.5, runs.mean(1).std(ddof=1)
    receipt.record("study_spread_of_runs", float(within), "utility")
    receipt.record("study_spread_of_worlds", float(between), "utility")


def begun(doc, sizes):
    """(the options, a receipt with these sizes): whole numbers by name."""
    parser = argparse.ArgumentParser(description=doc.split("\n\n")[0])
    for name, size in (sizes | {"threads": device.cores()}).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=size)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    given.tier = device.tier()
    receipt = receipts.start("ecosystem", given.tier, given.threads)
    receipt.sizes(**{name: vars(given)[name] for name in sizes})
    return given, receipt


def main():
    """Measure world by world, and write the receipt."""
    given, receipt = begun(__doc__, {"worlds": 20, "runs": 2, "horizon": 300, "users": 2000})
    found = []
    for number in range(given.worlds):
        found.append(world(number, given, given.tier.device))
        print(f"world {number}: done", flush=True)
    record_worlds(receipt, found)
    print(receipt.write("study"))


if __name__ == "__main__":
    main()
