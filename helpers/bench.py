"""Measurements: warm-up, median and its 95 % interval, peak memory, the device's peak rates; CUDA events on a GPU."""

import contextlib
import math
import re
import statistics
import sys
import time
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path

from helpers import device as _device
from helpers.show import Table, number

ENDS = {"95 %": "95 % interval", "90 %": "90 % interval", "range": "range", "quartiles": "quartiles", "exact": "exact"}
Spread = namedtuple("Spread", "median low high repeats interval")  # `interval`, a key of ENDS, says what the ends are
Peak = namedtuple("Peak", "copy_bytes_per_s matmul_flops_per_s device dtype")
_peaks, _marks = {}, {}  # (device, dtype) -> Peak; device -> memory mark before it was last set back


class Ratio(Spread):
    """A Spread of times, reference to contestant, taken round by round: above 1 is faster."""


def spread(values):
    """The Spread of numbers: median and its 95 % interval by ranks, of any distribution: `spread(range(20)).low == 5`;
    of fewer than six the "range", smallest and largest. ValueError for none.
    """
    ranked = sorted(map(float, values))
    if not ranked:
        raise ValueError("a spread of no numbers was asked for; at least one is needed")
    count, skip, outside = len(ranked), 0, 0.0
    while (outside := outside + 2 * math.comb(count, skip) / 2**count) <= 0.05:
        skip += 1
    low, high = ranked[max(0, skip - 1)], ranked[-max(1, skip)]
    return Spread(statistics.median(ranked), low, high, count, "95 %" if skip else "range")


def ratio(reference, found, factor=1.0):
    """The Ratio of two Measurements, `factor` × reference to found; ValueError unless repeats are equally many."""
    pairs = zip(reference.times_s, found.times_s, strict=True)
    return Ratio(*spread(factor * theirs / own for theirs, own in pairs))


@dataclass(frozen=True, repr=False)
class Measurement(Table):
    """The times of a function in seconds; `peak_bytes`: held by torch on a GPU, else the rise of memory, or None."""

    median_s: float
    low_s: float
    high_s: float
    times_s: tuple
    peak_bytes: int | None
    device: str

    @property
    def interval(self):
        """What `low_s` and `high_s` are: "95 %" of the median, or with fewer than six repeats the "range"."""
        return spread(self.times_s).interval

    def table(self):
        """The parts of its table (see `show.Table`)."""
        rows = [("median time", number(self.median_s, "s")), (ENDS[self.interval], _range(self))]
        if self.peak_bytes is not None:
            kind = "held by torch, inputs included" if "cuda" in self.device else "rise of resident memory"
            rows.append(("peak memory", f"{number(self.peak_bytes, 'B')} ({kind})"))
        return "measurement", ("measured", "here"), rows, f"{len(self.times_s)} repeats on {self.device}."


@dataclass(frozen=True, repr=False)
class Race(Table):
    """Contestants timed in one run: `results` (Measurement) and `ratios` (Ratio) by name, and the `reference`."""

    results: dict
    ratios: dict
    reference: str

    def table(self):
        """The parts of its table (see `show.Table`), fastest first."""
        rows, base, odd = [], self.results[self.reference].median_s, ""
        for name, found in sorted(self.results.items(), key=lambda item: item[1].median_s):
            ratio = self.ratios[name]
            if not 0.8 < base / found.median_s / ratio.median < 1.25:
                odd = " Some medians say otherwise, since the machine's speed changed between rounds."
            ends = f"{number(ratio.low)} to {number(ratio.high)}"
            rows.append((name, number(found.median_s, "s"), _range(found), number(ratio.median, "×"), ends))
        ends = ENDS[ratio.interval]
        head = ("contestant", "median time", ends, "times as fast", f"{ends} of the ratio")
        caption = f"{ratio.repeats} interleaved rounds on {found.device}; ratios, taken round by round, are "
        return "race", head, rows, f"{caption}{self.reference}'s time over the contestant's.{odd}"


def measure(fn, repeats=20, warmup=3, device=None):
    """A Measurement of `repeats` calls, after `warmup` untimed ones (at least one); ValueError as `race` raises it."""
    return race({"fn": fn}, repeats, warmup, device=device).results["fn"]


def race(contestants, repeats=20, warmup=3, reference=None, device=None):
    """A Race of functions timed in turn: every round calls each once, beginning with the next one each time.
    `race({"ours": ours, "SciPy": scipys}, reference="SciPy").ratios["ours"].median`: within a round, so that a drifting
    clock slows all alike; default: the first. ValueError: repeated or unknown names, no repeat, a negative warm-up.
    """
    pairs = list(contestants.items() if hasattr(contestants, "items") else contestants)
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names) or not names:
        raise ValueError(f"contestants {names}: at least one is needed, each with a name of its own")
    if (reference := names[0] if reference is None else reference) not in names:
        raise ValueError(f"reference {reference!r} is no contestant; they are {names}")
    if repeats < 1 or warmup < 0:
        raise ValueError(f"repeats={repeats}, warmup={warmup}: at least 1 and 0 are allowed")
    where = str(_device.device(device))
    memory = {name: _memory_of(fn, max(1, warmup), where) for name, fn in pairs}
    times = {name: [] for name in names}
    for _ in range(repeats):
        for name, fn in pairs:
            times[name].append(_time_once(fn, where))
        pairs = pairs[1:] + pairs[:1]
    results = {name: Measurement(*spread(took)[:3], tuple(took), memory[name], where) for name, took in times.items()}
    return Race(results, {name: ratio(results[reference], found) for name, found in results.items()}, reference)


def peak(device=None, dtype="float32"):
    """The Peak of a device, once a process: best of six copies (read and written bytes) and six matrix products."""
    import torch

    where = str(_device.device(device))
    if (where, dtype) not in _peaks:
        gpu = where.startswith("cuda")
        source = torch.ones(2**30 if gpu else 2**27, dtype=torch.uint8, device=where)
        target = torch.empty_like(source)
        copy_s = min(_time_once(lambda: target.copy_(source), where) for _ in range(6))
        side = 8192 if gpu else 1024
        square = torch.ones(side, side, dtype=getattr(torch, dtype), device=where)
        product_s = min(_time_once(lambda: square @ square, where) for _ in range(6))
        _peaks[where, dtype] = Peak(2 * source.numel() / copy_s, 2 * side**3 / product_s, where, dtype)
    return _peaks[where, dtype]


def peak_memory(where="cpu"):
    """The most bytes held in the whole run: by torch on a GPU, by this process on a CPU (Linux; else None)."""
    mark = _memory_mark(str(where))
    return mark and max(mark, _marks.get(str(where), 0))


def _memory_of(fn, calls, where):
    _marks[where] = peak_memory(where) or 0  # kept: setting the mark back must not lose the run's peak
    start = 0
    if where.startswith("cuda"):
        sys.modules["torch"].cuda.reset_peak_memory_stats(where)
    else:
        with contextlib.suppress(OSError):  # where it cannot be set back, the rise is a lower bound
            Path("/proc/self/clear_refs").write_text("5")  # the mark falls to what is resident now
        start = _memory_mark(where)
    for _ in range(calls):
        fn()
    _device.synchronize(where)
    return None if start is None else _memory_mark(where) - start


def _memory_mark(where):
    if where.startswith("cuda"):
        return sys.modules["torch"].cuda.max_memory_allocated(where)
    with contextlib.suppress(OSError):  # Linux alone keeps such a mark
        return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024


def _time_once(fn, where):
    if not where.startswith("cuda"):
        start = time.perf_counter()
        fn()
        return time.perf_counter() - start
    cuda = sys.modules["torch"].cuda
    with cuda.device(where):
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda.synchronize()
        start.record()
        fn()
        end.record()
        end.synchronize()
    return start.elapsed_time(end) / 1e3


def _range(found):
    return f"{number(found.low_s, 's')} to {number(found.high_s, 's')}"
