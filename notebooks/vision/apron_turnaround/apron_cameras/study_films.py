"""The study: events found in whole films, by one camera and by two, with clocks set and not.

    make study CHAPTERS=vision/apron_turnaround STUDY=films

A seed draws a turnaround, renders its film with dropped frames, bursts and a drifting clock,
and lets the network and the tracker watch it once; every arm gets what they told. No film's
frame is one of the examples that the network learned from, and no film one of those on which
`critical_path.observed` set its errors; those are measured here as well. Through every other
film drives something that is in the way of the aircraft that rolls in.
"""

import numpy as np
from critical_path import draw
from event_scores import event_f1, idf1
from helpers.study import Arm, Job, Metric, Outcome, Part, Study

from . import detector, fusion, pipeline
from .footage import Faults, film

TOLERANCES = (10, 20, 30, 60)
WALKS = ("deboarding end", "boarding end")  # known only when nobody walks for a while
SHIFTED = 30.0  # s of offset at most that a film's clock B gets


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """A film as it was watched, its true events and the truth of its clock."""
    rng = np.random.default_rng([seed, 10_000])
    one = draw(rng)
    faults = Faults(offset=rng.uniform(-SHIFTED, SHIFTED), drift_ppm=rng.uniform(-3000, 3000))
    intruder = rng.uniform(45, 70) if seed % 2 else None
    at, true, end = pipeline.staged(one, intruder)
    end = min(end, sizes["seconds"])
    watched = pipeline.watch(film(at, end, faults, seed, sizes["every"]), detector.load())
    true = {name: time for name, time in true.items() if time < end}
    return {"film": Part((watched, true, faults, intruder), [f"film {seed}"])}


def judge(made: str, data: tuple, job: Job) -> dict:
    """F1 over all kinds of events at each tolerance, and what lies behind it."""
    watched, true, faults, intruder = data
    setting = job.arm.setting
    clock = pipeline.set_clocks(watched) if setting["clock"] else fusion.Clock()
    found, in_the_way = pipeline.events(watched, clock, setting["cameras"])
    scores = {f"f1_{t}": f1(true, found, t) for t in TOLERANCES}
    off = [one.time - true[one.name] for one in found if one.name in true]
    delay = {kind: [] for kind in ("start", "end", "walk")}
    for one in found:
        if one.name in true:
            kind = "walk" if one.name in WALKS else "end" if one.name[-3:] == "end" else "start"
            delay[kind].append(one.told - true[one.name])
    middle = max(true.values()) / 2
    told = faults.offset + middle * (1 + faults.drift_ppm * 1e-6)
    tracks = [idf1(*pipeline.identities(watched, camera)) for camera in setting["cameras"]]
    return {
        **scores,
        "off": float(np.median(np.abs(off))) if off else float("nan"),
        "late": float(np.mean(off)) if off else float("nan"),
        **{f"known_{k}": float(np.mean(d)) if d else float("nan") for k, d in delay.items()},
        "missed": 1 - len({one.name for one in found} & set(true)) / len(true),
        "in_the_way": float(bool(in_the_way) == (intruder is not None)),
        "clock": abs(clock.true(told) - middle),
        "idf1": float(np.mean(tracks)),
    }


def f1(true: dict, found: list, tolerance: float) -> float:
    """F1 of all events of a film: pairs are made kind by kind, then counted together."""
    kinds = {*true, *(one.name for one in found)}
    pairs = 0.0
    for name in kinds:
        mine = [true[name]] if name in true else []
        its = [one.time for one in found if one.name == name]
        pairs += event_f1(mine, its, tolerance) * (len(mine) + len(its)) / 2
    return 2 * pairs / (len(true) + len(found)) if true or found else 1.0


def arm(cameras: str = "AB", clock: bool = True) -> Arm:
    """These cameras' events, with B's clock set or as it is."""
    return Arm(test=("film",), setting={"cameras": cameras, "clock": clock})


STUDY = Study(
    notebook="apron_turnaround",
    name="films",
    arms={"fused": arm(), "raw": arm(clock=False), "only_a": arm("A"), "only_b": arm("B")},
    seeds=range(24),
    sizes={"every": 6.0, "seconds": 7200.0},
    trial={"every": 8.0, "seconds": 130.0},
    metrics={f"f1_{t}": Metric("F1") for t in TOLERANCES}
    | {f"known_{kind}": Metric("s") for kind in ("start", "end", "walk")}
    | {"off": Metric("s"), "late": Metric("s"), "clock": Metric("s"), "idf1": Metric("IDF1")}
    | {"missed": Metric("%", 100.0), "in_the_way": Metric("%", 100.0)},
    parts=parts,
    judge=judge,
    outcomes={
        "study_clock_gain": Outcome("f1_20", "fused", "raw", ["setting.clock"]),
        "study_second_camera_gain": Outcome("f1_20", "fused", "only_a", ["setting.cameras"]),
    },
    over="films",
)
