"""The study of why the model stays below what its features can know, and by how far.

    make study CHAPTERS=recsys/wide_deep STUDY=map

Data, training or knowledge may be missing. The first two are tried: logs of several sizes, and
several rates for each. For the third the truth of the drawn world is asked: terms of the
utility are replaced by the best line through the features that are to tell of them.

A seed draws a world. Every score is of its last two days, after the last epoch: nothing is
learned or chosen on these. The rate of `model` is chosen on the days before, on the displays
that training has not.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import outbrain
import polars as pl
import torch
from click_features import paths, spec, with_polars
from helpers import device
from helpers.study import Arm, Metric, Outcome, Part, Study

from .batches import Batches, write_batches
from .loader import Loader
from .network import Sizes, WideDeep
from .ranking import map_at_k, popularity_scores
from .training import Options, Rows, evaluate, predict, whole
from .training import fit as trained

TOLD_BY = {  # a term of the utility: the numbers that are to tell of it
    "match": [name for name in spec.NUMBERS if name.startswith("sim_")],
    "quality": [name for name in spec.NUMBERS if name.endswith(("_ctr", "_count"))],
}
TOGETHER = ("platform", "state", "site")  # told by pairs of categories, by no number
LOGS, RATES = ("small", "middle", "large"), (0.001, 0.004, 0.016, 0.064)
CEILINGS = ("seen", "noisy", "alone", "noisy_match", "noisy_quality", "appeal")


class Asked(NamedTuple):
    """Rows of displays, and what is true of them: terms of the utility by name, (N,) each."""

    rows: dict
    truth: dict


def data_of(displays, folder, seed=0):
    """(World, train, valid) of a drawn log: click rates out of fold, data sets in memory."""
    world = outbrain.generate(folder / "raw", displays, seed)
    with_polars.build(folder / "raw", folder / "features", folds=5, check=False)
    sets = []
    for name in spec.SETS:
        write_batches(paths(folder / "features", name), folder / name, rows=65_536)
        sets.append(whole(Loader(Batches(folder / name), prefetch=0)))
    return world, *sets


def later(raw, display_id):
    """Which rows (N,), bool, are of displays after the last day that training has."""
    day = pl.col("timestamp") // outbrain.DAY_MS
    late = outbrain.scan(raw)["events"].filter(day > spec.TRAIN_DAYS)
    late = late.select(pl.col("display_id").cast(pl.Int64)).collect()
    return torch.isin(display_id, late["display_id"].to_torch())


def parts(seed, sizes):
    """What is learned from, chosen on (the days of training) and reported (later ones)."""
    found = {}
    for log in LOGS:
        with tempfile.TemporaryDirectory(prefix="log-") as folder:
            world, train, valid = data_of(sizes[log], Path(folder), seed)
            shown = world.rows(valid["display_id"].numpy(), valid["ad_id"].numpy())
            truth = {name: world.seen((name,))[shown] for name in TOLD_BY}
            truth |= {"seen": world.seen()[shown], "pairs": world.seen(TOGETHER)[shown]}
            truth["appeal"] = world.appeal[shown]
            late = later(Path(folder) / "raw", valid["display_id"])
        told = {f"train_{log}": train, f"choice_{log}": taken(valid, ~late)}
        asked = Asked(taken(valid, late), taken(truth, late.numpy()))
        found |= {name: Part(rows, displays(rows)) for name, rows in told.items()}
        found[f"test_{log}"] = Part(asked, displays(asked.rows))
    return found


def taken(columns, which):
    """The columns at some rows."""
    return {name: values[which] for name, values in columns.items()}


def displays(rows):
    """The numbers of the displays that rows are of."""
    return set(rows["display_id"].tolist())


def best_line(columns, wanted):
    """The least-squares line (N,) through columns (N, K) and a constant."""
    columns = np.column_stack([columns, np.ones(len(columns))])
    return columns @ np.linalg.lstsq(columns, wanted, rcond=None)[0]


def ceilings(rows, truth):
    """Scores (N,) by the names of `CEILINGS`: the terms that features see (`seen`); these
    through the features' noise; what numbers tell `alone`, without the terms of pairs; all.
    """
    numbers, told = rows["numbers"].double().numpy(), {}
    for term, names in TOLD_BY.items():
        line = best_line(numbers[:, [spec.NUMBERS.index(name) for name in names]], truth[term])
        told[term] = line - truth[term]
    seen, noisy = truth["seen"], truth["seen"] + sum(told.values())
    found = {"seen": seen, "noisy": noisy, "alone": noisy - truth["pairs"]}
    found |= {f"noisy_{term}": seen + change for term, change in told.items()}
    return found | {"appeal": truth["appeal"]}


def begin(word, job):
    """A new network; what needs none gets its word."""
    if word != "new":
        return word
    sizes = Sizes.published().scaled(dims=1 / 16, hidden=(64, 64))
    return WideDeep(sizes, sparse=True).to(device.device())


def fit(job):
    """A trained network; of several the one that ranks `choice` best; or what popularity is
    counted from."""
    if job.arm.choice:
        return max(job.start, key=lambda model: evaluate(model, job.choice))
    if job.start == "counts":
        return {name: job.train[name] for name in ("ad_id", "clicked")}
    place = next(job.start.parameters()).device
    rows = Rows(job.train, job.sizes["batch"], job.seed, place)
    one = taken(job.train, slice(1))  # it scores after each epoch, which nobody looks at
    trained(job.start, rows, one, replace(job.arm.loss, seed=job.seed))
    return job.start


def judge(made, asked, job):
    """MAP@12 as a point over displays, and, where it is told, as a number."""
    rows, setting = asked.rows, job.arm.setting
    if made == "truth":
        scores = torch.from_numpy(ceilings(*asked)[setting["of"]])
    elif isinstance(made, dict):
        scores = popularity_scores(made, rows, seed=0)
    else:
        scores = predict(made, rows).cpu()
    found = map_at_k(scores, rows["clicked"], rows["display_id"])
    point = {"point": [job.sizes[setting["log"]], found]}
    return point | {"map": found} if setting["log"] == "large" and not job.arm.loss else point


def arm(log, of, **more):
    """An arm that is judged on the reported days of a log."""
    return Arm(test=(f"test_{log}",), setting={"log": log, "of": of}, **more)


def name_of(log, of):
    """The arm of a log; those of the largest are named for what they are alone."""
    return of if log == "large" else f"{of}_{log}"


ARMS = {name_of(log, of): arm(log, of, start="truth") for log in LOGS for of in CEILINGS}
RATED = {f"rate {rate:g}": rate for rate in RATES}
for _log in LOGS:
    _train = {"train": f"train_{_log}"}
    ARMS[name_of(_log, "popularity")] = arm(_log, "popularity", start="counts", **_train)
    for _name, _rate in RATED.items():
        _how = Options(epochs=3, warmup_epochs=0.5, wide_lr=0.05, deep_lr=_rate)
        ARMS[name_of(_log, _name)] = arm(_log, "model", loss=_how, **_train)
ARMS["model"] = arm("large", "model", start=tuple(RATED), choice="choice_large")


def drawn(receipt, found):
    """Record the curves: means over the worlds, by displays of the log."""
    points = {
        name: np.mean([told["point"] for run in runs.values() for told in run.values()], 0)
        for name, runs in found.items()
    }
    shown = (*CEILINGS, "popularity")
    rows = {of: [points[name_of(log, of)][1] for log in LOGS] for of in shown}
    displays = [points[name_of(log, "seen")][0] for log in LOGS]
    receipt.curve("map_ceilings", displays=displays, **rows)
    trials = [
        (*points[name_of(log, name)], rate) for log in LOGS for name, rate in RATED.items()
    ]
    columns = zip(*trials, strict=True)
    receipt.curve("map_trials", **dict(zip(("displays", "map", "rate"), columns, strict=True)))


STUDY = Study(
    notebook="wide_deep",
    name="map",
    arms=ARMS,
    seeds=range(5),
    sizes={"small": 10_000, "middle": 30_000, "large": 100_000, "batch": 4096},
    trial={"small": 300, "middle": 400, "large": 500},
    metrics={"map": Metric("MAP@12")},
    parts=parts,
    begin=begin,
    fit=fit,
    judge=judge,
    outcomes={
        "map_lost_to_noise": Outcome("map", "seen", "noisy", ("setting.of",)),
        "map_left_to_learn": Outcome(
            "map", "noisy", "model", ("choice", "setting.of", "start")
        ),
    },
    extra=drawn,
    key="map_{arm}",
    over="worlds",
)
