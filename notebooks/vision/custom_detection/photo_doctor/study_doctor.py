"""The study: what each fault costs, and what the doctor's mends give back.

    make study CHAPTERS=vision/custom_detection STUDY=doctor

A seed draws who is who: "old" photos, on which a network worked; "own" photos, new and perhaps
faulty; and a test. Faults of labels lie in what is learnt, those of photos in what is judged. A
healed arm is handed the faulty photos and the network that worked before, no word on what is
wrong. Nothing of the test is learnt from, but for the near-duplicates, whose fault that is.
"""

import atexit
import shutil
import tempfile
from pathlib import Path

import annotations
import average_precision
import cell_detector as cd
import numpy as np
from helpers import data
from helpers.study import Arm, Metric, Outcome, Part, Study, student

from . import doctor, faults

PLAIN = cd.Settings()
LABELS = (
    "rescaled",
    "shifted",
    "relabelled",
    "rescaled_relabelled",
)  # faults of what is learnt
PHOTOS = (
    "rotated",
    "profiled",
    "small",
    "larger",
    "rotated_profiled",
)  # faults of what is judged
WORN = ("blurred", "squeezed")  # mended by learning from such photos, too
KNOWN = {"small": {"small", "larger"}, "duplicated": {"duplicated"}}
TESTS = ("test", *WORN)
HEALED = {"healed": True}

ARMS = {"old": Arm(train="old", loss=PLAIN), "clean": Arm(train="own", loss=PLAIN, test=TESTS)}
ARMS["clean_healed"] = Arm(train="own", start="old", loss=PLAIN, setting=HEALED, test=("test",))
for one in LABELS:
    ARMS[one] = Arm(train=one, start="old", loss=PLAIN)
    ARMS[f"{one}_healed"] = Arm(train=one, start="old", loss=PLAIN, setting=HEALED)
for one in PHOTOS:
    ARMS[one] = Arm(start="clean", test=(one,))
    ARMS[f"{one}_healed"] = Arm(start="clean", test=(one,), setting=HEALED)
for one in WORN:
    ARMS[f"{one}_learnt"] = Arm(train="own", loss=cd.Settings(**{one: True}), test=TESTS)
WHY = "that near-duplicates of the test are learnt from is the fault itself"
ARMS["duplicated"] = Arm(train="duplicated", start="old", loss=PLAIN, shares=WHY)
ARMS["duplicated_healed"] = Arm(
    train="duplicated", start="old", loss=PLAIN, setting=HEALED, shares=WHY
)

OUTCOMES = {
    f"study_gain_of_{one}": Outcome("ap", f"{one}_healed", one, ["setting.healed"])
    for one in (*LABELS, *PHOTOS, "duplicated")
}
for one in WORN:
    learnt = ("ap", f"{one}_learnt", "clean", [f"loss.{one}"])
    OUTCOMES |= {
        f"study_gain_of_{one}": Outcome(*learnt, part=one),
        f"study_price_of_{one}": Outcome(*learnt, part="test"),
    }


def planted(name: str, photos: list, folder: Path, seed: int) -> list:
    """Photos with the faults of an arm's name, in their order."""
    for each in name.split("_"):
        photos = faults.FAULTS[each](photos, folder / name / each, seed)
    return photos


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """Old, own and test photos, drawn anew; what each fault makes of own or test photos."""
    every = annotations.read(data.fetch("bccd"))
    order = np.random.default_rng(seed).permutation(len(every)).tolist()
    counts = [sizes[name] for name in ("old", "own", "test")]
    ends = np.cumsum(counts).tolist()
    old, own, test = (
        [every[at] for at in order[end - n : end]] for n, end in zip(counts, ends, strict=True)
    )
    folder = Path(tempfile.mkdtemp(prefix=f"faults{seed}_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = {"old": old, "own": own, "test": test}
    made |= {name: planted(name, own, folder, seed) for name in LABELS}
    made |= {name: planted(name, test, folder, seed) for name in (*PHOTOS, *WORN)}
    made["duplicated"] = faults.duplicated(own, folder / "duplicated", seed, of=test)
    found = {}
    for name, photos in made.items():
        of = test if name in (*PHOTOS, *WORN) else photos
        found[name] = Part((photos, old, test), [one.file.stem for one in of])
    return found


def ask(net):
    """How the doctor asks a network."""
    return lambda photos, loading: cd.answers(net, photos, loading)


def fit(job) -> tuple:
    """(a network trained anew on the arm's photos, what the doctor found in them and in
    nothing else).
    """
    photos, old, test = job.train
    loading, findings = cd.Loading(), []
    if job.arm.setting.get("healed"):
        photos, loading, findings, _ = doctor.heal(
            photos, loading, old, ask(job.start[0]), against=test
        )
    settings = cd.Settings(**{**vars(job.arm.loss), "epochs": job.sizes["epochs"]})
    return cd.train(cd.samples(photos, loading), settings, job.seed), findings


def judge(made: tuple, part: tuple, job) -> dict:
    """AP and AP50; of the planted faults the share that the doctor named, and how many
    others it named.
    """
    (net, findings), (photos, old, _) = made, part
    loading, healed = cd.Loading(), bool(job.arm.setting.get("healed"))
    if healed and not job.arm.train:
        photos, loading, findings, _ = doctor.heal(photos, loading, old)
    scores = average_precision.evaluate(photos, cd.answers(net, photos, loading))
    name = job.name.removesuffix("_healed")
    wanted = set() if name == "clean" else KNOWN.get(name, set(name.split("_")))
    told = {one.fault for one in findings} if healed else set()
    found = len(told & wanted) / len(wanted) if wanted and healed else 0.0
    return {
        "ap": scores["AP"],
        "ap50": scores["AP50"],
        "found": found,
        "alarms": float(len(told - wanted)),
    }


def costs(receipt, found: dict) -> None:
    """Record what each fault costs: the AP of the clean arm on the clean test less that of
    the faulty, paired by seed; above zero it costs. And the shares over all healed arms:
    planted faults found, others named, alarms on clean sets.
    """
    clean = {seed: one["test"]["ap"] for seed, one in found["clean"].items()}
    for name in (*LABELS, *PHOTOS, "duplicated"):
        (part,) = ARMS[name].test
        lost = [clean[seed] - one[part]["ap"] for seed, one in found[name].items()]
        put(receipt, f"study_cost_of_{name}", lost, "AP")
    for name in WORN:
        put(
            receipt,
            f"study_cost_of_{name}",
            [clean[s] - one[name]["ap"] for s, one in found["clean"].items()],
            "AP",
        )
    healed = {
        name: runs
        for name, runs in found.items()
        if name.endswith("_healed") and name != "clean_healed"
    }
    for metric, unit in (("found", "share"), ("alarms", "findings")):
        seeds = [
            [next(iter(runs[seed].values()))[metric] for runs in healed.values()]
            for seed in clean
        ]
        put(receipt, f"study_{metric}", [float(np.mean(one)) for one in seeds], unit)


def put(receipt, name: str, values: list, unit: str) -> None:
    """Record a mean over the seeds with its 95 % interval."""
    mean, low, high = student(values)
    receipt.record(
        name,
        mean,
        unit,
        low,
        high,
        len(values),
        "mean over draws",
        interval=low if low is None else "95 %",
    )


STUDY = Study(
    notebook="custom_detection",
    name="doctor",
    arms=ARMS,
    seeds=range(3),
    sizes={"old": 87, "own": 205, "test": 72, "epochs": 24},
    trial={"old": 4, "own": 6, "test": 9, "epochs": 1},
    metrics={
        "ap": Metric("AP"),
        "ap50": Metric("AP"),
        "found": Metric("share"),
        "alarms": Metric("findings"),
    },
    parts=parts,
    fit=fit,
    judge=judge,
    outcomes=OUTCOMES,
    extra=costs,
    key="study_{arm}_{part}_{metric}",
    over="draws of old, own and test photos",
)
