"""The study: what each fault costs, and what the doctor's mends give back.

    make study CHAPTERS=vision/custom_detection STUDY=mends

A seed draws from `bccd`'s training and validation splits "old" photos, on which a network
worked, and "own" ones, new and perhaps faulty; all are judged on its test. Faults of labels lie
in what is learnt, those of photos in what is judged. A healed arm is handed the faulty photos
and the network that worked before, no word on what is wrong. Nothing of the test is learnt
from, but for the near-duplicates, whose fault that is.
"""

import atexit
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import average_precision
import cell_detector as cd
from helpers.study import Arm, Metric, Outcome, Part, Study, student

from . import doctor, faults
from .study_doctor import ask, splits

PLAIN = cd.Settings()
LABELS = ("rescaled", "shifted", "relabelled", "rescaled_relabelled")  # in what is learnt
PHOTOS = ("rotated", "profiled", "small", "larger", "rotated_profiled")  # in what is judged
WORN = ("blurred", "squeezed")  # mended by learning from such photos, too
TESTS = ("test", *WORN)
HEALED = {"healed": True}

ARMS = {"old": Arm(train="old", loss=PLAIN), "clean": Arm(train="own", loss=PLAIN, test=TESTS)}
for one in (*LABELS, "duplicated"):
    why = "that near-duplicates of the test are learnt from is the fault itself"
    more = {"start": "old", "loss": PLAIN, "shares": why if one == "duplicated" else ""}
    ARMS[one] = Arm(train=one, **more)
    ARMS[f"{one}_healed"] = Arm(train=one, setting=HEALED, **more)
for one in PHOTOS:
    ARMS[one] = Arm(start="clean", test=(one,))
    ARMS[f"{one}_healed"] = Arm(start="clean", test=(one,), setting=HEALED)
for one in WORN:
    ARMS[f"{one}_learnt"] = Arm(train="own", loss=cd.Settings(**{one: True}), test=TESTS)

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


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """Old and own photos, drawn anew, the test; what each fault makes of own or test photos."""
    known, test = splits(seed)
    old, own = known[: sizes["old"]], known[sizes["old"] :][: sizes["own"]]
    test = test[: sizes["test"]]
    folder = Path(tempfile.mkdtemp(prefix=f"faults{seed}_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = {"old": old, "own": own, "test": test}
    for name in (*LABELS, "duplicated"):
        made[name] = faults.planted(name, own, folder / name, seed, {"of": test})
    for name in (*PHOTOS, *WORN):
        made[name] = faults.planted(name, test, folder / name, seed)
    stems = {name: test if name in (*PHOTOS, *WORN) else of for name, of in made.items()}
    return {
        name: Part((photos, old, test), [one.file.stem for one in stems[name]])
        for name, photos in made.items()
    }


def fit(job):
    """A network trained anew on the arm's photos; of a healed arm, after the doctor's visit."""
    (photos, old, test), loading = job.train, cd.Loading()
    if job.arm.setting.get("healed"):
        photos, loading, *_ = doctor.heal(photos, loading, old, ask(job.start), against=test)
    settings = replace(job.arm.loss, epochs=job.sizes["epochs"])
    return cd.train(cd.samples(photos, loading), settings, job.seed)


def judge(net, part: tuple, job) -> dict:
    """AP and AP50. A healed arm loads the photos as the doctor says; the truth stays as it was
    brought, whatever the doctor would make of it.
    """
    (photos, old, _), loading = part, cd.Loading()
    if job.arm.setting.get("healed") and not job.arm.train:
        loading = doctor.heal(photos, loading, old, ask(net))[1]
    scores = average_precision.evaluate(photos, cd.answers(net, photos, loading))
    return {"ap": scores["AP"], "ap50": scores["AP50"]}


def costs(receipt, found: dict) -> None:
    """Record what each fault costs: the AP of the clean arm on the clean test less that of the
    faulty, paired by seed; above zero it costs.
    """
    clean = {seed: one["test"]["ap"] for seed, one in found["clean"].items()}
    for name in (*LABELS, *PHOTOS, "duplicated", *WORN):
        arm, part = ("clean", name) if name in WORN else (name, ARMS[name].test[0])
        lost = [clean[seed] - one[part]["ap"] for seed, one in found[arm].items()]
        mean, low, high = student(lost)
        told = (low, high, len(lost), "mean over draws")
        interval = None if low is None else "95 %"
        receipt.record(f"study_cost_of_{name}", mean, "AP", *told, interval=interval)


STUDY = Study(
    notebook="custom_detection",
    name="mends",
    arms=ARMS,
    seeds=range(3),
    sizes={"old": 87, "own": 160, "test": 72, "epochs": 24},
    trial={"old": 4, "own": 12, "test": 9, "epochs": 1},
    metrics={"ap": Metric("AP"), "ap50": Metric("AP")},
    parts=parts,
    fit=fit,
    judge=judge,
    outcomes=OUTCOMES,
    extra=costs,
    key="study_{arm}_{part}_{metric}",
    over="draws of old and own photos",
)
