"""The race: seconds of sound a second on one core, and what a transfer is worth beside WORLD's.

In the slice's folder:

    python -m voice_transfer.bench_tone_transfer --rounds 3

The same decoder drives our synthesiser and the plainly written one, after equality is checked.
The autoregressive network is compiled before the clock starts; it is a miniature, and
untrained: its speed does not depend on the weights' values. Quality: an oboe's held-out phrases
become a shehnai; the truth is the same phrase rendered as a shehnai. WORLD learns from the
phrases that trained ours. Two sounds hold the measures themselves to account: the truth under
noise that is 40 dB softer, which should hardly count, and WORLD's copy of the truth, to which
nothing should come as near as it is. Twenty phrases, from seed 100 on, left undecided whether
the copy is nearer in timbre (+0.3 ± 0.4), so eighty others judge.
"""

import argparse

import numpy as np
import torch
from harmonic_synth import oscillators as hs
from helpers import bench, check, device, receipts
from helpers.study import student
from instrument_sounds import rendering as ins
from sound_features import analysis as sf
from sound_features.loss import spectral_loss
from tone_decoder import autoregressive as ar
from tone_decoder import networks as td
from tone_decoder import training as tt

from voice_transfer import transfer as vt

try:
    import pyworld
except ImportError:  # a peer: its rows are left out where it is not installed
    pyworld = None

FIRST, PHRASES = 200, 80  # the seeds of those that judge
LEARNED = 10  # that WORLD learns from, as ours did
FRAME_MS = 5.0  # of WORLD
NEAREST = 32  # frames of the instrument, in pitch and level, whose envelope WORLD takes
NOISE_DB, MEASURES = -40, ("loss", "timbre")
SIZE, PARTIALS = 1024, 20  # samples of a spectrum, partials that are compared in it
FLOOR_DB, QUIET_DB = -40.0, 20  # a partial below its frame's sum; a frame below the loudest


def contestants(instrument, sound, f0, loud, network):
    """The functions to race, by name, each making the same seconds of sound."""
    draws, controls = torch.rand(len(sound)), torch.rand(len(sound), 2)
    shift = vt.shift_of(sf.features(sound), instrument)

    @torch.inference_mode()
    def plain():
        made = td.controls(instrument.decoder(td.inputs(f0, loud))[0])
        driven = f0, made.amplitude, made.partials, sf.SAMPLE_RATE, sf.HOP
        return hs.synthesise_plain(*driven) + hs.whole_noise(made.noise, sf.HOP)

    ours = torch.inference_mode()(tt.play)
    return {
        "decoder and synthesiser": lambda: ours(instrument.decoder, f0, loud),
        "the same, plainly written": plain,
        "the whole transfer, from the voice": lambda: vt.transfer(sound, instrument, shift),
        "its first part, pitch and loudness": lambda: sf.features(sound),
        "one sample after the other, compiled": lambda: ar.written(network, controls, draws),
    }


def partial_levels(sound_N, f0_T):
    """Levels in dB of a sound's partials at k·f0, shape (T, 20), of their frame's sum: the
    power of the five bins there. Below −40 dB, and above 8 kHz, it is −40.
    """
    power_TF = sf.spectrum_power(sf.frames(sound_N.double(), SIZE))
    numbers_K = torch.arange(1, PARTIALS + 1) * SIZE / sf.SAMPLE_RATE
    at_TK = (f0_T[:, None] * numbers_K).round().long()
    bins = (at_TK[..., None] + torch.arange(-2, 3)).clamp_max(SIZE // 2)
    power_TK = power_TF.gather(1, bins.flatten(1)).view(bins.shape).sum(-1)
    power_TK = power_TK * (at_TK < SIZE // 2 - 2)
    shares_TK = power_TK / power_TK.sum(1, keepdim=True).clamp_min(1e-12)
    return (10 * torch.log10(shares_TK + 1e-12)).clamp_min(FLOOR_DB)


def timbre_distance(got, want):
    """How far the colours of two sounds are apart, in dB: the mean difference of the levels of
    those partials that either has, at the pitch of `want`, where that is sure and not faint.
    """
    found = sf.features(want)
    sung = found.voiced & (found.loudness > found.loudness.max() - QUIET_DB / sf.RANGE_DB)
    levels = [partial_levels(one, found.f0)[sung] for one in (got, want)]
    return float((levels[0] - levels[1]).abs()[torch.maximum(*levels) > FLOOR_DB].mean())


def quality(instrument, phrases=PHRASES, learned=LEARNED):
    """Distances to the truth, {name: (phrases, 2)}: spectral loss and timbre of ours, WORLD's
    transfer, its copy of the truth, the oboe, and the truth with faint noise.
    """
    found = {"ours": [], "untouched": [], "noisy": [], "world": [], "world_copy": []}
    known = pyworld and world_frames([ins.rendered("shehnai", seed) for seed in range(learned)])
    for seed in range(FIRST, FIRST + phrases):
        source, truth = (ins.tensor(ins.rendered(name, seed)) for name in ("oboe", "shehnai"))
        shift = vt.shift_of(sf.features(source), instrument)
        shift = shift._replace(octaves=0)  # the truth keeps its octave
        made = {"ours": vt.transfer(source, instrument, shift), "untouched": source}
        made["noisy"] = with_noise(truth, seed)
        if pyworld:
            made["world"] = world_transfer(source, known)
            made["world_copy"] = world_copy(truth)
        for name, sound in made.items():
            level = truth.square().mean().sqrt() / sound.square().mean().sqrt()
            loss = spectral_loss(level * sound[None, : len(truth)], truth[None, : len(sound)])
            found[name].append((float(loss), timbre_distance(level * sound, truth)))
    return {name: np.array(values) for name, values in found.items() if values}


def with_noise(sound_N, seed):
    """The sound with white noise 40 dB below it."""
    noise = torch.randn(len(sound_N), generator=torch.Generator().manual_seed(seed))
    return sound_N + 10 ** (NOISE_DB / 20) * sound_N.square().mean().sqrt() * noise


def analysed(sound):
    """(f0, envelope, aperiodicity) by WORLD, its better pitch tracker."""
    values = np.asarray(sound, np.float64)
    own = {"f0_ceil": sf.F0_HIGH, "frame_period": FRAME_MS}  # its own ceiling is 800 Hz
    f0, at = pyworld.harvest(values, sf.SAMPLE_RATE, **own)
    rest = (pyworld.cheaptrick, pyworld.d4c)
    return f0, *(one(values, f0, at, sf.SAMPLE_RATE) for one in rest)


def place(f0, envelope):
    """Where frames lie, (frames, 2): semitones, and level in steps of 3 dB."""
    level_db = 10 * np.log10(envelope.sum(1) + 1e-12)
    return torch.tensor(np.stack([12 * np.log2(np.maximum(f0, 1) / 440), level_db / 3], 1))


def world_frames(sounds):
    """(places, log envelopes less their level, aperiodicities) of an instrument's pitched
    frames, every second one.
    """
    found = [analysed(sound) for sound in sounds]
    f0, envelope, rough = (np.concatenate(part) for part in zip(*found, strict=True))
    some = np.flatnonzero(f0 > 0)[::2]
    shape = np.log(envelope[some] / envelope[some].sum(1, keepdims=True))
    return place(f0[some], envelope[some]), shape, rough[some]


def world_transfer(source, known):
    """The source's pitch and level by WORLD, with the envelope of the instrument's frames that
    are nearest in pitch and level.
    """
    f0, own, _ = analysed(source)
    far = place(f0, own)
    far[:, 1] += known[0][:, 1].median() - far[f0 > 0, 1].median()  # as ours: to its loudness
    nearest = torch.cdist(far, known[0]).topk(NEAREST, largest=False).indices.numpy()
    shape = np.exp(known[1][nearest].mean(1))
    shape *= own.sum(1, keepdims=True) / shape.sum(1, keepdims=True)
    rough = np.where(f0[:, None] > 0, known[2][nearest].mean(1), 1.0)
    return _fitted(pyworld.synthesize(f0, shape, rough, sf.SAMPLE_RATE, FRAME_MS), len(source))


def world_copy(sound):
    """The sound analysed and put together again: what WORLD loses."""
    made = pyworld.synthesize(*analysed(sound), sf.SAMPLE_RATE, FRAME_MS)
    return _fitted(made, len(sound))


def _fitted(values, length):
    return torch.from_numpy(np.pad(values, (0, max(0, length - len(values))))[:length]).float()


def main(arguments=None):
    """Check, race, judge, print the tables and the receipt's path."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    receipt = receipts.start("tone_transfer", device.tier(), threads=options.threads)
    instrument, network = vt.load("shehnai"), ar.SampleBySample(64)
    sound = ins.tensor(ins.kept("oboe")[ins.HELD_OUT])
    one = tt.recording(sound)
    pairs = contestants(instrument, sound, one.f0[None], one.loudness[None], network)
    names = list(pairs)
    short = "decoder", "plain", "transfer", "analysis", "sample_by_sample"
    both = [pairs[name]() for name in names[:2]]
    check.close(*both, atol=1e-4, why="float32 sums of sixty partials in other orders")
    race = bench.race(pairs, repeats=options.rounds, reference=names[1])
    print(race)
    seconds = len(sound) / sf.SAMPLE_RATE
    for metric, name in zip(short, names, strict=True):
        receipt.record(f"{metric}_real_time", race.results[name], "× real time", count=seconds)
    receipt.record("over_plain", race.ratios[names[0]])
    slow, fast = (race.results[names[which]] for which in (-1, 0))
    receipt.record("over_sample_by_sample", bench.ratio(slow, fast))
    if ins.can_render():
        _judge(receipt, quality(instrument))
    sizes = {"weights": td.count(instrument.decoder), "sample_by_sample": td.count(network)}
    sizes["living"] = hs.living(one.f0, sf.SAMPLE_RATE)
    receipt.sizes(seconds=seconds, phrases=PHRASES, learned=LEARNED, **sizes)
    print(receipt.write(name="transfer"))


def _judge(receipt, found):
    for column, measure in enumerate(MEASURES):
        one = {name: values[:, column] for name, values in found.items()}
        gaps = {f"gap_to_{name}": one["ours"] - one[name] for name in one if name != "ours"}
        if (
            "world" in one
        ):  # the nearer transfer less the copy: above 0 by a measure that is fit
            gaps["copy_ahead"] = np.minimum(one["ours"], one["world"]) - one["world_copy"]
        for name, values in one.items():
            receipt.record(f"{measure}_{name}", float(values.mean()), measure)
        for name, values in gaps.items():
            gap, low, high = student(values)
            print(f"{measure}, {name}: {gap:+.2f}, {low:+.2f} to {high:+.2f}")
            told = f"{measure}_{name}", gap, measure, low, high, len(values)
            receipt.record(*told, interval="95 %")


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="interleaved (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="the claim is about one core")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
