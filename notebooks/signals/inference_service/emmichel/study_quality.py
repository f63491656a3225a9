"""The study of how good the shipped network is on many events that it has not seen.

make study CHAPTERS=signals/inference_service STUDY=quality
"""

import numpy as np
from helpers.study import Arm, Metric, Outcome, Part, Study
from lartpc import Detector, draw_primaries, simulate
from reconstruction import KINDS, hit_truth, kinds_of, prepare, quality

from .network import infer
from .training import load_network

DRAWN = 905  # no event of it taught the network (seed 1) or is drawn by a page


def parts(seed, sizes):
    """Events as the page judges: the patches of each, and what is true of its hits."""
    rng, place, found = np.random.default_rng([DRAWN, seed]), Detector(), []
    for _ in range(sizes["events"]):
        event = simulate(draw_primaries(place, rng), place, rng)
        _, hits, patches = prepare(event)
        found.append((patches, np.concatenate(list(map(hit_truth, hits, event.truth)))))
    return {"unseen": Part(found, [(seed, number) for number in range(len(found))])}


def begin(word, job):
    """The shipped network, or None for the rule."""
    return load_network(large=False) if word == "shipped" else None


def judge(made, events, job):
    """Shares of hits that are labelled rightly; the rule is told the commonest kind."""
    truth = np.concatenate([true for _, true in events])
    if made is None:
        known = np.bincount(truth[truth >= 0])
        return {"right": known.max() / known.sum()}
    said = np.concatenate([kinds_of(*infer(made, patches)) for patches, _ in events])
    scores = {"right": (said == truth)[truth >= 0].mean()}
    rows = sum(quality(said, truth).values(), ())  # of each kind what SHARES names
    return scores | dict(zip(SHARES, map(float, rows), strict=True))


WHAT = {"efficiency": "of hits", "purity": "of hits", "hits": "hits"}
NAMES = [(kind.lower(), what) for kind in KINDS.values() for what in WHAT]
SHARES = {f"{kind}_{what}": Metric(WHAT[what]) for kind, what in NAMES}
STUDY = Study(
    notebook="inference_service",
    name="quality",
    arms={
        "network": Arm(start="shipped", test=("unseen",)),
        "commonest": Arm(start="the commonest kind", test=("unseen",)),
    },
    seeds=range(12),
    sizes={"events": 4},
    trial={"events": 1},
    metrics={"right": Metric("of hits"), **SHARES},
    parts=parts,
    begin=begin,
    judge=judge,
    outcomes={"quality_gain": Outcome("right", "network", "commonest", ("start",))},
    key="quality_{arm}_{metric}",
    over="draws of events",
    processes=2,
)
