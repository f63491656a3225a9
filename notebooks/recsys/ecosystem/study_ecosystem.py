"""The recorded study of worlds: policies at full size, and an advertiser.

    python study_ecosystem.py --threads 1       # from the slice's folder; about half an hour
    python study_ecosystem.py --parts worlds    # the receipt holds the parts named

`worlds`: in each world (a draw of providers) every policy runs as often as the others, with the
same users and noise in run number r. A world's number is the mean of its runs; intervals are
95 % (Student's t) over worlds, of differences within worlds. The number of worlds, the runs and
the caps were fixed before the first of them ran; none was chosen by what came out.
`advertiser`: the boosted policy with and without an ad, in the same worlds.

A stopped study goes on: each world keeps a file, named by the code that it depends on.
`--again 0 7` computes these worlds anew and stops where a digit differs.
"""

import argparse
import functools
import hashlib
import inspect
import json
import os
from pathlib import Path

import numpy as np
import torch
from array_backends import fastest
from ecosystem_outcome import gini
from ecosystem_world import Advertiser, draw_providers, provider_aware, run
from helpers import cards, device, receipts, root
from scipy import stats

ENDS = {"cap_1_2_gain": "low", "concentration": "high", "myopic_gini_moved": "low"}
ENDS |= {"topics_beyond_clicks": "low"}  # of an interval, where a claim is about its sign
CAPS = {"myopic": 0.0, "cap_0_3": 0.3, "cap_1_2": 1.2, "cap_3": 3.0}
EDGE = 50  # steps that count as the beginning, and as the end
AD = Advertiser((0.0, 0.0), bid=2.0, price=1.0, budget=5_000.0)
WORLD_CODE = ("array_backends", "choice_models", "story", "ecosystem_world")


def world(number, given, where):
    """{policy: {measure: a number or curve, the mean of the runs}} of one draw of providers."""
    means, found = draw_providers(1, number)[0], {}
    for name, cap in CAPS.items():
        backend = fastest(1000 + number, where)
        policy = provider_aware(cap)
        out = run(
            policy, given.runs, given.horizon, number, means, given.users, backend=backend
        )
        found[name] = measures(out)
    return found


def measures(out):
    """What is kept of an `Outcome`: means over its runs, and the runs' own sums."""
    edge = min(EDGE, len(out.utility) // 3)
    half, late = out.utility[1 : edge + 1], out.utility[-edge:]
    return {
        "cumulative": float(out.cumulative.mean()),
        "runs": out.cumulative.tolist(),
        "early_utility": float(half.mean()),
        "late_utility": float(late.mean()),
        "early_gini": float(gini(out.clicks[1 : edge + 1]).mean()),
        "late_gini": float(out.inequality[-edge:].mean()),
        "survivors": float(out.survivors[-1].mean()),
        "curve_utility": out.utility.mean(1).tolist(),
        "curve_survivors": out.survivors.mean(1).tolist(),
        "curve_gini": out.inequality.mean(1).tolist(),
    }


def advertised(number, given, where):
    """What an ad does in one world: {measure: number}, with and without it."""
    means, told = draw_providers(1, number)[0], (given.horizon, number)
    outs = []
    for ad in (None, AD):
        backend = fastest(1000 + number, where)
        how = {"advertiser": ad, "backend": backend}
        outs.append(run(provider_aware(1.2), 1, *told, means, given.users, **how))
    plain, with_ad = outs
    left = with_ad.budget[:, 0]
    return {
        "spent_share": float(100 * (1 - left[-1] / AD.budget)),
        "ran_out_at": float((left > 0).sum()),
        "clicks": float(with_ad.ad_clicks.sum()),
        "utility_change": float((with_ad.cumulative - plain.cumulative)[0]),
        "survivors_change": float((with_ad.survivors[-1] - plain.survivors[-1])[0]),
    }


@functools.cache  # once a process: what is edited while it runs is not what it runs
def mark_of(code, makers):
    """A hash of what these modules and functions execute."""
    here = Path(__file__).parent
    texts = [cards.executed((here / f"{one}.py").read_text()) for one in code]
    texts += [cards.executed(inspect.getsource(one)) for one in makers]
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:10]


def kept(name, code, makers, *arguments, again=False):
    """What the first maker returns, or what was kept of it by the same modules and makers.

    With `again` it is computed anew; RuntimeError where that is not what was kept.
    """
    mark = mark_of(code, makers)
    path = (root() or Path.cwd()) / "_build" / "study_ecosystem" / f"{name}-{mark}.json"
    if not path.is_file():
        found = makers[0](*arguments)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".part").write_text(json.dumps(found))
        os.replace(path.with_suffix(".part"), path)
        print(f"{name}: done", flush=True)
    found = json.loads(path.read_text())
    if again and json.loads(json.dumps(makers[0](*arguments))) != found:
        raise RuntimeError(
            f"{name}: computed again it differs from what was kept; remove {path}"
        )
    return found


def record_interval(receipt, name, values, unit, level=0.95):
    """None; records a mean over worlds with its interval, Student's t."""
    values = np.asarray(values, float)
    mean, count = values.mean(), len(values)
    half = 0.0
    if count > 1:
        half = stats.t.ppf((1 + level) / 2, count - 1) * values.std(ddof=1) / count**0.5
    note = f"mean over worlds, {100 * level:.0f} % interval"
    ends = {"low": mean - half, "high": mean + half}
    receipt.record(f"study_{name}", mean, unit, *ends.values(), count, note)
    if name in ENDS:
        end = f"the {ENDS[name]} end of that interval"
        receipt.record(f"study_{name}_{ENDS[name]}", ends[ENDS[name]], unit, note=end)


def record_worlds(receipt, found):
    """None; each policy's measures, the gains over the myopic one, and mean curves."""
    units = {"survivors": "providers", "early_gini": "Gini", "late_gini": "Gini"}
    base = found[0]["myopic"]
    scalars = [name for name in base if name != "runs" and not name.startswith("curve_")]
    for policy in CAPS:
        own, plain = [one[policy] for one in found], [one["myopic"] for one in found]
        for name in scalars:
            values = [one[name] for one in own]
            record_interval(receipt, f"{policy}_{name}", values, units.get(name, "utility"))
        for name in [name for name in base if name.startswith("curve_")]:
            mean = np.mean([one[name] for one in own], 0)
            receipt.curve(
                f"{policy}_{name}", step=np.arange(len(mean)).tolist(), y=mean.tolist()
            )
        if policy == "myopic":
            continue
        record_gains(receipt, policy, plain, own)
    fall = {
        name: np.array(
            [one[name]["late_utility"] - one[name]["early_utility"] for one in found]
        )
        for name in CAPS
    }
    cost = fall["myopic"] - fall["cap_1_2"]  # every policy's utility falls: what is its own?
    record_interval(receipt, "concentration", cost, "utility")
    record_myopic(receipt, [one["myopic"] for one in found])


def record_gains(receipt, policy, plain, own):
    """None; what a policy's worlds have over the same worlds under the myopic one."""
    pairs = list(zip(plain, own, strict=True))
    gains = np.array([b["cumulative"] - a["cumulative"] for a, b in pairs])
    record_interval(receipt, f"{policy}_gain", gains, "utility")
    receipt.curve(f"{policy}_gains", world=list(range(len(gains))), y=gains.tolist())
    receipt.record(f"study_{policy}_worlds_better", int((gains > 0).sum()), "worlds")
    paths = [np.subtract(b["curve_utility"], a["curve_utility"]).cumsum() for a, b in pairs]
    for step in (50, 100, 200):
        if step < len(paths[0]):
            name = f"{policy}_gain_at_{step}"
            record_interval(receipt, name, [path[step] for path in paths], "utility")
    more = [b["survivors"] - a["survivors"] for a, b in pairs]
    record_interval(receipt, f"{policy}_more_survivors", more, "providers")


def record_myopic(receipt, found):
    """None; what changes from the first steps to the last, and how runs and worlds spread."""
    for name, unit in (("utility", "utility"), ("gini", "Gini")):
        moved = [one[f"late_{name}"] - one[f"early_{name}"] for one in found]
        record_interval(receipt, f"myopic_{name}_moved", moved, unit)
    runs = np.array([one["runs"] for one in found])
    if runs.shape[1] > 1:
        within = float(runs.var(1, ddof=1).mean() ** 0.5)
        receipt.record("study_spread_of_runs", within, "utility")
        worlds = float(runs.mean(1).std(ddof=1)) if len(runs) > 1 else 0.0
        receipt.record("study_spread_of_worlds", worlds, "utility")


def record_ad(receipt, found):
    """None; what the ad did, means over worlds."""
    units = {"spent_share": "%", "ran_out_at": "step", "clicks": "clicks"}
    units |= {"utility_change": "utility", "survivors_change": "providers"}
    for name, unit in units.items():
        record_interval(receipt, f"ad_{name}", [one[name] for one in found], unit)


def begun(doc, sizes, lists):
    """(the options, a receipt with their sizes): whole numbers and lists, by name."""
    parser = argparse.ArgumentParser(description=doc.split("\n\n")[0])
    for name, size in (sizes | {"threads": device.cores()}).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=size)
    for name, (kind, default, words) in lists.items():
        parser.add_argument(f"--{name}", nargs="*", type=kind, default=default, help=words)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    given.tier = device.tier()
    receipt = receipts.start("ecosystem", given.tier, given.threads)
    receipt.sizes(**{name: vars(given)[name] for name in sizes})
    return given, receipt


def main():
    """Measure what is missing, and write the receipt."""
    sizes = {"worlds": 20, "runs": 2, "horizon": 300, "users": 2000}
    words = "worlds to compute anew and hold against what was kept"
    lists = {"again": (int, [], words), "parts": (str, list(PARTS), f"of {list(PARTS)}")}
    given, receipt = begun(__doc__, sizes, lists)
    if not given.parts or set(given.parts) - set(PARTS):
        raise ValueError(f"parts {given.parts}; some of {list(PARTS)} are allowed")
    about = f"{given.runs}-{given.horizon}-{given.users}"
    for part in given.parts:
        makers, record, found = *PARTS[part], []
        for number in range(given.worlds):
            told = f"{part}-{number}-{about}", WORLD_CODE, makers, number, given
            again = number in given.again
            found.append(kept(*told, given.tier.device, again=again))
        record(receipt, found)
    if given.again:
        note = "computed anew by this code, equal to the last digit to what was kept"
        receipt.record("study_computed_again", len(given.again), "worlds", note=note)
    print(receipt.write("study"))


PARTS = {
    "worlds": ((world, measures), record_worlds),
    "advertiser": ((advertised,), record_ad),
}  # what makes a world's numbers, and what records them


if __name__ == "__main__":
    main()
