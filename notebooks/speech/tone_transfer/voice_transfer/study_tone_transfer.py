"""Studies of minutes: the shipped instruments, made again; and the sizes of a decoder beside
its loss.

In the slice's folder:

    python -m voice_transfer.study_tone_transfer ship     # writes instruments.safetensors
    python -m voice_transfer.study_tone_transfer sizes    # writes a receipt
"""

import argparse
import time

import numpy as np
import torch
from helpers import data, device, receipts
from instrument_sounds import rendering as ins
from sound_features import analysis as sf
from tone_decoder import networks as td
from tone_decoder import training as tt

from voice_transfer import transfer as vt

PHRASES, HELD = 10, 5  # rendered phrases that train, and that judge
REAL = {"saxophone": "sax-phrase.wav"}
REAL_SPLIT_S = 6.0  # what comes later is held out; sax-phrase-short.wav is a part of it
KINDS = ("tiny", "conv64", "conv16", "gru64", "paper")


def sounds_of(name, held_out=False):
    """The recordings that train an instrument, or those that judge it."""
    if name in REAL:
        sound = ins.clip(data.fetch("music_sounds", [REAL[name]]), REAL[name])
        at = round(REAL_SPLIT_S * sf.SAMPLE_RATE)
        return [tt.recording(ins.tensor(sound[at:] if held_out else sound[:at]))]
    seeds = range(ins.HELD_OUT, ins.HELD_OUT + HELD) if held_out else range(PHRASES)
    return [tt.recording(ins.tensor(ins.rendered(name, seed))) for seed in seeds]


def ship(options):
    """None; trains instruments and writes them into the shipped file, beside those there."""
    for name in options.names or vt.INSTRUMENTS:
        train, held = sounds_of(name), sounds_of(name, True)
        decoder, begun = tt.new_decoder(vt.KIND, 0), time.perf_counter()
        losses = tt.train(decoder, train, options.steps, batch=options.batch, told=_told)
        made = vt.trained_instrument(decoder, train)
        fit, beyond = (tt.judged(decoder, some).mean() for some in (train, held))
        told = (
            f"{losses[:20].mean():.2f} to {losses[-50:].mean():.2f}; whole "
            f"{fit:.2f}, held out {beyond:.2f}"
        )
        print(f"{name}: {told}; {time.perf_counter() - begun:.0f} s", flush=True)
        others = [one for one in vt.INSTRUMENTS if one != name and vt.has(one)]
        vt.save({one: vt.load(one) for one in others} | {name: made})


def _told(step, loss):
    if step % 50 == 0:
        print(f"step {step}: {loss:.2f}", flush=True)


def sizes(options):
    """None; trains decoders of many sizes, each with the same seeds, steps and crops of the
    bansuri's phrases, and records their held-out losses.

    `smaller_at_no_loss`: the paper's weights over the fewest of a decoder whose mean loss is
    not above the paper's; 1 where there is none.
    """
    receipt = receipts.start("tone_transfer", device.tier(), threads=options.threads)
    train, held = sounds_of("bansuri"), sounds_of("bansuri", True)
    curve, weights = {"weights": [], "held_out_loss": [], "low": [], "high": []}, {}
    for kind in KINDS:
        found = np.array(
            [judged(kind, seed, train, held, options) for seed in range(options.seeds)]
        )
        weights[kind] = td.count(tt.new_decoder(kind))
        print(kind, found.round(3).tolist(), flush=True)
        receipt.record(f"size_{kind}_loss", float(found.mean()), "loss")
        receipt.record(f"size_{kind}_spread", float(found.max() - found.min()), "loss")
        for name, value in zip(
            curve, (weights[kind], found.mean(), found.min(), found.max()), strict=True
        ):
            curve[name].append(float(value))
    losses = dict(zip(KINDS, curve["held_out_loss"], strict=True))
    enough = [weights[kind] for kind in KINDS if losses[kind] <= losses["paper"]]
    receipt.record("smaller_at_no_loss", weights["paper"] / min(enough), "×")
    by_rms = [[tt.recording(one.sound, "rms") for one in some] for some in (train, held)]
    rms = [judged("conv64", seed, *by_rms, options) for seed in range(options.seeds)]
    receipt.record("size_conv64_rms_loss", float(np.mean(rms)), "loss")
    receipt.curve("loss_by_size", **curve)
    receipt.sizes(
        steps=options.steps,
        batch=options.batch,
        seeds=options.seeds,
        phrases=PHRASES,
        held_out=HELD,
    )
    print(receipt.write(name="sizes"))


def judged(kind, seed, train, held, options):
    """The mean held-out loss of one decoder, trained anew."""
    decoder = tt.new_decoder(kind, seed)
    tt.train(decoder, train, options.steps, batch=options.batch, seed=seed)
    return float(tt.judged(decoder, held).mean())


def main(arguments=None):
    """Run one study."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    {"ship": ship, "sizes": sizes}[options.study](options)


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("study", choices=("ship", "sizes"))
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=4, help="crops of a second a step")
    parser.add_argument("--names", nargs="*", choices=vt.INSTRUMENTS, help="only these")
    parser.add_argument("--seeds", type=int, default=3, help="of each size")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
