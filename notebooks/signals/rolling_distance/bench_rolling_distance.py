"""The race: one query against every window of a long ECG, by four formulations, on the same
data in the same run; then the modes by the length of the query.

    python -m bench_rolling_distance --points 1000000 --rounds 5 --threads 1

Contestants return z-normalised distances of every window, their statistics included unless the
name says otherwise. They must agree before they are timed. All take their memory from one heap;
each runs on all threads and on one, and its better time counts. stumpy takes part where it is
installed; the chapter's page shows the recorded race, and runs a short one.
"""

import argparse
import contextlib
import ctypes
import functools
import sys
from unittest import mock

import mitbih
import numpy as np
import overlap_save
import rolling_distance as rd
import scipy.fft
import scipy.ndimage
import scipy.signal
import torch
from helpers import bench, check, data, device, receipts

QUERY = slice(300_000, 300_421)  # as long as the article's
LENGTHS = [8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 421, 1024, 2048]
LENGTHS_POINTS = 600_000
LABELS = {
    "ours_float64": "ours, float64",
    "sdist": "ours, float64, sdist",
    "mdist": "ours, float64, mdist",
    "ours_float32": "ours, float32",
    "torch_float64": "ours, float64, passes by torch",
    "torch_float32": "ours, float32, passes by torch",
    "whole_float64": "whole-length FFT, float64",
    "whole_float32": "whole-length FFT, float32",
    "scipy": "SciPy, float64",
    "stumpy": "stumpy.mass, μ and σ ready",
    "ready_stumpy": "stumpy.mass, all ready",
}  # the name of a contestant's metric, and what tables say


def keep_memory(count):
    """None; from now on this process keeps what it frees, `count` bytes of it in huge pages.

    Else a large array goes back to the system, and the next is paid for page by page; and NumPy
    alone asks for huge pages. Only glibc can be told so.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-4, 0)  # M_MMAP_MAX: everything from the heap,
        mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: which does not shrink
        np.empty(count, np.uint8)


def on_threads(count, call):
    """`call` on so many threads of torch, numba and SciPy."""

    def run():
        if numba := sys.modules.get("numba"):  # first: when it starts, it sets OpenMP's number
            numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
        torch.set_num_threads(count)
        with scipy.fft.set_workers(count):
            return call()

    return run


def scipy_zdist(query, stream):
    """Overlap-add convolution and running means, as SciPy offers them; not squared."""
    length = len(query)
    kept = slice(length // 2, length // 2 + len(stream) - length + 1)
    stream = stream - stream.mean()
    mean = scipy.ndimage.uniform_filter1d(stream, length)[kept]
    power = scipy.ndimage.uniform_filter1d(stream * stream, length)[kept]
    unit = (query - query.mean()) / query.std()
    dots = scipy.signal.oaconvolve(stream, unit[::-1], mode="valid")
    std = np.sqrt(np.maximum(power - mean * mean, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(np.maximum(2 * (length - dots / std), 0))


def whole_length_zdist(query_M, stream_N):
    """The article's formulation: one FFT of the whole padded stream, prefix sums from end to
    end; squared."""
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


def stumpy_ready(query, stream):
    """`stumpy.mass` twice: means and deviations computed before the clock starts; then
    constant windows too. Nothing where stumpy is not installed."""
    try:
        import stumpy
    except ImportError:
        return {}
    mean, std = stumpy.core.compute_mean_std(stream, len(query))
    constant = stumpy.core.rolling_isconstant(stream, len(query))
    ready = functools.partial(stumpy.mass, query, stream, M_T=mean, Σ_T=std)
    all_ready = functools.partial(ready, T_subseq_isconstant=constant)
    return {LABELS["stumpy"]: ready, LABELS["ready_stumpy"]: all_ready}


def contestants(query, stream, device="cpu"):
    """The functions to race by name, for a query (M,) and a stream (N,), NumPy float64. On a
    GPU the stream is resident and only torch's two formulations take part."""
    pairs = {}
    for name, dtype in (("float64", torch.float64), ("float32", torch.float32)):
        given = [torch.as_tensor(x, dtype=dtype, device=device) for x in (query, stream)]
        ways = {f"ours_{name}": rd.zdist, f"whole_{name}": whole_length_zdist}
        if overlap_save.compiles(given[1].device):
            by_torch = mock.patch.object(overlap_save, "compiled_passes", None)
            ways[f"torch_{name}"] = by_torch(rd.zdist)
        if dtype == torch.float64:
            ways |= {"sdist": rd.sdist, "mdist": rd.mdist}
        pairs |= {LABELS[way]: functools.partial(call, *given) for way, call in ways.items()}
    if str(device) == "cpu":
        pairs |= {LABELS["scipy"]: functools.partial(scipy_zdist, query, stream)}
        pairs |= stumpy_ready(query, stream)
    return pairs


def differences(query, stream):
    """The largest differences of ours from the others, as a dict by metric; `check.Failed`
    beyond 1e-6 in float64, and 1e-3 (relative) in float32 on the same float32 data. Of
    distances, not squared, of at least 0.01: below, the query meets itself, and ours says zero.
    """
    found = {}
    for dtype, limit in ((np.float64, 1e-6), (np.float32, 1e-3)):
        q, s = query.astype(dtype), stream.astype(dtype)
        ours, wide = np.sqrt(rd.zdist(q, s)), (q.astype(np.float64), s.astype(np.float64))
        ready = list(stumpy_ready(*wide).values())
        theirs = {"scipy": scipy_zdist(*wide)} | ({"stumpy": ready[0]()} if ready else {})
        for name, other in theirs.items():
            far = other > 0.01
            gap = np.abs(ours - other)[far] / (1 if dtype is np.float64 else other[far])
            told = f"{dtype.__name__}: {gap.max():.1e} from {name}, allowed is {limit}"
            check.that(gap.max() < limit, told)
            found[f"difference_to_{name}_{dtype.__name__}"] = gap.max()
    return found


def by_length(stream_N, lengths, rounds):
    """The least seconds of each way, which other programs disturb least, as lists by query
    length: `naive` (NaN beyond 2,048 points), `whole` (one FFT) and `fft` (blocks)."""
    seconds = {"naive": [], "whole": [], "fft": []}
    for length in lengths:
        query_M = stream_N[1000 : 1000 + length].clone()
        modes = ("naive", "fft") if length <= 2048 else ("fft",)
        ways = {mode: functools.partial(rd.zdist, query_M, stream_N, mode) for mode in modes}
        ways["whole"] = functools.partial(whole_length_zdist, query_M, stream_N)
        timed = bench.race(ways, repeats=rounds, warmup=1).results
        for way, found in seconds.items():
            found.append(min(timed[way].times_s) if way in timed else np.nan)
    return seconds


def raced(racing, rounds, threads):
    """Measurements of contestants on each number of `threads`, by (name, number)."""
    pairs = {(name, n): on_threads(n, call) for name, call in racing.items() for n in threads}
    results = bench.race(pairs, repeats=rounds, warmup=1).results
    torch.set_num_threads(max(threads))
    return results


def record_race(receipt, results, points):
    """The better `bench.Measurement` of each contestant by name, of those that `raced` found;
    records these, our rates in alignments per second, and how many times as fast as its peers
    ours is, round by round. `check.Failed` where more threads make nothing faster."""
    ranked = sorted(results.items(), key=lambda item: -item[1].median_s)
    best = {name: (found, threads) for (name, threads), found in ranked}  # the last is fastest
    for key, label in LABELS.items():
        if label in best:
            receipt.record(f"time_{key}", best[label][0], note=f"threads: {best[label][1]}")
    for kind in ("float64", "float32"):
        ours = best[LABELS[f"ours_{kind}"]][0]
        for measure in ("sdist", "mdist", "zdist") if kind == "float64" else ("zdist",):
            timed, *_ = best.get(LABELS.get(measure), (ours,))
            receipt.record(f"{measure}_{kind}_rate", timed, "alignments/s", count=points)
        for peer in ("stumpy", "ready_stumpy", "scipy", f"whole_{kind}", f"torch_{kind}"):
            if LABELS[peer] in best:
                metric = f"speedup_over_{peer.removesuffix(f'_{kind}')}_{kind}"
                receipt.record(metric, bench.ratio(best[LABELS[peer]][0], ours))
    if len(counts := {threads for _, threads in results}) > 1:
        keys = "ours_float64", "whole_float64"
        ends = {key: [results[LABELS[key], n] for n in sorted(counts)] for key in keys}
        gains = {key: bench.ratio(alone, of_all) for key, (alone, of_all) in ends.items()}
        for key, gain in gains.items():
            receipt.record(f"gain_by_threads_{key}", gain)
        check.that(max(g.low for g in gains.values()) > 1, "more threads, none faster")
    return {name: found for name, (found, _) in best.items()}


def main(argv=None):
    """Check, race at this machine's size and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--points", type=int, help="stream length; recordings are repeated")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    tier = device.tier()
    receipt = receipts.start("rolling_distance", tier, args.threads)
    points = args.points or tier.pick(cpu=6_500_000, gpu=6_500_000, big=20_140_000)
    receipt.sizes(points=points, query=QUERY.stop - QUERY.start, rounds=args.rounds)
    stream = mitbih.long_stream(data.fetch("mitbih"), points)
    query = stream[QUERY].copy()
    for metric, gap in differences(query, stream[:1_000_000]).items():
        receipt.record(metric, gap, "absolute" if metric.endswith("64") else "relative")
    keep_memory(128 * points)
    racing = contestants(query, stream, tier.device)
    if LABELS["stumpy"] not in racing:
        print("stumpy is not installed here: the race is run without it")
    threads = {args.threads, 1} if tier.device == "cpu" else {args.threads}
    record_race(receipt, raced(racing, args.rounds, threads), points)
    print(*(f"{key}: {receipts.text(one)}" for key, one in receipt.metrics.items()), sep="\n")
    for dtype in (torch.float64, torch.float32):
        part_N = torch.as_tensor(stream[:LENGTHS_POINTS], dtype=dtype, device=tier.device)
        found = by_length(part_N, LENGTHS, args.rounds)
        receipt.curve(f"lengths_{dtype}".replace("torch.", ""), points=LENGTHS, **found)
    print(receipt.write("race" if args.threads == device.cores() else f"race_{args.threads}"))


if __name__ == "__main__":
    main()
