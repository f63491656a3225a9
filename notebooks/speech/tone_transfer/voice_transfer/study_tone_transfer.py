"""Studies of minutes: the shipped instruments, made again; and the sizes of a decoder beside
its loss.

In the slice's folder:

    python -m voice_transfer.study_tone_transfer ship     # writes instruments.safetensors
    python -m voice_transfer.study_tone_transfer sizes    # writes a receipt
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from helpers import data, device, receipts
from instrument_sounds import rendering as ins
from scipy.stats import t as student
from sound_features import analysis as sf
from tone_decoder import networks as td
from tone_decoder import training as tt

from voice_transfer import transfer as vt

PHRASES, HELD = 10, 10  # rendered phrases that train, and that judge
CHOOSE = 5  # of those that judge: they choose the size, the rest report it
REAL = {"saxophone": "sax-phrase.wav"}
REAL_SPLIT_S = 6.0  # what comes later is held out; sax-phrase-short.wav is a part of it
KINDS = ("paper", "tiny", "gru64", "conv64", "conv16")  # by weights, falling
RATES, TRIAL_SEED = (1e-3, 3e-3), 99  # one of them for each kind, by a third of the steps


def sounds_of(name, held_out=False, phrases=None):
    """The recordings that train an instrument, or those that judge it."""
    if name in REAL:
        sound = ins.clip(data.fetch("music_sounds", [REAL[name]]), REAL[name])
        at = round(REAL_SPLIT_S * sf.SAMPLE_RATE)
        return [tt.recording(ins.tensor(sound[at:] if held_out else sound[:at]))]
    first, count = (ins.HELD_OUT, phrases or HELD) if held_out else (0, phrases or PHRASES)
    seeds = range(first, first + count)
    return [tt.recording(ins.tensor(ins.rendered(name, seed))) for seed in seeds]


def ship(options):
    """None; trains instruments and writes them into the shipped file, beside those there."""
    made = {n: vt.load(n) for n in vt.INSTRUMENTS} if Path(vt.CHECKPOINT).exists() else {}
    for name in options.names or vt.INSTRUMENTS:
        train, held = sounds_of(name), sounds_of(name, True)
        decoder = tt.new_decoder(vt.KIND, 0)
        losses = tt.train(decoder, train, options.steps, options.batch, told=_told)
        made[name] = vt.Instrument(decoder.eval(), *vt.place(train))
        fit, beyond = (tt.judged(decoder, some).mean() for some in (train, held))
        told = f"{losses[:20].mean():.2f} to {losses[-50:].mean():.2f}"
        print(f"{name}: {told}; whole {fit:.2f}, held out {beyond:.2f}", flush=True)
        vt.save(made)


def _told(step, loss):
    if step % 50 == 0:
        print(f"step {step}: {loss:.2f}", flush=True)


def sizes(options):
    """None; trains decoders of many sizes, each with the same seeds, steps and crops of the
    bansuri's phrases and its own better one of two rates, and records their held-out losses.

    `smaller_at_no_loss`: the paper's weights over the fewest of a decoder whose loss less the
    paper's, at 95 % over seeds, is below the margin: half of the paper's own interval over
    seeds. Five phrases choose; the others say by how much. 1 where there is none.
    """
    receipt = receipts.start("tone_transfer", device.tier(), threads=options.threads)
    train, held = (sounds_of("bansuri", out, options.phrases) for out in (False, True))
    curve = {"weights": [], "held_out_loss": [], "low": [], "high": []}
    losses, best = {}, "paper"  # {kind: (seeds, phrases)}
    for kind in KINDS:
        rate, losses[kind] = trained(kind, train, held, options)
        by_seed, count = losses[kind].mean(1), td.count(tt.new_decoder(kind))
        print(kind, rate, by_seed.round(3).tolist(), flush=True)
        receipt.record(f"size_{kind}_loss", float(by_seed.mean()), "loss")
        receipt.record(f"size_{kind}_half", interval(by_seed)[1], "loss")
        receipt.record(f"size_{kind}_rate", rate, "a step")
        row = count, by_seed.mean(), by_seed.min(), by_seed.max()
        for name, value in zip(curve, row, strict=True):
            curve[name].append(float(value))
        gap, half = interval((losses[kind] - losses["paper"])[:, :CHOOSE].mean(1))
        margin = interval(losses["paper"][:, :CHOOSE].mean(1))[1]
        best = kind if gap + half <= margin else best
    few, many = (td.count(tt.new_decoder(kind)) for kind in (best, "paper"))
    receipt.record("smaller_at_no_loss", many / few, "×")
    gap, half = interval((losses[best] - losses["paper"])[:, -CHOOSE:].mean(1))
    receipt.record("smaller_margin", margin, "loss")
    receipt.record("smaller_gap", gap, "loss")
    receipt.record("smaller_gap_half", half, "loss")
    by_rms = [[tt.recording(one.sound, "rms") for one in some] for some in (train, held)]
    gap, half = interval((trained("conv64", *by_rms, options)[1] - losses["conv64"]).mean(1))
    receipt.record("rms_gap", gap, "loss")
    receipt.record("rms_gap_half", half, "loss")
    receipt.curve("loss_by_size", **curve)
    told = {"phrases": len(train), "held_out": len(held)}
    receipt.sizes(steps=options.steps, batch=options.batch, seeds=options.seeds, **told)
    print(receipt.write(name="sizes"))


def interval(values):
    """(mean, half of the 95 % interval by Student's t) of a few values."""
    half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return float(values.mean()), float(half)


def trained(kind, train, held, options):
    """(rate, losses (seeds, phrases)) of decoders trained anew, at the rate with the lower loss
    in a short trial on the training phrases.
    """
    trials, found = {}, []
    for rate in RATES:
        steps = max(1, options.steps // 3)
        decoder = tt.new_decoder(kind, TRIAL_SEED)
        trials[rate] = tt.train(decoder, train, steps, options.batch, TRIAL_SEED, rate)[-20:]
    best = min(RATES, key=lambda rate: float(trials[rate].mean()))
    for seed in range(options.seeds):
        decoder = tt.new_decoder(kind, seed)
        tt.train(decoder, train, options.steps, options.batch, seed, best)
        found.append(tt.judged(decoder, held).numpy())
    return best, np.array(found)


def main(arguments=None):
    """Run one study."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    {"ship": ship, "sizes": sizes}[options.study](options)


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("study", choices=("ship", "sizes"))
    parser.add_argument("--steps", type=int, default=1_500)
    parser.add_argument("--batch", type=int, default=4, help="crops of a second a step")
    parser.add_argument("--names", nargs="*", choices=vt.INSTRUMENTS, help="only these")
    parser.add_argument("--seeds", type=int, default=3, help="of each size")
    parser.add_argument("--phrases", type=int, help="fewer, to try it")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
