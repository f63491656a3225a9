"""The race: pitch against Praat and librosa, and Griffin-Lim against librosa's; checked first,
then timed in turn, on one thread: the peers use no second one.

In the slice's folder, a receipt or a quick look:

    python -m speech_scores.bench_speech_scores
    python -m speech_scores.bench_speech_scores --rounds 2
"""

import argparse

import librosa
import numpy as np
import torch
from helpers import bench, check, device, receipts
from vdtts import griffin_lim

from . import f0_track

RATE_HZ, SECONDS = 16_000, 10.0
WORST = 0.005  # of a pitch, by which a contestant may be off in any frame of the glide


def glide(seconds, first_hz=100.0, last_hz=280.0):
    """A sound of eight harmonics whose pitch glides, and its pitch at each 10 ms."""
    f0 = np.geomspace(first_hz, last_hz, round(seconds * RATE_HZ))
    phase = 2 * np.pi * np.cumsum(f0) / RATE_HZ
    return sum(np.sin(k * phase) / k for k in range(1, 9)) * 0.1, f0[80::160]


def pitch_contestants(sound):
    """{name: function that returns the pitch at the middle of each 10 ms}. A peer that is not
    installed is left out.
    """
    at_s = np.arange(len(sound) // 160) / 100 + 0.005
    found = {"ours": lambda: f0_track(sound)}
    try:
        import parselmouth
    except ImportError:
        print("praat-parselmouth is not installed: left out")
    else:

        def praat():
            whole = parselmouth.Sound(sound, RATE_HZ)
            pitch = whole.to_pitch_ac(0.01, 70.0, pitch_ceiling=450.0)
            return np.interp(at_s, pitch.xs(), pitch.selected_array["frequency"])

        found["Praat"] = praat

    def yin():
        how = {"sr": RATE_HZ, "frame_length": 1024, "hop_length": 160}
        f0 = librosa.yin(sound, fmin=70, fmax=450, **how)
        return np.interp(at_s, np.arange(len(f0)) / 100, f0)

    return found | {"librosa yin": yin}


def main(arguments=None):
    """Check, race, print the tables and the receipt's path."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="interleaved rounds")
    parser.add_argument("--threads", type=int, default=1, help="the peers use one")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    receipt = receipts.start("visual_tts", device.tier(), threads=options.threads)
    sound, true = glide(SECONDS)
    pitch = pitch_contestants(sound)
    for name, track in pitch.items():
        off = float(np.abs(track()[5:-5] / true[5:-5] - 1).max())
        check.that(off < WORST, f"{name} is off by {off:.1%} of the pitch in a frame")
    receipt.sizes(seconds=SECONDS)
    races = {"pitch": bench.race(pitch, repeats=options.rounds, reference="librosa yin")}
    vocoders = vocoder_contestants(sound)
    races["vocoder"] = bench.race(vocoders, repeats=options.rounds, reference="librosa")
    for name, race in races.items():
        print(race)
        receipt.record(f"{name}_speedup", race.ratios["ours"])
        if "Praat" in race.ratios:
            receipt.record("praat_speedup", race.ratios["Praat"])
    print(receipt.write(name="scores"))


def vocoder_contestants(sound):
    """Griffin-Lim, the same rounds and momentum; each starts from phases of its own."""
    magnitude = np.abs(librosa.stft(sound.astype(np.float32), n_fft=1024, hop_length=160))
    tensor = torch.from_numpy(magnitude)[None, :, :-1]
    same = {"n_iter": 20, "hop_length": 160, "n_fft": 1024, "random_state": 0}
    pairs = {"ours": lambda: griffin_lim(tensor, 20)}
    pairs["librosa"] = lambda: librosa.griffinlim(magnitude, **same)
    off = {}
    for name, call in pairs.items():
        made = np.asarray(call()).reshape(-1)
        again = np.abs(librosa.stft(made, n_fft=1024, hop_length=160))[:, : magnitude.shape[1]]
        off[name] = float(np.linalg.norm(again - magnitude[:, : again.shape[1]]))
    check.that(off["ours"] < 1.2 * off["librosa"], f"equal quality: {off}")
    return pairs


if __name__ == "__main__":
    main()
