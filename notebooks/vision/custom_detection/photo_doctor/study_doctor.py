"""The study: which planted faults the doctor names, alone and in twos, and how often it finds
some where none is.

    make study CHAPTERS=vision/custom_detection STUDY=doctor

A seed draws the old photos, on which a network worked, and cuts the others into sets of nine;
each set is brought clean, with each fault, and with two. "seen": photos of `bccd`'s training
and validation splits, on which the doctor's limits were set; "unseen": its test. Seeds draw the
same photos again, so an interval counts the sets of one seed alone.
"""

import tempfile
from pathlib import Path

import annotations
import cell_detector as cd
import numpy as np
from helpers import data
from helpers.study import Arm, Metric, Part, Study

from . import doctor, faults

PAIRS = ("rescaled_relabelled", "rotated_profiled", "rotated_shifted", "squeezed_relabelled")
WIDER = {"larger"}  # what a wider view is besides, and rightly named
VISITS = ("clean", *faults.FAULTS, *PAIRS)


def splits(seed: int) -> tuple[list, list]:
    """The photos of `bccd` in an order of the seed: (training and validation, test)."""
    every, draw = annotations.read(data.fetch("bccd")), np.random.default_rng(seed)
    every = [every[at] for at in draw.permutation(len(every))]
    return tuple([one for one in every if (one.split == "test") == side] for side in (0, 1))


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """Old photos; sets of others that are seen, and of the test."""
    known, test = splits(seed)
    old, others, each = known[: sizes["old"]], known[sizes["old"] :], sizes["each"]
    found = {"old": Part(old, [one.file.stem for one in old])}
    for name, photos in (("seen", others), ("unseen", test)):
        cuts = [photos[at : at + each] for at in range(0, each * sizes["sets"], each)]
        sets = [one for one in cuts if len(one) == each]
        found[name] = Part((sets, old), [photo.file.stem for one in sets for photo in one])
    return found


def fit(job):
    """The network that worked on the old photos."""
    settings = cd.Settings(epochs=job.sizes["epochs"])
    return cd.train(cd.samples(job.train), settings, job.seed)


def wanted(visit: str) -> set:
    """The faults of a visit."""
    return set() if visit == "clean" else set(visit.split("_"))


def judge(net, part: tuple, job) -> dict:
    """The share of planted faults named; of clean sets that are called faulty, and of faulty
    ones in which something else is named; and the first two by visit and set.
    """
    (sets, old), named = part, {}
    with tempfile.TemporaryDirectory() as folder:
        for visit in VISITS:
            named[visit] = []
            for at, photos in enumerate(sets):
                into, more = Path(folder, visit, str(at)), {"of": old[: len(photos) // 3]}
                if visit != "clean":
                    photos = faults.planted(visit, photos, into, job.seed, more)
                findings = doctor.heal(photos, cd.Loading(), old, ask(net), old)[2]
                named[visit].append({one.fault for one in findings})
    hits = {
        visit: [len(told & wanted(visit)) / len(wanted(visit)) for told in every]
        for visit, every in named.items()
        if visit != "clean"
    }
    odd = {
        visit: [
            bool(told - wanted(visit) - (WIDER if "small" in visit else set()))
            for told in every
        ]
        for visit, every in named.items()
    }
    return {
        "found": float(np.mean([*hits.values()])),
        "alarms": float(np.mean(odd["clean"])),
        "others": float(np.mean([odd[visit] for visit in hits])),
        "hits": {visit: float(np.mean(own)) for visit, own in hits.items()},
        "sets": [len(one) for one in sets],
    }


def ask(net):
    """How the doctor asks a network."""
    return lambda photos, loading: cd.answers(net, photos, loading)


def wilson(share: float, count: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share of so many independent trials (Wilson 1927)."""
    middle = (share + z**2 / 2 / count) / (1 + z**2 / count)
    half = z * np.sqrt(share * (1 - share) / count + (z / 2 / count) ** 2) / (1 + z**2 / count)
    return float(max(0, middle - half)), float(min(1, middle + half))


def shares(receipt, found: dict) -> None:
    """Record the shares of the unseen sets, over all faults and by fault, and of false alarms
    on the seen ones beside them.
    """
    told = {part: [one[part] for one in found["old"].values()] for part in ("seen", "unseen")}
    rows = {metric: [one[metric] for one in told["unseen"]] for metric in ("found", "alarms")}
    rows |= {
        f"found_{visit}": [one["hits"][visit] for one in told["unseen"]] for visit in VISITS[1:]
    }
    rows["alarms_seen"] = [one["alarms"] for one in told["seen"]]
    for name, values in rows.items():
        share, count = float(np.mean(values)), len(told["unseen"][0]["sets"])
        words = f"share, over {len(values)} draws of the same {count} sets' photos"
        ends = wilson(share, count)
        receipt.record(f"study_{name}", share, "share", *ends, count, words, interval="95 %")


STUDY = Study(
    notebook="custom_detection",
    name="doctor",
    arms={"old": Arm(train="old", loss=cd.Settings(), test=("seen", "unseen"))},
    seeds=range(5),
    sizes={"old": 87, "each": 9, "sets": 8, "epochs": 24},
    trial={"old": 9, "sets": 1, "epochs": 1},
    metrics={name: Metric("share") for name in ("found", "alarms", "others")},
    parts=parts,
    fit=fit,
    judge=judge,
    extra=shares,
    key="study_{arm}_{part}_{metric}",
    over="draws of old photos and of sets",
)
