"""Decoders of many sizes and kinds, each with the same steps and crops of the bansuri's phrases
and its own best rate; and one with RMS in place of loudness.

    make study CHAPTERS=speech/tone_transfer STUDY=sizes

`smaller_at_no_loss`: the paper's weights over the fewest of a decoder whose loss less the
paper's, at 95 % over seeds, is at most the margin: half of the paper's own interval over seeds.
Half of the held-out phrases choose that decoder; by how much it is off (`smaller_gap`) the
others say, the witness. 1 where there is none. Rates are chosen on the training phrases.
"""

from statistics import fmean
from typing import NamedTuple

import torch
from helpers.study import Arm, Metric, Outcome, Part, Study, student
from instrument_sounds import rendering as ins
from tone_decoder import networks as td
from tone_decoder import training as tt

KINDS = ("paper", "tiny", "conv64", "gru64", "conv16")
RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)  # one of them for each, by a third of the steps
TRIAL_SEED, TAIL = 99, 20  # of that trial, whose last steps are compared


class Taught(NamedTuple):
    """A decoder, the rate that taught it, and its losses on the phrases that choose a size."""

    decoder: torch.nn.Module
    rate: float
    choosing: list


def phrases(name, seeds):
    """The `Part` of an instrument's rendered phrases: sounds; its units are the phrases' seeds,
    which draw the same steps for every instrument.
    """
    return Part([ins.tensor(ins.rendered(name, seed)) for seed in seeds], list(seeds))


def heard(sounds, energy="loudness"):
    """The recordings of a part's sounds."""
    return [tt.recording(sound, energy) for sound in sounds]


def parts(seed, sizes):
    """Phrases of the bansuri that train, that choose a size, and that witness the choice."""
    first, half = ins.HELD_OUT, sizes["held_out"] // 2
    seeds = {"train": range(sizes["phrases"]), "choosing": range(first, first + half)}
    seeds["witness"] = range(first + half, first + 2 * half)
    return {name: phrases("bansuri", some) for name, some in seeds.items()}


def begin(word, job):
    """A new decoder of the arm's kind."""
    return tt.new_decoder(job.arm.setting["kind"], job.seed)


def fit(job):
    """The decoder, taught at its best rate; it is judged on the phrases that choose a size, but
    learns nothing from them.
    """
    energy = job.arm.setting["energy"]
    train, choosing = heard(job.train, energy), heard(job.choice, energy)
    rate = min(job.arm.loss["rates"], key=lambda rate: _trial(job, train, rate))
    tt.train(job.start, train, job.sizes["steps"], job.sizes["batch"], job.seed, rate)
    return Taught(job.start, rate, tt.judged(job.start, choosing).tolist())


def _trial(job, train, rate):
    """The loss at the end of a short training; without end where that diverges."""
    decoder = tt.new_decoder(job.arm.setting["kind"], TRIAL_SEED)
    steps = max(1, job.sizes["steps"] // 3)
    try:
        losses = tt.train(decoder, train, steps, job.sizes["batch"], TRIAL_SEED, rate)
    except FloatingPointError:
        return float("inf")
    return float(losses[-TAIL:].mean())


def judge(made, witness, job):
    """The loss over all held-out phrases, the rate, and the losses of either half."""
    losses = tt.judged(made.decoder, heard(witness, job.arm.setting["energy"])).tolist()
    found = {"loss": fmean(made.choosing + losses), "rate": made.rate}
    return found | {"choosing": made.choosing, "witness": losses}


def by_seed(found, kind, half):
    """A kind's mean loss on one half of the held-out phrases, a list by seed."""
    return [fmean(scores["witness"][half]) for scores in found[kind].values()]


def gaps(found, kind, half):
    """The same less the paper's."""
    pairs = zip(by_seed(found, kind, half), by_seed(found, "paper", half), strict=True)
    return [one - paper for one, paper in pairs]


def weights(kind):
    """How many weights a decoder of that kind has."""
    return td.count(tt.new_decoder(kind))


def smallest(found):
    """(the kind with the fewest weights that is no worse than the paper's, the margin)."""
    mean, _, high = student(by_seed(found, "paper", "choosing"))
    margin = high - mean
    fits = [kind for kind in KINDS if student(gaps(found, kind, "choosing"))[2] <= margin]
    return min(fits, key=weights), margin


def extra(receipt, found):
    """None; records the smallest decoder that is no worse, and half the length of intervals."""
    best, margin = smallest(found)
    receipt.record("smaller_at_no_loss", weights("paper") / weights(best), "×")
    receipt.record("smaller_margin", margin, "loss")
    gap = gaps(found, best, "witness")
    note = "mean over seeds, 95 % interval"
    receipt.record("smaller_gap", *_ends(gap), len(gap), note, interval="95 %")
    for name in (*(f"size_{kind}_loss" for kind in KINDS), "smaller_gap", "rms_gap"):
        one = receipt.metrics[name]
        receipt.record(f"{name.removesuffix('_loss')}_half", one["high"] - one["value"], "loss")


def _ends(values):
    mean, low, high = student(values)
    return mean, "loss", low, high


def _arm(kind, energy="loudness"):
    setting = {"kind": kind, "energy": energy}
    held = {"choice": "choosing", "test": ("witness",)}
    return Arm(train="train", **held, loss={"rates": RATES}, setting=setting)


STUDY = Study(
    notebook="tone_transfer",
    name="sizes",
    arms={kind: _arm(kind) for kind in KINDS} | {"rms": _arm("conv64", "rms")},
    seeds=range(3),
    metrics={"loss": Metric("loss"), "rate": Metric("a step")},
    key="size_{arm}_{metric}",
    outcomes={
        "size_tiny_gap": Outcome("loss", "tiny", "paper", ("setting.kind",)),
        "rms_gap": Outcome("loss", "rms", "conv64", ("setting.energy",)),
    },
    sizes={"steps": 360, "batch": 2, "phrases": 10, "held_out": 10},
    trial={"steps": 3, "batch": 1, "phrases": 2, "held_out": 4},
    parts=parts,
    begin=begin,
    fit=fit,
    judge=judge,
    extra=extra,
)
