"""The study of the loss's two weights, each pair trained and judged on dev; beside it what one
network says when it is read at the same ratio, and the smooth loss at the same prices.

    make study CHAPTERS=speech/disfluency STUDY=search
"""

from collections import defaultdict
from dataclasses import replace

import disfl_labels as dl
import numpy as np
import study_disfluency as systems
from helpers.study import Arm, Job, Study
from study_disfluency import DRAWN, PREFIXES, WAITING, Labeller

GAMMAS, LATENCIES = (1.0, 1.9, 4.0), (0.1, 0.2, 0.35, 0.6)
TRIES = [("logistic", gamma, latency) for gamma in GAMMAS for latency in LATENCIES]
TRIES += [("smooth", WAITING.gamma, latency) for latency in LATENCIES]
PAGE = TRIES.index(("logistic", WAITING.gamma, WAITING.latency))


def named(kind: str, gamma: float, latency: float) -> str:
    """An arm's name, without a point: `named("smooth", 1.9, 0.1)` is "smooth 1_9 0_1"."""
    return f"{kind} {gamma:g} {latency:g}".replace(".", "_")


GRID = {"prefixes": Arm(train="train", loss=PREFIXES, test=("dev",))}
for _try in TRIES:
    _kind, _gamma, _latency = _try
    _loss = replace(WAITING, kind=_kind, gamma=_gamma, latency=_latency)
    _how = {"setting": {"ahead": None}, "test": ("dev",)}
    GRID[named(*_try)] = Arm(start="prefixes", train="train", loss=_loss, **_how)
    if _kind == "logistic":  # the page's head, read as if a wait cost what it costs here
        _price = _latency / _gamma * WAITING.gamma / WAITING.latency
        _how["setting"] = {"ahead": None, "price": _price}
        GRID[named("one at", _gamma, _latency)] = Arm(start=named(*TRIES[PAGE]), **_how)


def grid(receipt, found: dict) -> None:
    """Record F1, waiting and coverage on dev for each pair of weights, means over the seeds:
    trained anew, and (`one_`) by one network read at the same ratio."""
    rows = defaultdict(list)
    for kind, gamma, latency in TRIES:
        rows["gamma"].append(gamma)
        rows["latency"].append(latency)
        rows["smooth"].append(float(kind == "smooth"))
        for prefix, what in (("", kind), ("one_", "one at")):
            runs = found[named(what, gamma, latency)].values()
            told = [scores["dev"]["told"] for scores in runs]
            for key in DRAWN if not prefix else ("f1", "waiting"):
                rows[prefix + key].append(float(np.mean([run[key] for run in told])))
    receipt.curve("study_search", **rows)
    receipt.record("study_search_pairs", len(TRIES), "pairs")


def judge(made: Labeller, rows: list[dl.Utterance], job: Job) -> dict:
    """The same scores in one piece, for the curve alone."""
    return {"told": systems.judge(made, rows, job)}


STUDY = Study(
    notebook="disfluency",
    name="search",
    arms=GRID,
    seeds=range(3),
    processes=2,
    sizes={"sentences": 3000, "tests": 200},
    trial={"sentences": 12, "tests": 8},
    metrics={},
    parts=systems.parts,
    begin=systems.begin,
    fit=systems.fit,
    judge=judge,
    extra=grid,
    over=systems.STUDY.over,
)
