"""The race: pitch against Praat and librosa, and Griffin-Lim against librosa's; checked first,
then timed in turn.

In the slice's folder, a receipt or a quick look:

    python -m speech_scores.bench_speech_scores
    python -m speech_scores.bench_speech_scores --rounds 2
"""

import argparse
import math

import librosa
import numpy as np
import torch
from helpers import bench, check, device, receipts
from vdtts import griffin_lim

from . import cepstra, f0_track, gross_pitch_error, warping_path

RATE_HZ = 16_000


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
            pitch = parselmouth.Sound(sound, RATE_HZ).to_pitch_ac(
                0.01, 70.0, pitch_ceiling=450.0
            )
            return np.interp(at_s, pitch.xs(), pitch.selected_array["frequency"])

        found["Praat"] = praat

    def yin():
        f0 = librosa.yin(
            sound, fmin=70, fmax=450, sr=RATE_HZ, frame_length=1024, hop_length=160
        )
        return np.interp(at_s, np.arange(len(f0)) / 100, f0)

    return found | {"librosa yin": yin}


def main(arguments=None):
    """Check, race, print the tables and the receipt's path."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    sound, true = glide(options.seconds)
    pitch = pitch_contestants(sound)
    for name, track in pitch.items():
        wrong = gross_pitch_error(track()[5:-5], true[5:-5])
        check.that(wrong == 0, f"{name} is off by a fifth in {wrong:.1%} of the frames")
    _check_scores()
    receipt = receipts.start("visual_tts", device.tier(), threads=options.threads)
    receipt.sizes(seconds=options.seconds)
    for name, race in (
        ("pitch", bench.race(pitch, repeats=options.rounds, reference="librosa yin")),
        ("vocoder", _vocoders(sound, options.rounds)),
    ):
        print(race)
        receipt.record(f"{name}_speedup", race.ratios["ours"])
    print(receipt.write(name="scores"))


def _vocoders(sound, rounds):
    """Griffin-Lim, the same rounds and momentum; librosa's has its own start."""
    magnitude = np.abs(librosa.stft(sound.astype(np.float32), n_fft=1024, hop_length=160))
    tensor = torch.from_numpy(magnitude)[None, :, :-1]
    pairs = {"ours": lambda: griffin_lim(tensor, 20)}
    pairs["librosa"] = lambda: librosa.griffinlim(
        magnitude, n_iter=20, hop_length=160, n_fft=1024, random_state=0
    )
    off = {}
    for name, call in pairs.items():
        made = np.asarray(call()).reshape(-1)
        again = np.abs(librosa.stft(made, n_fft=1024, hop_length=160))[:, : tensor.shape[-1]]
        off[name] = float(
            np.linalg.norm(again - magnitude[:, : again.shape[1]]) / np.linalg.norm(magnitude)
        )
    check.that(off["ours"] < 1.2 * off["librosa"], f"equal quality: {off}")
    return bench.race(pairs, repeats=rounds, reference="librosa")


def _check_scores():
    rng = np.random.default_rng(0)
    values, cost = rng.normal(size=(5, 80)), rng.random((40, 30))
    theirs = librosa.feature.mfcc(S=2 * values.T, n_mfcc=14, dct_type=2, norm="ortho")[
        1:
    ].T / math.sqrt(160)
    check.close(cepstra(values), theirs, atol=1e-12, why="one sum, another scale")
    path = warping_path(cost)
    check.close(
        cost[path[:, 0], path[:, 1]].sum(),
        librosa.sequence.dtw(C=cost)[0][-1, -1],
        atol=1e-9,
        why="float64 sums",
    )


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--rounds", type=int, default=20, help="interleaved rounds (default: %(default)s)"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=device.cores(),
        help="default: the cores this process may use",
    )
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="of sound (default: %(default)s)"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
