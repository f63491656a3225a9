"""Each row of the table as an arm: the four systems, both with a crop of the mouth, what bounds
them and what controls them, over seeds; and two of them once more, trained ten times longer.

    make study CHAPTERS=speech/visual_tts STUDY=systems     # and STUDY=longer

A step that sees costs twice one that only reads; so that all systems have about one time on a
core, those that read get more steps. Each seed makes its own voice vector and its own judge,
so that no interval rests on one judge; the judge's speakers are neither trained on nor tested.
Tested speakers and faces are new, their sentences are drawn from the same twelve words: many of
them also occur in training.

Is pitch learned? Two buzzes bound it, of one pitch each: "one pitch for all" knows not even who
speaks, "one pitch" does. `pitch_learned` says what a gross pitch error, in the mean over seeds,
is worth beside theirs; it was fixed before `longer` was run. Where "both" has learned no pitch,
its gain over text with length is undecided, whatever its sign: `longer_pitch_gain`.
"""

from dataclasses import replace

import numpy as np
import torch
from helpers.study import Arm, Metric, Outcome, Part, Study
from speech_scores import recogniser, train_scorer
from talking_faces import WORDS, split

from .dubbing import BOUNDS, ROWS, pitch_learned, row_of, scores_of
from .model import SYSTEMS
from .training import mel_of, prepare, train
from .voice_vector import train_voices

SHARED = ("voices", "scorer")  # what each row needs: a speaker's vector, and its judge
MISSING = -1.0  # in a curve, where a row has no frame to score
METRICS = {"distance": Metric("points"), "offset": Metric("frames"), "minutes": Metric("min")}
METRICS |= {"mcd": Metric("dB"), "mcd_warped": Metric("dB")}
METRICS |= {name: Metric("%", 100) for name in ("silence", "words", "recognised", "gpe", "ffe")}


def parts(seed, sizes):
    """Clips of three groups of speakers; their units are eSpeak's variants. From seed to seed
    only the tested clips differ.
    """
    drawn = {"train": (sizes["clips"], 1), "sync": (sizes["sync"], 5)}
    made = split(**drawn, test=(sizes["test"], 100 + seed))
    units = {name: [clip.voice.variant for clip in clips] for name, clips in made.items()}
    return {name: Part(clips, units[name]) for name, clips in made.items()}


def fit(job):
    """The voice vector, the judge, or (a system, voices, judge)."""
    steps = job.sizes[job.arm.loss["steps"]]
    if job.name == "voices":
        speakers = [clip.speaker for clip in job.train]
        mels = [mel_of(clip) for clip in job.train]
        return train_voices(mels, speakers, steps, seed=job.seed)[0]
    if job.name == "scorer":
        films = [torch.from_numpy(clip.face_THW) for clip in job.train]
        mels = [mel_of(clip) for clip in job.train]
        items = [{"video": film, "mel": mel} for film, mel in zip(films, mels, strict=True)]
        return train_scorer(items, steps, seed=job.seed)[0]
    _, voices, scorer = job.start
    items = prepare(job.train, voices, job.arm.setting["view"])
    system, batch = job.arm.setting["system"], job.sizes["batch"]
    return train(system, items, steps, job.seed, batch)[0], voices, scorer


def judge(made, clips, job):
    """Means over clips of METRICS, of offsets by amount; of what learned, also its minutes."""
    *model, voices, scorer = made
    items = prepare(clips, voices, job.arm.setting.get("view", "face"))
    dubs, lengths = row_of(job.name, clips, items, *model)
    given, hear = zip(dubs, clips, lengths, strict=True), recogniser(WORDS, 3)
    each = [scores_of(sound, clip, scorer, length, hear) for sound, clip, length in given]
    names = [name for name in METRICS if name in each[0]]
    found = {name: _mean([abs(one[name]) for one in each]) for name in names}
    return found | ({"minutes": model[0].seconds / 60} if job.arm.loss else {})


def _mean(values):
    """The mean of those that are finite: a row that is voiced nowhere has no pitch error."""
    finite = [value for value in values if np.isfinite(value)]
    return float(np.mean(finite)) if finite else float("nan")


def extra(receipt, found):
    """None; records the curve "rows": METRICS by row and seed, MISSING where there is none."""
    at = [(row, seed) for row in ROWS for seed in found.get(row, {})]
    scores = [found[row][seed]["test"] for row, seed in at]
    columns = {"row": [ROWS.index(row) for row, _ in at], "seed": [seed for _, seed in at]}
    for name in METRICS:
        values = np.array([one.get(name, np.nan) for one in scores])
        columns[name] = np.nan_to_num(values, nan=MISSING).tolist()
    receipt.curve("rows", **columns)


def pitch_gain(receipt, found):
    """None; records the curve, and what both gains in pitch: with zero inside where it learned
    none.
    """
    extra(receipt, found)
    rows = ("both", "one pitch for all", "one pitch")
    gpe = [[one["test"]["gpe"] for one in found[row].values()] for row in rows]
    learned = pitch_learned(*map(np.mean, gpe))
    one = receipt.metrics.get("longer_gpe_gain")
    if one:
        low, high = one["low"], one["high"]
        low, high = (min(low, 0.0), max(high, 0.0)) if learned == "nothing" else (low, high)
        told = one["value"], one["unit"], low, high, one["repeats"], f"learned: {learned}"
        receipt.record("longer_pitch_gain", *told, interval="95 %")


def _learned(system, view="face"):
    steps = "steps_seeing" if "video" in SYSTEMS[system] else "steps_reading"
    setting = {"system": system, "view": view}
    return Arm(train="train", start=("new", *SHARED), loss={"steps": steps}, setting=setting)


LEARNED = {name: _learned(name) for name in SYSTEMS} | {"mouth crop": _learned("both", "mouth")}
ARMS = {
    "voices": Arm(train="train", test=(), loss={"steps": "voice_steps"}),
    "scorer": Arm(train="sync", test=(), loss={"steps": "scorer_steps"}),
} | {row: Arm(start=SHARED, setting={"row": row}) for row in BOUNDS}
ARMS |= LEARNED | {row: Arm(start="both", setting={"row": row}) for row in ROWS[-3:]}
TOLD = ("loss.steps", "setting.system")  # equal time on a core, so not equal steps
GAINS = dict.fromkeys(("distance", "mcd", "gpe", "ffe"), ("length", "both"))
GAINS |= dict.fromkeys(("silence", "words"), ("both", "length"))  # more is better
CROP = {"study_crop_gain": Outcome("mcd", "both", "mouth crop", ("setting.view",))}


def gains(study):
    """The outcomes of a study: what both gains over text with length, above zero if better."""
    return {f"{study}_{one}_gain": Outcome(one, *arms, TOLD) for one, arms in GAINS.items()}


STUDY = Study(
    notebook="visual_tts",
    name="systems",
    arms=ARMS,
    seeds=range(4),
    processes=2,
    added="the fourth after a look at three",
    metrics=METRICS,
    outcomes=gains("study") | CROP,
    sizes={"clips": 960, "sync": 160, "test": 12, "batch": 16}
    | {"voice_steps": 400, "scorer_steps": 300, "steps_reading": 1600, "steps_seeing": 900},
    trial={"clips": 3, "sync": 2, "test": 2, "batch": 2}
    | {"voice_steps": 2, "scorer_steps": 2, "steps_reading": 8, "steps_seeing": 4},
    parts=parts,
    fit=fit,
    judge=judge,
    extra=extra,
)
LONGER = replace(
    STUDY,
    name="longer",
    key="longer_{arm}_{metric}",
    arms={name: ARMS[name] for name in (*SHARED, *BOUNDS, "length", "both")},
    outcomes=gains("longer"),
    extra=pitch_gain,
    seeds=range(3),
    added="",
    sizes=STUDY.sizes | {"steps_reading": 16_000, "steps_seeing": 9000},
)
