"""Each row of the table as an arm: the four systems, both with a crop of the mouth, what bounds
them and what controls them, over seeds.

    make study CHAPTERS=speech/visual_tts STUDY=systems

A step that sees costs twice one that only reads; so that all systems have about one time on a
core, those that read get more steps. The voice vector and the judge are made alike for each
seed; the judge's speakers are neither trained on nor tested. Tested speakers and faces are new,
their sentences are drawn from the same twelve words: many of them also occur in training.
"""

import functools

import numpy as np
import torch
from helpers.study import Arm, Metric, Outcome, Part, Study
from speech_scores import train_scorer
from talking_faces import make_clips

from .dubbing import MISSING, ROWS, SCORES, row_of, scores_of
from .model import SYSTEMS
from .training import mel_of, prepare, train
from .voice_vector import train_voices

SHARED = ("voices", "scorer")  # what each row needs: a speaker's vector, and its judge
DRAWS = {"train": 1, "sync": 5}  # of clips, the same for each seed; those of the test differ
METRICS = {"distance": Metric("points"), "mcd": Metric("dB")}
METRICS |= {name: Metric("%", 100) for name in ("gpe", "ffe", "silence")}
drawn = functools.cache(make_clips)


def parts(seed, sizes):
    """Clips of three groups of speakers; their units are eSpeak's variants."""
    counts = {"train": sizes["clips"], "sync": sizes["sync"], "test": sizes["test"]}
    made = {name: drawn(name, n, DRAWS.get(name, 100 + seed)) for name, n in counts.items()}
    return {
        name: Part(clips, [clip.voice.variant for clip in clips])
        for name, clips in made.items()
    }


def fit(job):
    """The voice vector, the judge, or (a system, voices, judge)."""
    steps = job.sizes[job.arm.loss["steps"]]
    if job.name == "voices":
        speakers = [clip.speaker for clip in job.train]
        return train_voices([mel_of(clip) for clip in job.train], speakers, steps)[0]
    if job.name == "scorer":
        films = [torch.from_numpy(clip.face_THW) for clip in job.train]
        mels = [mel_of(clip) for clip in job.train]
        items = [{"video": film, "mel": mel} for film, mel in zip(films, mels, strict=True)]
        return train_scorer(items, steps)[0]
    _, voices, scorer = job.start
    items = prepare(job.train, voices, job.arm.setting["view"])
    system, batch = job.arm.setting["system"], job.sizes["batch"]
    return train(system, items, steps, job.seed, batch)[0], voices, scorer


def judge(made, clips, job):
    """Means over clips of those SCORES that METRICS names, and of all: "scores", a list."""
    *model, voices, scorer = made
    items = prepare(clips, voices, job.arm.setting.get("view", "face"))
    dubs, lengths = row_of(job.name, clips, items, *model)
    given = zip(dubs, clips, lengths, strict=True)
    each = [scores_of(sound, clip, scorer, length) for sound, clip, length in given]
    means = {score: _mean([one[score] for one in each]) for score in SCORES}
    return {name: means[name] for name in METRICS} | {"scores": list(means.values())}


def _mean(values):
    """The mean of those that are finite: a row that is voiced nowhere has no pitch error."""
    finite = [value for value in values if np.isfinite(value)]
    return float(np.mean(finite)) if finite else float("nan")


def extra(receipt, found):
    """None; records the curve "rows": SCORES by row and seed, MISSING where there is none."""
    at = [(row, seed) for seed in found["both"] for row in ROWS]
    means = np.array([found[row][seed]["test"]["scores"] for row, seed in at])
    columns = {"row": [ROWS.index(row) for row, _ in at], "seed": [seed for _, seed in at]}
    columns |= dict(zip(SCORES, np.nan_to_num(means, nan=MISSING).T.tolist(), strict=True))
    receipt.curve("rows", **columns)


def _learned(system, view="face"):
    steps = "steps_seeing" if "video" in SYSTEMS[system] else "steps_reading"
    setting = {"system": system, "view": view}
    return Arm(train="train", start=("new", *SHARED), loss={"steps": steps}, setting=setting)


LEARNED = {name: _learned(name) for name in SYSTEMS} | {"mouth crop": _learned("both", "mouth")}
ARMS = {
    "voices": Arm(train="train", test=(), loss={"steps": "voice_steps"}),
    "scorer": Arm(train="sync", test=(), loss={"steps": "scorer_steps"}),
} | {row: Arm(start=SHARED, setting={"row": row}) for row in ROWS[:4]}
ARMS |= LEARNED | {row: Arm(start="both", setting={"row": row}) for row in ROWS[-3:]}
TOLD = ("loss.steps", "setting.system")  # equal time on a core, so not equal steps
OUTCOMES = {  # above zero, both is better
    f"study_{score}_gain": Outcome(score, "length", "both", TOLD)
    for score in ("distance", "mcd", "gpe", "ffe")
}
OUTCOMES["study_silence_gain"] = Outcome("silence", "both", "length", TOLD)
OUTCOMES["study_crop_gain"] = Outcome("mcd", "both", "mouth crop", ("setting.view",))

STUDY = Study(
    notebook="visual_tts",
    name="systems",
    arms=ARMS,
    seeds=range(4),
    added="the fourth after a look at three",
    metrics=METRICS,
    outcomes=OUTCOMES,
    sizes={"clips": 960, "sync": 160, "test": 12, "batch": 16}
    | {"voice_steps": 400, "scorer_steps": 300, "steps_reading": 1600, "steps_seeing": 900},
    trial={"clips": 3, "sync": 2, "test": 2, "batch": 2}
    | {"voice_steps": 2, "scorer_steps": 2, "steps_reading": 8, "steps_seeing": 4},
    parts=parts,
    fit=fit,
    judge=judge,
    extra=extra,
)
