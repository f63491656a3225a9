"""Decoders of many sizes and of two kinds, each with the same steps and crops of the bansuri's
phrases and its own best rate; and one with RMS in place of loudness. Two studies, in order:

    make study CHAPTERS=speech/tone_transfer

`rates`: each decoder at each rate, one seed, short. `sizes`: each at its best one, three seeds.
A recurrent and a convolutional decoder of about the same weights make a pair, so that size and
kind are told apart. The plainest decoder stands beside them: a linear map of one frame's pitch
and loudness, which remembers nothing. A decoder is no worse where its loss less the paper's, at
95 % over seeds, is at most MARGIN. `smaller_at_no_loss`: the paper's weights over the fewest of
such a decoder, of any kind; `smaller_recurrent`: of the paper's own. Half of the held-out
phrases choose rate and decoder. The others, the witness, say how sure that is: the low end is 1
where they don't confirm it, or the paper's best rate is the last one tried; the high end is the
smallest decoder that they don't prove worse.
"""

import math

from helpers import receipts
from helpers.study import Arm, Metric, Outcome, Part, Study, StudyError, student
from instrument_sounds import rendering as ins
from tone_decoder import networks as td
from tone_decoder import training as tt

PAIRS = {
    "large": ("conv110", "tiny"),
    "middle": ("conv64", "gru144"),
    "small": ("conv16", "gru30"),
}
KINDS = ("paper", *(kind for pair in PAIRS.values() for kind in pair), "linear")
RECURRENT = ("paper", *(pair[1] for pair in PAIRS.values()))
RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
TRIED = "rate_{}_{:.0f}_loss"  # the metric of a kind and a rate in hundred-thousandths
MARGIN = 0.05  # what an earlier, shorter study of five of these decoders had let pass


def phrases(name, seeds):
    """The `Part` of an instrument's rendered phrases: sounds; its units are the phrases' seeds,
    which draw the same steps for every instrument.
    """
    return Part([ins.tensor(ins.rendered(name, seed)) for seed in seeds], list(seeds))


def heard(sounds, energy="loudness"):
    """The recordings of a part's sounds."""
    return [tt.recording(sound, energy) for sound in sounds]


def parts(seed, sizes):
    """Phrases of the bansuri that train, that choose a rate and a size, and that witness."""
    first, half = ins.HELD_OUT, sizes["held_out"] // 2
    seeds = {"train": range(sizes["phrases"]), "choosing": range(first, first + half)}
    seeds["witness"] = range(first + half, first + 2 * half)
    return {name: phrases("bansuri", some) for name, some in seeds.items()}


def begin(word, job):
    """A new decoder of the arm's kind."""
    return tt.new_decoder(job.arm.setting["kind"], job.seed)


def fit(job):
    """(the decoder or None where its rate let it diverge, its loss on what chooses: it is
    judged there, and learns nothing from it).
    """
    setting = job.arm.setting
    rate = setting.get("rate") or job.arm.loss["rates"].get(setting["kind"])
    if not rate:
        raise StudyError(f"no rate is known of {setting['kind']}: record the study rates first")
    train, told = heard(job.train, setting["energy"]), (job.sizes["batch"], job.seed, rate)
    try:
        tt.train(job.start, train, job.sizes["steps"], *told)
    except FloatingPointError:
        job = job._replace(start=None)
    return job.start, {"choosing": _loss(job.start, job.choice, job)} if job.choice else {}


def judge(made, held_out, job):
    """The loss over held-out phrases, and over those that choose: NaN of what diverged, so that
    it is recorded nowhere and is never no worse.
    """
    decoder, choosing = made
    return {"loss": _loss(decoder, held_out, job)} | choosing


def _loss(decoder, sounds, job):
    if decoder is None:
        return math.nan
    return float(tt.judged(decoder, heard(sounds, job.arm.setting["energy"])).mean())


def best_rates():
    """{kind: rate of the lowest recorded loss}; empty where `rates` has not been recorded."""
    found = receipts.recorded("tone_transfer", name="rates")
    metrics, best = found["metrics"] if found else {}, {}
    for kind in KINDS:
        losses = {rate: metrics.get(TRIED.format(kind, 1e5 * rate)) for rate in RATES}
        losses = {rate: one["value"] for rate, one in losses.items() if one}
        best |= {kind: min(losses, key=losses.get)} if losses else {}
    return best


def weights(kind):
    """How many weights a decoder of that kind has."""
    return td.count(tt.new_decoder(kind))


def gap(found, kind, metric="loss"):
    """(mean, low, high) of a kind's loss less the paper's, over seeds."""
    own, paper = (
        [scores["witness"][metric] for scores in found[name].values()]
        for name in (kind, "paper")
    )
    return student([one - other for one, other in zip(own, paper, strict=True)])


def smallest(found, kinds, rates):
    """(times fewer weights of the smallest that is no worse, low, high, its name)."""
    fits = [kind for kind in kinds if gap(found, kind, "choosing")[2] <= MARGIN]
    maybe = [kind for kind in kinds if gap(found, kind)[1] <= MARGIN]
    best = min(fits, key=weights)
    ratio, most = (weights("paper") / min(map(weights, some)) for some in (fits, maybe))
    sure = gap(found, best)[2] <= MARGIN and rates.get("paper") not in (RATES[0], RATES[-1])
    return ratio, ratio if sure else 1.0, max(ratio, most), best


def extra(receipt, found):
    """None; records the smallest decoder that is no worse, of any kind and of the paper's, and
    the rates.
    """
    rates = STUDY.arms["paper"].loss["rates"]
    for name, kinds in (("smaller_at_no_loss", KINDS), ("smaller_recurrent", RECURRENT)):
        ratio, low, high, best = smallest(found, kinds, rates)
        note = "low: confirmed by the witness; high: not proved worse by it"
        receipt.record(name, ratio, "×", low, high, note=note, interval="95 %")
        mean, low, high = gap(found, best)
        count = len(found[best])
        receipt.record(f"{name}_gap", mean, "loss", low, high, count, interval="95 %")
    for kind, rate in rates.items():
        receipt.record(f"size_{kind}_rate", rate, "a step")


def _trial(kind, rate):
    setting = {"kind": kind, "energy": "loudness", "rate": rate}
    return Arm(train="train", test=("choosing",), setting=setting)


def _arm(kind, energy="loudness"):
    own = {"loss": {"rates": best_rates()}, "setting": {"kind": kind, "energy": energy}}
    return Arm(train="train", choice="choosing", test=("witness",), **own)


ABOUT = {"notebook": "tone_transfer", "parts": parts}
ABOUT |= {"metrics": {"loss": Metric("loss"), "choosing": Metric("loss")}}
ABOUT |= {"begin": begin, "fit": fit, "judge": judge}
TRIAL = {"steps": 3, "batch": 1, "phrases": 2, "held_out": 4}
SIZES = {"batch": 2, "phrases": 10, "held_out": 10}
RATES_STUDY = Study(
    name="rates",
    arms={f"{kind}_{1e5 * rate:.0f}": _trial(kind, rate) for kind in KINDS for rate in RATES},
    seeds=(99,),
    processes=2,
    key="rate_{arm}_{metric}",
    sizes=SIZES | {"steps": 1_000},
    trial=TRIAL,
    **ABOUT,
)
STUDY = Study(
    name="sizes",
    arms={kind: _arm(kind) for kind in KINDS} | {"rms": _arm("conv64", "rms")},
    seeds=range(3),
    processes=2,
    key="size_{arm}_{metric}",
    outcomes={
        f"kind_{size}_gap": Outcome("loss", *pair, ("setting.kind",))
        for size, pair in PAIRS.items()
    }
    | {"rms_gap": Outcome("loss", "rms", "conv64", ("setting.energy",))}
    | {"linear_gap": Outcome("loss", "linear", "paper", ("setting.kind",))},
    sizes=SIZES | {"steps": 3_000},
    trial=TRIAL,
    extra=extra,
    **ABOUT,
)
