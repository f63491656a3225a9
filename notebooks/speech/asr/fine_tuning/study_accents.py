"""The study behind the chapter on accents: what has to move, what a shared recording flatters,
and voices that training never heard, seed by seed.

    make study CHAPTERS=speech/asr STUDY=accents

Each training goes on from the shipped base for one epoch and is read on the voices in training:
by recordings that no training used (`accented`) and by some that training rows share
(`shared`); on the two voices that the base knows (`source`); and on each accented speaker, by
the training that had that voice (`seen`) and by one of as many rows that lacked it (`unseen`).
Seeds draw batches, cutouts and dither; the recordings are the same for all."""

from dataclasses import replace

import ctc
import digit_speech
import jiwer
import numpy as np
from helpers import data
from helpers.study import Arm, Metric, Part, Study, student
from quartznet import load_model, recognise

from .training import Recipe, train

ARTICLE_ROWS, BATCH = 4_500, 8
ACCENTED = [name for name, accent in digit_speech.ACCENTS.items() if accent != "USA"]
SOURCE = [name for name, accent in digit_speech.ACCENTS.items() if accent == "USA"]
FAR = {"far": True}  # at a rate that can go as far as the article's many updates
ROWS = "rows of training share its recordings: what that flatters is measured"


def parts(seed, sizes):
    """What is learned from and judged on; the delivery's seed is 7, the same for all seeds."""
    folder, fresh = data.fetch("fsdd"), sizes["fresh"]

    def spoken(split, speakers, count, drawn, voices=True):
        made = digit_speech.utterances(folder, split, speakers, count=count, seed=drawn)
        units = {word.recording for one in made for word in one.words}
        units |= {f"speaker {one.speaker}" for one in made} if voices else set()
        return Part(([one.signal for one in made], [one.text for one in made]), units)

    rows = sizes["rows"]
    found = {  # of other recordings, a test may have the voices of `voices`
        "voices": spoken("train", ACCENTED, rows // len(ACCENTED), 7, voices=False),
        "accented": spoken("test", ACCENTED, fresh, 8),
        "source": spoken("test", SOURCE, fresh, 8),
        "shared": spoken("train", ACCENTED, fresh, 17),
    }
    for name in ACCENTED:
        others = [other for other in ACCENTED if other != name]
        found[f"without_{name}"] = spoken("train", others, rows // len(others), 7)
        found[name] = spoken("test", name, fresh, 9)
    return found


def fit(job):
    """The start after one epoch, by the arm's recipe."""
    recipe, updates = job.arm.loss, -(-len(job.train[0]) // BATCH)
    if job.arm.setting.get("far"):
        recipe = replace(recipe, rate=recipe.rate * -(-ARTICLE_ROWS // BATCH) / updates)
    train(job.start, *job.train, replace(recipe, seed=job.seed))
    return job.start


def judge(model, part, job):
    """The word error rate, decoded greedily."""
    heard = [ctc.greedy(found)[0] for found in recognise(model, part[0])]
    return {"wer": jiwer.wer(part[1], heard)}


def tuned(part="voices", mode="full", setting=FAR):
    """An arm that trains the base and is read by others; the rate is the article's."""
    loss = Recipe(mode=mode, batch=BATCH, rate=1e-3)
    return Arm(train=part, start="base", loss=loss, setting=setting, test=())


TUNED = {"full": tuned(), "decoder": tuned(mode="decoder")}
TUNED |= {"batch_norm": tuned(mode="batch-norm"), "full_gently": tuned(setting={})}
TUNED |= {f"without_{name}": tuned(f"without_{name}") for name in ACCENTED}
READ = [("base", "shared"), ("full", "shared")]  # who reads what
READ += [(one, part) for one in ("base", *list(TUNED)[:4]) for part in ("accented", "source")]
READ = {f"{one}_{part}": (one, part) for one, part in READ}
for _name in ACCENTED:
    READ |= {f"{_name}_base": ("base", _name), f"{_name}_seen": ("full", _name)}
    READ[f"{_name}_unseen"] = f"without_{_name}", _name
BASE = {"seeds": 1}  # it is what it is
ARMS = dict(TUNED)
for _name, (_one, _part) in READ.items():
    _how = BASE if _one == "base" else {"shares": ROWS if _part == "shared" else ""}
    ARMS[_name] = Arm(start=_one, test=(_part,), **_how)
# by name: whose errors are fewer, and than whose
REDUCED = {what: ([f"full_{what}"], [f"base_{what}"]) for what in ("accented", "shared")}
for _kind in ("seen", "unseen"):
    _pairs = zip(*((f"{name}_{_kind}", f"{name}_base") for name in ACCENTED), strict=True)
    REDUCED[f"{_kind}_voice"] = tuple(map(list, _pairs))


def reduced(receipt, found):
    """Record by how much a training lowers the base's error rate, the mean over the tests."""
    rates = {  # {arm: [by seed]}
        name: [told["wer"] for run in runs.values() for told in run.values()]
        for name, runs in found.items()
    }
    for name, (arms, bases) in REDUCED.items():
        base = np.mean([rates[one] for one in bases])
        own = 100 * (1 - np.mean([rates[one] for one in arms], axis=0) / base)
        told, note = student(own.tolist()), "mean over seeds, 95 % interval"
        label = f"study_wer_reduction_{name}", told[0], "%", *told[1:], len(own), note
        receipt.record(*label, interval="95 %")


STUDY = Study(
    notebook="asr_finetuning",
    name="accents",
    arms=ARMS,
    seeds=range(5),
    sizes={"rows": 300, "fresh": 60},
    trial={"rows": 12, "fresh": 2},
    metrics={"wer": Metric("%", 100)},
    parts=parts,
    begin=lambda word, job: load_model(),
    fit=fit,
    judge=judge,
    extra=reduced,
)
