"""The shipped instruments, made again: a decoder for each, taught its ten phrases, or the first
seconds of a real recording. Minutes each. In the slice's folder:

    python -m voice_transfer.train_instruments             # writes instruments.safetensors
    python -m voice_transfer.train_instruments bansuri     # this one, beside those there
"""

import math
import sys

import torch
from helpers import data
from helpers.study import Arm, Job, Metric, Part, Study
from instrument_sounds import rendering as ins
from sound_features.analysis import SAMPLE_RATE
from tone_decoder import training as tt

from voice_transfer import transfer as vt
from voice_transfer.study_tone_transfer import heard, phrases

# A clip, and the second from which on it is held out: sax-phrase-short.wav is a part of that.
REAL = {"saxophone": ("sax-phrase.wav", 6), "cello": ("cello-phrase.wav", 6)}
REAL |= {"trumpet": ("sorohanro_-_solo-trumpet-06.hq.ogg", 4)}


def seconds(file, first_s, last_s=None):
    """The `Part` of a clip of `music_sounds` between two times; its units are its seconds."""
    sound = ins.clip(data.fetch("music_sounds", [file]), file)
    last_s = len(sound) / SAMPLE_RATE if last_s is None else last_s
    piece = sound[round(first_s * SAMPLE_RATE) : round(last_s * SAMPLE_RATE)]
    units = range(math.floor(first_s), math.ceil(last_s))
    return Part([ins.tensor(piece)], [(file, second) for second in units])


def parts(seed, sizes):
    """What trains each instrument, under its name, and what is held out."""
    found, count = {}, sizes["phrases"]
    for name in vt.INSTRUMENTS:
        if name in REAL:
            file, split_s = REAL[name]
            own = seconds(file, 0, split_s), seconds(file, split_s)
        else:
            both = range(count), range(ins.HELD_OUT, ins.HELD_OUT + count)
            own = (phrases(name, seeds) for seeds in both)
        found |= dict(zip((name, f"{name}_held_out"), own, strict=True))
    return found


def fit(job):
    """The instrument: its decoder, and where its training sounds lie."""
    train = heard(job.train)
    tt.train(job.start, train, job.sizes["steps"], job.sizes["batch"], job.seed)
    return vt.Instrument(job.start.eval(), *vt.place(train))


def judge(made, held_out, job):
    """The loss over sounds that are held out."""
    return {"loss": float(tt.judged(made.decoder, heard(held_out)).mean())}


MADE = Study(
    notebook="tone_transfer",
    name="instruments",
    arms={name: Arm(train=name, test=(f"{name}_held_out",)) for name in vt.INSTRUMENTS},
    seeds=(0,),
    metrics={"loss": Metric("loss")},
    sizes={"steps": 1_500, "batch": 4, "phrases": 10},
    trial={"steps": 2, "batch": 1, "phrases": 2},
    parts=parts,
    begin=lambda word, job: tt.new_decoder(vt.KIND, job.seed),
    fit=fit,
    judge=judge,
)


def ship(names, path=vt.CHECKPOINT):
    """None; trains instruments and writes each into the shipped file, beside the others there.

    KeyError for a name that is no instrument's.
    """
    arms, seed = {name: MADE.arms[name] for name in names}, MADE.seeds[0]
    torch.set_num_threads(MADE.threads)
    found = MADE.parts(seed, MADE.sizes)
    MADE.apart(found)
    for name, arm in arms.items():
        job = Job(name, arm, seed, MADE.sizes, train=found[arm.train].data)
        made = MADE.fit(job._replace(start=MADE.begin("new", job)))
        loss = MADE.judge(made, found[arm.test[0]].data, job)["loss"]
        print(f"{name}: {loss:.2f} on what is held out", flush=True)
        vt.save({one: vt.load(one, path) for one in vt.names(path)} | {name: made}, path)


if __name__ == "__main__":
    ship(sys.argv[1:] or vt.INSTRUMENTS)
