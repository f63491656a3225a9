"""The race for features: ours against librosa's, same utterances, same run, checked before.

    python -m quartznet.bench_quartznet    # from the slice's folder; 20 rounds; a receipt

librosa gets its fastest road to the same numbers: the whole batch as one array, complex64, its
transform, its filters made once, the same pre-emphasis and normalisation in NumPy. PyTorch and
the library behind NumPy's products get the same threads: one, then `--threads`. On a GPU ours
runs there, on resident samples, librosa on the CPU."""

import argparse
import dataclasses
import functools

import librosa
import numpy as np
import threadpoolctl
import torch
from helpers import bench, check, device, receipts
from scipy.signal.windows import hann

from .features import log_mel

filters = functools.cache(librosa.filters.mel)  # made once, as ours are


def librosa_log_mel(signal_BN):
    """NeMo's features by librosa, of a float32 batch (B, N) of full length: (B, 64, T)."""
    lifted = signal_BN[:, 1:] - np.float32(0.97) * signal_BN[:, :-1]
    emphasised = np.concatenate([signal_BN[:, :1], lifted], 1)
    options = {"n_fft": 512, "hop_length": 160, "win_length": 320, "pad_mode": "constant"}
    window = hann(320, sym=True).astype(np.float32)
    power = np.abs(librosa.stft(emphasised, window=window, **options)) ** 2
    mel = filters(sr=16_000, n_fft=512, n_mels=64) @ power[:, :, : signal_BN.shape[1] // 160]
    logs = np.log(mel + np.float32(2**-24))
    deviation = logs.std(2, keepdims=True, ddof=1) + np.float32(1e-5)
    return (logs - logs.mean(2, keepdims=True)) / deviation


def contestants(signal_BN, where="cpu"):
    """The functions to race by name, for a float32 array (B, N); checked to agree."""
    resident_BN = torch.as_tensor(signal_BN, device=where)
    lengths_B = torch.full((len(signal_BN),), signal_BN.shape[1])  # on the host: no wait

    def ended(found):  # by the wall, so the device must have ended, too
        device.synchronize(where)
        return found

    pairs = {
        "ours": lambda: ended(log_mel(resident_BN, lengths_B)[0]),
        "ours, one by one": lambda: ended([log_mel(x_N[None])[0] for x_N in resident_BN]),
        "librosa": lambda: librosa_log_mel(signal_BN),
        "librosa, one by one": lambda: [librosa_log_mel(x_N[None]) for x_N in signal_BN],
    }
    # a quiet band's logarithm carries the rounding of the whole frame's energy
    check.close(pairs["ours"]().cpu(), pairs["librosa"](), atol=5e-3, why="float32")
    return pairs


def noise_and_tones(utterances, seconds, seed=0):
    """A batch of float32 samples with energy in every band, (utterances, seconds x 16,000)."""
    rng, time = np.random.default_rng(seed), np.arange(round(seconds * 16_000)) / 16_000
    tones = 0.1 * np.sin(2 * np.pi * rng.uniform(100, 3000, (utterances, 1)) * time)
    return (tones + 0.01 * rng.standard_normal((utterances, len(time)))).astype(np.float32)


def main(argv=None):
    """Race at this machine's size and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--utterances", type=int)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    args = parser.parse_args(argv)
    tier = device.tier()
    receipt = receipts.start("asr_finetuning", tier, threads=args.threads)
    utterances = args.utterances or tier.pick(cpu=16, gpu=128, big=512)
    signal_BN = noise_and_tones(utterances, args.seconds)
    for threads in sorted({1, args.threads}):
        race = race_at(threads, signal_BN, args.rounds, tier.device)
        print(race)
        record_race(receipt, race, utterances * args.seconds, threads)
    receipt.sizes(utterances=utterances, seconds=args.seconds)
    print(receipt.write(name="features"))


def race_at(threads, signal_BN, rounds, where="cpu"):
    """The Race of all contestants with that many threads each, timed by the wall: librosa has
    no GPU, and is not said to run on one."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpoolctl.threadpool_limits(threads):
            pairs = contestants(signal_BN, where)
            race = bench.race(pairs, rounds, reference="librosa", device="cpu")
    finally:
        torch.set_num_threads(before)
    for name in [name for name in pairs if name.startswith("ours")]:
        race.results[name] = dataclasses.replace(race.results[name], device=str(where))
    return race


def record_race(receipt, race, seconds, threads):
    """Record seconds of speech a second, and how many times as fast ours is in each round, as
    `features_speedup_2_threads` and the like."""
    at = f"{threads}_threads"
    receipt.record(f"features_rate_{at}", race.results["ours"], "s of speech/s", count=seconds)
    for name, metric in (("librosa", "speedup"), ("librosa, one by one", "speedup_one_by_one")):
        gain = bench.ratio(race.results[name], race.results["ours"])
        receipt.record(f"features_{metric}_{at}", gain)


if __name__ == "__main__":
    main()
