"""From waves to hits and patches: shared noise removed, pulses undone, charge found, cut out.

A wave is charge convolved with a known pulse. Divided by the pulse's spectrum, it is charge
again, where the pulse has a spectrum to divide by: the quotient is damped where noise would be
all that is left (Wiener's idea with one constant), and smoothed by a Gaussian. A pulse of both
signs has nothing at frequency zero, so induction planes lose the mean of long pulses.

Legend: W wires, N ticks, T pixels along time, H hits, S side of a patch (48).
"""

from collections import namedtuple

import numpy as np
import torch
from lartpc.detector import GROUP, TICKS_PER_PIXEL, pulse

SIDE, SCALE = 48, 30_000.0  # pixels; electrons that a crossing muon leaves on one wire, about
SMOOTH_TICKS, DAMPING = 2.0, 0.02
LONGEST = 16  # ticks of one hit; a longer pulse is cut into several


# H hits of a plane, each (H,): pixels are of TICKS_PER_PIXEL ticks, ticks weighted by charge
Hits = namedtuple("Hits", "wire pixel tick electrons")


def remove_shared_noise(wave_WN):
    """The waves less the median of each group of 32 wires, at each tick. Where a sixth of a
    group's wires are loud, it keeps its median: a track in the plane of the wires would go with
    the noise."""
    found = wave_WN.copy()
    for first in range(0, len(wave_WN), GROUP):
        group = found[first : first + GROUP]
        spread = 1.4826 * np.median(np.abs(group))
        loud = (np.abs(group) > 4 * spread).mean(0) > 1 / 6
        group -= np.where(loud, 0, np.median(group, axis=0))
    return found


def deconvolve(wave_WN, plane):
    """Electrons by wire and tick, float32 (W, N); the same FFT length as the wave's."""
    ticks = wave_WN.shape[1]
    response = np.fft.rfft(pulse(plane, ticks))
    power = np.abs(response) ** 2
    smooth = np.exp(-((2 * np.pi * SMOOTH_TICKS * np.fft.rfftfreq(ticks)) ** 2) / 2)
    undo = response.conj() / (power + DAMPING**2 * power.max()) * smooth
    return np.fft.irfft(np.fft.rfft(wave_WN) * undo, n=ticks).astype(np.float32)


def image_of(charge_WN):
    """Electrons by wire and pixel (W, T)."""
    wires, ticks = charge_WN.shape
    return charge_WN.reshape(wires, ticks // TICKS_PER_PIXEL, TICKS_PER_PIXEL).sum(2)


def find_hits(charge_WN, sigmas=5.0, least=4):
    """The Hits of a plane: stretches of at least `least` ticks above `sigmas` of a wire's own
    spread, by its median; stretches longer than `LONGEST` are cut evenly."""
    spread = 1.4826 * np.median(np.abs(charge_WN), axis=1, keepdims=True)
    above = np.pad(charge_WN > sigmas * np.maximum(spread, 1e-6), ((0, 0), (1, 1)))
    edges = np.diff(above.astype(np.int8), axis=1)
    wire, begin = np.nonzero(edges == 1)
    end = np.nonzero(edges == -1)[1]
    kept = end - begin >= least
    wire, begin, end = wire[kept], begin[kept], end[kept]
    pieces = -(-(end - begin) // LONGEST)
    index = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    repeated = (np.repeat(x, pieces) for x in (wire, begin, end - begin, pieces))
    wire, first, length, count = repeated
    begin, end = first + index * length // count, first + (index + 1) * length // count
    sums = np.pad(np.cumsum(charge_WN, 1, dtype=np.float64), ((0, 0), (1, 0)))
    ticks = np.arange(charge_WN.shape[1])
    moments = np.pad(np.cumsum(charge_WN * ticks, 1, dtype=np.float64), ((0, 0), (1, 0)))
    electrons = sums[wire, end] - sums[wire, begin]
    tick = (moments[wire, end] - moments[wire, begin]) / np.maximum(electrons, 1e-9)
    return Hits(wire, (tick // TICKS_PER_PIXEL).astype(int), tick, electrons)


def cut_patches(image_WT, hits):
    """Patches (H, 48, 48), float32, each with its hit at pixel (24, 24), zeros beyond the
    plane; 9,216 bytes each. Raises ValueError for hits outside of the image."""
    wires, pixels = image_WT.shape
    if len(hits.wire) and (hits.wire.max() >= wires or hits.pixel.max() >= pixels):
        came = f"hit at wire {hits.wire.max()}, pixel {hits.pixel.max()}"
        raise ValueError(f"{came}: the image has {wires} wires and {pixels} pixels")
    padded = np.pad(np.float32(image_WT / SCALE), SIDE // 2)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (SIDE, SIDE))
    return torch.from_numpy(windows[hits.wire, hits.pixel])
