"""The race: seconds of sound a second on one core, and what a transfer is worth beside WORLD's.

In the slice's folder:

    python -m voice_transfer.bench_tone_transfer --rounds 3

The same decoder drives our synthesiser and the plainly written one, after equality is checked.
The autoregressive network is compiled before the clock starts; it is a miniature, and
untrained: its speed does not depend on the weights' values. Quality: an oboe's held-out phrases
become a shehnai; the truth is the same phrase rendered as a shehnai.
"""

import argparse

import librosa
import numpy as np
import torch
from harmonic_synth import oscillators as hs
from helpers import bench, check, device, receipts
from instrument_sounds import rendering as ins
from sound_features import analysis as sf
from sound_features.loss import spectral_loss
from tone_decoder import autoregressive as ar
from tone_decoder import networks as td
from tone_decoder import training as tt

from voice_transfer import transfer as vt

PHRASES = 10
T95 = 2.262  # Student's, nine degrees of freedom
FRAME_MS = 5.0  # of WORLD


def decoded(decoder, f0, loud):
    """Controls, as both synthesisers take them."""
    with torch.inference_mode():
        return td.controls(decoder(td.inputs(f0, loud))[0])


def contestants(instrument, sound, f0, loud, network):
    """The functions to race, by name, each making the same seconds of sound."""
    draws, controls = torch.rand(len(sound)), torch.rand(len(sound), 2)

    @torch.inference_mode()
    def plain():
        made = decoded(instrument.decoder, f0, loud)
        return hs.synthesise_plain(
            f0, made.amplitude, made.partials, sf.SAMPLE_RATE, sf.HOP
        ) + hs.whole_noise(made.noise, sf.HOP)

    @torch.inference_mode()
    def ours():
        return tt.play(instrument.decoder, f0, loud)

    shift = vt.shift_of(sf.features(sound), instrument)
    return {
        "decoder and synthesiser": ours,
        "the same, plainly written": plain,
        "the whole transfer, from the voice": lambda: vt.transfer(sound, instrument, shift),
        "one sample after the other, compiled": lambda: ar.written(network, controls, draws),
    }


def timbre_distance(got, want):
    """How far the colour of two sounds is apart, in mel-cepstral units: coefficients 1 to 12
    where the wanted one has a pitch.
    """
    both = [
        librosa.feature.mfcc(
            y=one.numpy(), sr=sf.SAMPLE_RATE, n_mfcc=13, hop_length=sf.HOP, n_fft=1024
        )
        for one in (got, want)
    ]
    sung = np.flatnonzero(sf.features(want).voiced.numpy())
    return float(np.linalg.norm((both[0] - both[1])[1:, sung], axis=0).mean())


def quality(instrument):
    """Distances to the truth, {name: (phrases, 2)}: spectral loss and timbre of ours, WORLD's
    transfer, its copy of the truth, the oboe.
    """
    found = {"ours": [], "untouched": [], "world": [], "world_copy": []}
    pyworld = _pyworld()
    envelope = pyworld and world_envelope(
        pyworld, [ins.rendered("shehnai", seed) for seed in range(3)]
    )
    for seed in range(ins.HELD_OUT, ins.HELD_OUT + PHRASES):
        source, truth = (ins.tensor(ins.rendered(name, seed)) for name in ("oboe", "shehnai"))
        shift = vt.shift_of(sf.features(source), instrument)._replace(
            octaves=0
        )  # the truth keeps its octave
        made = {"ours": vt.transfer(source, instrument, shift), "untouched": source}
        if pyworld:
            made["world"] = world_transfer(pyworld, source, envelope)
            made["world_copy"] = world_copy(pyworld, truth)
        for name, sound in made.items():
            level = truth.square().mean().sqrt() / sound.square().mean().sqrt()
            loss = spectral_loss(level * sound[None, : len(truth)], truth[None, : len(sound)])
            found[name].append((float(loss), timbre_distance(level * sound, truth)))
    return {name: np.array(values) for name, values in found.items() if values}


def _pyworld():
    try:
        import pyworld
    except ImportError:
        print("pyworld is not installed here: its rows are left out")
        return None
    return pyworld


def analysed(pyworld, sound):
    """(f0, envelope, aperiodicity) by WORLD, its better pitch tracker."""
    values = np.asarray(sound, np.float64)
    f0, at = pyworld.harvest(values, sf.SAMPLE_RATE, frame_period=FRAME_MS)
    return (
        f0,
        pyworld.cheaptrick(values, f0, at, sf.SAMPLE_RATE),
        pyworld.d4c(values, f0, at, sf.SAMPLE_RATE),
    )


def world_envelope(pyworld, sounds):
    """(mean log envelope, mean aperiodicity) of an instrument's pitched frames, level taken
    out.
    """
    found = [analysed(pyworld, sound) for sound in sounds]
    logs = np.concatenate([np.log(envelope[f0 > 0]) for f0, envelope, _ in found])
    rough = np.concatenate([one[f0 > 0] for f0, _, one in found])
    return (logs - logs.mean(1, keepdims=True)).mean(0), rough.mean(0)


def world_transfer(pyworld, source, envelope):
    """The source's pitch and level with the instrument's mean envelope and aperiodicity, by
    WORLD.
    """
    f0, own, _ = analysed(pyworld, source)
    shape = np.exp(envelope[0])
    level = own.sum(1, keepdims=True) / shape.sum()
    rough = np.repeat(envelope[1][None], len(f0), 0)
    made = pyworld.synthesize(
        f0, shape * level, np.where(f0[:, None] > 0, rough, 1.0), sf.SAMPLE_RATE, FRAME_MS
    )
    return _fitted(made, len(source))


def world_copy(pyworld, sound):
    """The sound analysed and put together again: what WORLD loses."""
    return _fitted(
        pyworld.synthesize(*analysed(pyworld, sound), sf.SAMPLE_RATE, FRAME_MS), len(sound)
    )


def _fitted(values, length):
    return torch.from_numpy(np.pad(values, (0, max(0, length - len(values))))[:length]).float()


def main(arguments=None):
    """Check, race, judge, print the tables and the receipt's path."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    instrument, network = vt.load("shehnai"), ar.SampleBySample(64)
    sound = ins.tensor(ins.kept("oboe")[ins.HELD_OUT])
    one = tt.recording(sound)
    pairs = contestants(instrument, sound, one.f0[None], one.loudness[None], network)
    names = list(pairs)
    check.close(
        pairs[names[0]](),
        pairs[names[1]](),
        atol=2e-3,
        why="float32; the plain way rounds angles of a whole sum",
    )
    race = bench.race(pairs, repeats=options.rounds, reference=names[1])
    print(race)
    receipt = receipts.start("tone_transfer", device.tier(), threads=options.threads)
    seconds = len(sound) / sf.SAMPLE_RATE
    for metric, name in zip(
        ("decoder", "plain", "transfer", "sample_by_sample"), names, strict=True
    ):
        receipt.record(
            f"{metric}_real_time", seconds / race.results[name].median_s, "× real time"
        )
    receipt.record("over_plain", race.ratios[names[0]])
    slow = race.results[names[3]].median_s / race.results[names[0]].median_s
    receipt.record("over_sample_by_sample", slow, "×")
    if ins.can_render():
        _judge(receipt, quality(instrument))
    receipt.sizes(
        seconds=seconds,
        weights=td.count(instrument.decoder),
        sample_by_sample=td.count(network),
        phrases=PHRASES,
    )
    print(receipt.write(name="transfer"))


def _judge(receipt, found):
    for column, measure in enumerate(("loss", "timbre")):
        for name, values in found.items():
            values, gap = values[:, column], (found["ours"] - values)[:, column]
            half = T95 * gap.std(ddof=1) / len(gap) ** 0.5
            print(
                f"{measure} of {name}: {values.mean():.2f}; ours less it "
                f"{gap.mean():+.2f} ± {half:.2f}"
            )
            receipt.record(f"{measure}_{name}", float(values.mean()), measure)
            if name != "ours":
                receipt.record(f"{measure}_gap_to_{name}", float(gap.mean()), measure)
                receipt.record(f"{measure}_gap_to_{name}_half", float(half), measure)


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--rounds", type=int, default=20, help="interleaved rounds (default: %(default)s)"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        help="the claim is about one core (default: %(default)s)",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
