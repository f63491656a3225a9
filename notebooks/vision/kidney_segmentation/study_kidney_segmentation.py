"""The study: what overlap and the Gaussian are worth, what int8 keeps, and what a range of
Hounsfield units does without a network.

    make study CHAPTERS=vision/kidney_segmentation STUDY=windows

A seed draws the phantoms and starts the network. Six cases train, one calibrates, one tests;
all ways of adding windows take the same network of the seed. One patient's labels are scored,
so the intervals speak of phantoms and starts, not of patients.
"""

from dataclasses import dataclass

import ct_phantom as cp
import dice
import kidney_int8 as k8
import kidney_unet as ku
import sliding_windows as sw
from helpers import data
from helpers.study import Arm, Metric, Outcome, Part, Study
from window_errors import WAYS

WINDOW = 32


@dataclass(frozen=True)
class Recipe:
    """How a network is trained."""

    rate: float = 5e-3
    batch: int = 2


def way(name: str) -> dict:
    """The setting of one of `WAYS`."""
    overlap, root = WAYS[name]
    return {"overlap": overlap, "root": root}


ARMS = {
    "trained": Arm(train="training", loss=Recipe(), setting=way("gaussian, half")),
    "none": Arm(start="trained", setting=way("side by side")),
    "constant": Arm(start="trained", setting=way("constant, half")),
    "half": Arm(start="trained", setting=way("gaussian, half")),
    "plain": Arm(start="trained", setting=way("plain gaussian, half")),
    "three_quarters": Arm(start="trained", setting=way("gaussian, three quarters")),
    "int8": Arm(start="trained", choice="calibration", setting=way("gaussian, half")),
    "threshold": Arm(start="hounsfield", setting=way("gaussian, half")),
}


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """The cases with phantoms of this seed; units are the patients whose labels they are."""
    folder = data.fetch("kits19", ["*.nii.gz"])

    def cases(names, draws, first):
        return [
            cp.reduced(
                cp.drawn(folder, name, 10_000 * first + 100 * seed + draw, sizes["thinned"]),
                WINDOW,
                overlap=0.0,
                times=sizes["voxels"],
            )
            for name in names
            for draw in range(draws)
        ]

    training = cp.TRAINING[: sizes["cases"]]
    return {
        "training": Part(cases(training, sizes["draws"], 1), list(training)),
        "calibration": Part(cases([cp.CALIBRATION], 1, 2), [cp.CALIBRATION]),
        "test": Part(cases([cp.TEST], sizes["draws"], 3), [cp.TEST]),
    }


def fit(job):
    """A network from the training cases, or the integers of one by its calibration case."""
    if job.choice is not None:
        cuts = [cut for scan, _ in job.choice for cut in windows_of(scan)]
        return k8.Integers(job.start, k8.ranges(job.start, cuts))
    recipe = job.arm.loss
    steps = job.sizes["steps"]
    net, _ = ku.trained(job.train, steps, job.seed, recipe.batch, WINDOW, recipe.rate)
    return ku.folded(net)


def windows_of(scan) -> list:
    """The windows of a scan that are not mostly air, for calibration."""
    starts = sw.starts_of(scan.shape, WINDOW, WINDOW // 2)
    cuts = [scan[z : z + WINDOW, y : y + WINDOW, x : x + WINDOW] for z, y, x in starts]
    return [cut[None, None] for cut in cuts if (cut > -2).float().mean() > 0.3]


def judge(made, cases: list, job) -> dict:
    """Mean Dice over the test's phantoms, each segmented in the arm's way."""
    found = []
    for scan, labels in cases:
        if made == "hounsfield":
            classes = ku.threshold(scan)
        else:
            classes = sw.segment(scan, made, WINDOW, **job.arm.setting)
        found.append(dice.by_class(classes, labels))
    kidney, tumour = (sum(one) / len(one) for one in zip(*found, strict=True))
    return {"kidney": kidney, "tumour": tumour, "mean": (kidney + tumour) / 2}


def gain(arm: str, less: str, *differs: str, metric: str = "mean") -> Outcome:
    """One arm's Dice less another's."""
    return Outcome(metric, arm, less, list(differs))


OVERLAP, ROOT = "setting.overlap", "setting.root"
STUDY = Study(
    notebook="kidney_segmentation",
    name="windows",
    arms=ARMS,
    seeds=range(5),
    sizes={
        "steps": ku.STEPS,
        "draws": 2,
        "cases": 6,
        "thinned": cp.THINNED,
        "voxels": cp.REDUCED,
    },
    trial={"steps": 2, "draws": 1, "cases": 1, "thinned": 8, "voxels": 9},
    metrics={"kidney": Metric("Dice"), "tumour": Metric("Dice"), "mean": Metric("Dice")},
    parts=parts,
    begin=lambda word, job: word,
    fit=fit,
    judge=judge,
    outcomes={
        "study_half_over_none": gain("half", "none", OVERLAP, ROOT),
        "study_constant_over_none": gain("constant", "none", OVERLAP),
        "study_gaussian_over_constant": gain("half", "constant", ROOT),
        "study_root_over_plain": gain("half", "plain", ROOT),
        "study_three_quarters_over_half": gain("three_quarters", "half", OVERLAP),
        "study_network_over_threshold": gain("half", "threshold", "start"),
        "study_int8_over_float": Outcome(
            "mean", "int8", "half", ["choice"], ratio=True, unit="×"
        ),
    },
    over="draws of phantoms and starts",
)
