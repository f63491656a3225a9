"""The study: a work group chosen by one time of each candidate, as the delegate does, by the
median of several, by a rule, or by none; judged on times that no choice saw.

    make study CHAPTERS=training/opencl_inference STUDY=tuning

A seed draws the times anew. All arms are judged on the same later rounds of all candidates.
"""

import functools
import statistics

import group_tuner
import slice_kernels
import torch
import work_groups
from helpers.study import Arm, Metric, Outcome, Part, Study

# Layers of the classifier at its full size: form, inputs, outputs, sides of kernel and image.
LAYERS = {
    "narrow_28": ("sliced", 192, 32, 1, 28),
    "narrow_14": ("sliced", 384, 64, 1, 14),
    "widen_7": ("sliced", 160, 960, 1, 7),
    "filter_14": ("depthwise", 384, 384, 3, 14),
}
LIMIT = 256  # items a group, as phones' kernels allow; a processor's driver would take more
MARGIN = 1.1  # a choice is wrong that takes more than this times the best
ARMS = {
    "single": Arm(train="trials", loss="single"),
    "median": Arm(train="trials", loss="median"),
    "rule": Arm(loss="rule"),
    "default": Arm(loss="default"),
}


@functools.cache
def device():
    """The OpenCL device of this process; RuntimeError without one: torch has no events."""
    found, why = slice_kernels.open_device()
    if why:
        raise RuntimeError(f"{why}; this study needs OpenCL")
    return found


@functools.cache
def task(name):
    """(run, grid) of a layer: `run(group)` returns its kernel's seconds."""
    form, inputs, outputs, side, size = LAYERS[name]
    chance = torch.Generator().manual_seed(0)
    depth = 1 if form == "depthwise" else inputs
    weights = torch.randn(outputs, depth, side, side, generator=chance)
    image = torch.randn(inputs, size, size, generator=chance)
    layer = device().layer(weights, torch.zeros(outputs), pad=side // 2, form=form)
    held = device().put(image)
    return lambda group: device().run(layer, held, group)[1](), (size, size, -(-outputs // 4))


def measured(name, rounds, most=None):
    """{group: seconds by round} of a layer's candidates with the rule's and the default."""
    run, grid = task(name)
    groups = [*work_groups.candidates(grid, LIMIT)[:most], ruled(name), work_groups.DEFAULT]
    return group_tuner.times(run, dict.fromkeys(groups), rounds)


@functools.cache
def warmed(name, most):
    """None, once each candidate has run: what a driver compiles is not what is chosen by."""
    measured(name, 1, most)


def ruled(name):
    """The group that the delegate's rule guesses for a layer."""
    form, _, outputs, _, size = LAYERS[name]
    rule = work_groups.fast if form == "depthwise" else work_groups.conv_fast
    return rule((size, size, -(-outputs // 4)), LIMIT)


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """Times of the first rounds to choose by, and of later ones to judge by."""
    trials, held = {}, {}
    for name in list(LAYERS)[: sizes["layers"]]:
        warmed(name, sizes["most"])
        seconds = measured(name, sizes["trials"] + sizes["held"], sizes["most"])
        trials[name] = {group: times[: sizes["trials"]] for group, times in seconds.items()}
        held[name] = {group: times[sizes["trials"] :] for group, times in seconds.items()}
    names = [f"round {seed} {at}" for at in range(sizes["trials"] + sizes["held"])]
    return {
        "trials": Part(trials, names[: sizes["trials"]]),
        "test": Part(held, names[sizes["trials"] :]),
    }


def fit(job) -> dict:
    """{layer: group} by the arm's way of choosing."""
    names = list(LAYERS)[: job.sizes["layers"]]
    if job.arm.loss == "rule":
        return {name: ruled(name) for name in names}
    if job.arm.loss == "default":
        return dict.fromkeys(names, work_groups.DEFAULT)
    first = 1 if job.arm.loss == "single" else None
    return {name: group_tuner.choose(job.train[name], first) for name in names}


def judge(made: dict, data: dict, job) -> dict:
    """How much slower the choices are than the best, how often by more than a tenth, and how
    much faster than the mean candidate; the most for any layer, too.
    """
    slower, gains = [], []
    for name, group in made.items():
        own = statistics.median(data[name][group])
        found = group_tuner.spread(data[name])
        slower.append(own / found["best"])
        gains.append(found["mean"] / own)
    return {
        "slowdown": statistics.fmean(slower),
        "wrong": 100 * sum(one > MARGIN for one in slower) / len(slower),
        "gain": statistics.fmean(gains),
        "most": max(gains),
    }


STUDY = Study(
    notebook="opencl_inference",
    name="tuning",
    arms=ARMS,
    seeds=range(10),
    sizes={"trials": 5, "held": 9, "layers": len(LAYERS), "most": None},
    trial={"trials": 2, "held": 2, "layers": 1, "most": 2},
    metrics={
        "slowdown": Metric("of the best"),
        "wrong": Metric("%"),
        "gain": Metric("×"),
        "most": Metric("×"),
    },
    parts=parts,
    fit=fit,
    judge=judge,
    outcomes={
        "study_single_wrong_more": Outcome("wrong", "single", "median", ["loss"]),
        "study_single_slower": Outcome("slowdown", "single", "median", ["loss"]),
    },
    over="repeats of the tuning",
    threads=2,
)
