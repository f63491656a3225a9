"""The recorded study of worlds: policies at the sizes of the article's repository.

    make study CHAPTERS=recsys/ecosystem STUDY=policies

A seed draws the providers of a world. Each policy, the heuristic at a cap of its own, runs in
every world equally often, with the same users and noise in run number r. A world's number is
the mean of its runs; intervals are 95 % (Student's t) over worlds, of differences within one.
The arm `even` is the myopic policy where clicks make no items (γ = 0): the same world without
concentration. The number of worlds, the runs and the caps were fixed before the first of them
ran; `even` was added when these had been seen, since under a boost clicks make items, too.
"""

import numpy as np
from array_backends import fastest
from ecosystem_world import GAMMA, draw_providers, gini, provider_aware, run
from helpers import device
from helpers.study import Arm, Metric, Outcome, Part, Study, student

CAPS = {"myopic": 0.0, "cap_0_3": 0.3, "cap_1_2": 1.2, "cap_3": 3.0}
BOOSTED = [name for name, cap in CAPS.items() if cap]
EDGE = 50  # steps that count as the beginning, and as the end


def parts(seed, sizes):
    """{"world": a draw of providers, (1, P, T)}; its units are these providers' places."""
    means = draw_providers(1, seed)
    return {"world": Part(means, [tuple(place) for place in means[0].tolist()])}


def begin(word, job):
    """The policy that an arm is: pulls to boosts."""
    return {"heuristic": provider_aware}[word](job.arm.setting["cap"])


def judge(policy, means, job):
    """The measures of a policy among these providers; its users and noise are the world's."""
    backend, size = fastest(1000 + job.seed, device.device()), job.sizes
    about = size["runs"], size["horizon"], job.seed, means[0], size["users"]
    return measures(run(policy, *about, job.arm.setting["gamma"], backend))


def measures(out):
    """What is kept of an `Outcome`: means over its runs, their own sums, the mean's path.

    Survivors had a document in one of the last EDGE steps, the `present` in the last. What
    utility and Gini `moved`: the last EDGE steps less the first EDGE, those from step 1 on.
    """
    edge = min(EDGE, len(out.utility) // 3)
    first, late = slice(1, edge + 1), slice(-edge, None)
    early_gini, late_gini = (float(gini(out.clicks[at]).mean()) for at in (first, late))
    return {
        "cumulative": float(out.cumulative.mean()),
        "survivors": float(out.survivors(EDGE)[-1].mean()),
        "present": float(out.survivors(1)[-1].mean()),
        "late_gini": late_gini,
        "gini_moved": late_gini - early_gini,
        "utility_moved": float(out.utility[late].mean() - out.utility[first].mean()),
        "runs": out.cumulative.tolist(),
        "path": out.utility.mean(1).cumsum().tolist(),
    }


def extra(receipt, found):
    """None; records gains world by world and step by step, and spreads."""

    def each(policy, measure):
        return np.array([one["world"][measure] for one in found[policy].values()])

    for policy in BOOSTED:
        gains = each(policy, "cumulative") - each("myopic", "cumulative")
        receipt.record(f"study_{policy}_worlds_better", int((gains > 0).sum()), "worlds")
        receipt.curve(f"{policy}_gains", world=list(found[policy]), y=gains.tolist())
        steps = (each(policy, "path") - each("myopic", "path")).T
        y, low, high = zip(*map(student, steps), strict=True)
        receipt.curve(f"{policy}_path", step=range(len(steps)), y=y, low=low, high=high)
    runs = each("myopic", "runs")
    within, between = runs.var(1, ddof=1).mean() ** 0.5, runs.mean(1).std(ddof=1)
    receipt.record("study_spread_of_runs", float(within), "utility")
    receipt.record("study_spread_of_worlds", float(between), "utility")


def arm(cap, gamma=GAMMA):
    """The heuristic at this cap, at 0 the myopic policy, where clicks make items by gamma."""
    return Arm(test=("world",), start="heuristic", setting={"cap": cap, "gamma": gamma})


def less(arm, other="myopic", metric="cumulative", differs="cap"):
    """What an arm has more than another, from which it differs in one setting."""
    return Outcome(metric, arm, other, differs=(f"setting.{differs}",))


STUDY = Study(
    notebook="ecosystem",
    name="policies",
    arms={name: arm(cap) for name, cap in CAPS.items()} | {"even": arm(0.0, 0.0)},
    seeds=range(20),
    over="worlds",
    sizes={"runs": 2, "horizon": 300, "users": 2000},
    trial={"horizon": 6, "users": 30},
    metrics=dict.fromkeys(("cumulative", "utility_moved"), Metric("utility"))
    | dict.fromkeys(("survivors", "present"), Metric("providers"))
    | dict.fromkeys(("late_gini", "gini_moved"), Metric("Gini")),
    outcomes={f"study_{name}_gain": less(name) for name in BOOSTED}
    | {
        "study_even_gain": less("even", differs="gamma"),
        "study_concentration": less("myopic", "even", "utility_moved", "gamma"),
        "study_boost_spares": less("cap_1_2", metric="utility_moved"),
    },
    processes=2,
    parts=parts,
    begin=begin,
    judge=judge,
    extra=extra,
)
