"""The race: one query against every window of a long ECG, by four formulations, on the same
data in the same run.

    python bench_rolling_distance.py            # this machine's tier, 20 rounds; a receipt
    python bench_rolling_distance.py --points 1000000 --rounds 5

Contestants return z-normalised distances of every window, their statistics included unless
the name says otherwise.
"""

import argparse
import functools
import os

import mitbih
import numpy as np
import rolling_distance as rd
import scipy.ndimage
import scipy.signal
import stumpy
import torch
from helpers import bench, data, device, receipts, root

QUERY = slice(300_000, 300_421)  # as long as the article's


def stumpy_ready(query, stream):
    """`stumpy.mass` twice: means and deviations computed before the clock starts; then
    constant windows too."""
    mean, std = stumpy.core.compute_mean_std(stream, len(query))
    constant = stumpy.core.rolling_isconstant(stream, len(query))
    return {
        "stumpy.mass, μ and σ ready": lambda: stumpy.mass(query, stream, M_T=mean, Σ_T=std),
        "stumpy.mass, all ready": lambda: stumpy.mass(
            query, stream, M_T=mean, Σ_T=std, T_subseq_isconstant=constant
        ),
    }


def scipy_zdist(query, stream):
    """Overlap-add convolution and running means, as SciPy offers them; distances, not
    squared."""
    length = len(query)
    kept = slice(length // 2, length // 2 + len(stream) - length + 1)
    stream = stream - stream.mean()
    mean = scipy.ndimage.uniform_filter1d(stream, length)[kept]
    power = scipy.ndimage.uniform_filter1d(stream * stream, length)[kept]
    unit = (query - query.mean()) / query.std()
    dots = scipy.signal.oaconvolve(stream, unit[::-1], mode="valid")
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(
            np.maximum(2 * (length - dots / np.sqrt(np.maximum(power - mean * mean, 0))), 0)
        )


def whole_length_zdist(query_M, stream_N):
    """The article's formulation: one FFT of the whole padded stream, prefix sums from end
    to end; squared."""
    length, total = len(query_M), len(stream_N)
    padded = -(-total // 10_000) * 10_000
    unit_M = (query_M - query_M.mean()) / query_M.std(correction=0)
    spectrum = torch.fft.rfft(stream_N, n=padded) * torch.fft.rfft(unit_M, n=padded).conj()
    dots_W = torch.fft.irfft(spectrum, n=padded)[: total - length + 1]
    sums = [
        torch.nn.functional.pad(x.cumsum(0), (1, 0)) for x in (stream_N, stream_N * stream_N)
    ]
    sum_W, squares_W = (s[length:] - s[:-length] for s in sums)
    std_W = (squares_W / length - (sum_W / length) ** 2).clamp_(min=0).sqrt_()
    return torch.where(std_W > 0, 2 * (length - dots_W / std_W), float(length))


def contestants(query, stream, device="cpu"):
    """The functions to race by name, for a query (M,) and a stream (N,), NumPy float64.

    On a GPU the stream is resident and only torch's two formulations take part; stumpy and
    SciPy compute on the CPU.
    """
    pairs = {}
    for name, dtype in (("float64", torch.float64), ("float32", torch.float32)):
        query_M, stream_N = (
            torch.as_tensor(x, dtype=dtype, device=device) for x in (query, stream)
        )
        pairs[f"ours, {name}"] = lambda q=query_M, s=stream_N: rd.zdist(q, s)
        pairs[f"whole-length FFT, {name}"] = lambda q=query_M, s=stream_N: whole_length_zdist(
            q, s
        )
    if str(device) == "cpu":
        pairs |= stumpy_ready(query, stream)
        pairs["SciPy, float64"] = lambda: scipy_zdist(query, stream)
    return pairs


def main(argv=None):
    """Race at this machine's size and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--points",
        type=int,
        help="stream length; the recordings are repeated when it is longer",
    )
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args(argv)
    tier = device.tier()
    receipt = receipts.start("rolling_distance", tier)
    os.environ.setdefault("REBUILT_RECEIPTS", str(root() / "_build" / "receipts" / "bench"))
    points = args.points or tier.pick(cpu=6_500_000, gpu=6_500_000, big=20_140_000)
    stream = mitbih.long_stream(data.fetch("mitbih"), points)
    query = stream[QUERY].copy()
    race = bench.race(
        contestants(query, stream, tier.device),
        repeats=args.rounds,
        reference="ours, float64",
    )
    print(race)
    record_race(receipt, race, points)
    query_M, stream_N = (torch.as_tensor(x, device=tier.device) for x in (query, stream))
    record_rates(receipt, query_M, stream_N, args.rounds)
    print(receipt.write())


def record_rates(receipt, query_M, stream_N, rounds):
    """Record the float64 rates of `sdist` and `mdist`, as `record_race` that of `zdist`."""
    for name in ("sdist", "mdist"):
        call = functools.partial(getattr(rd, name), query_M, stream_N)
        timed = bench.measure(call, repeats=rounds, warmup=1)
        receipt.record(f"{name}_float64_rate", timed, "alignments/s", count=len(stream_N))


def record_race(receipt, race, points):
    """Record rates in alignments a second, and how many times as fast as stumpy each of
    ours is, round by round."""
    for name in ("float64", "float32"):
        ours = race.results[f"ours, {name}"]
        receipt.record(f"zdist_{name}_rate", ours, "alignments/s", count=points)
        for metric, peer in (
            ("stumpy", "stumpy.mass, μ and σ ready"),
            ("ready_stumpy", "stumpy.mass, all ready"),
        ):
            if peer in race.results:
                rounds = zip(race.results[peer].times_s, ours.times_s, strict=True)
                low, median, high = np.quantile(
                    [theirs / mine for theirs, mine in rounds], [0.25, 0.5, 0.75]
                )
                receipt.record(
                    f"speedup_over_{metric}_{name}",
                    median,
                    "×",
                    low,
                    high,
                    len(ours.times_s),
                )


if __name__ == "__main__":
    main()
