"""Sliding sums and dot products of a long stream, in short overlapping blocks that stay in
cache.

A block of L points holds J = L - M + 1 whole windows of M points; the next block starts J
points later, so that every window lies in one block (overlap-save: Stockham 1966). Inside a
block everything is local: its mean is subtracted first, its prefix sums run over L points, not
N, and its transform has length L, so that error and memory do not grow with the stream.

Memory traffic per point, float64: read 8 bytes and write 8 in main memory; the rest stays in
cache, where a group of blocks fits.

Legend: B blocks, L block length, N stream length, M window length, J windows per block.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

try:
    import compiled_passes
except ImportError:  # without numba torch does everything
    compiled_passes = None

# float64 points in flight: 1 MB stays in a core's cache (two threads then get equal shares of
# the blocks), 128 MB fill a GPU
POINTS_AT_ONCE = {"cpu": 1 << 17, "cuda": 1 << 24}
SHORTEST_BLOCK = 4096  # measured best from 2,048 to 32,768 on two CPU cores
# bounds on rounding, in units of the last place, found generous in tests: a transform
# spreads its error evenly over the points of a block, a prefix sum carries that of all
# points before
DOT_ULPS, SUM_ULPS = 16, 64


def blocks(stream_N, window):
    """Pairs (index of the first window, blocks (B, L)) that cover every window of the stream.

    The blocks are overlapping views, not copies. The last one ends with the stream, so it may
    repeat windows of the one before.
    """
    total, length = len(stream_N), block_length(len(stream_N), window)
    step = length - window + 1
    count = (total - length) // step + 1
    at_once = max(1, POINTS_AT_ONCE.get(stream_N.device.type, 1 << 17) // length)
    for first in range(0, count, at_once):
        group = min(at_once, count - first)
        part_N = stream_N[first * step : (first + group - 1) * step + length]
        yield first * step, part_N.unfold(0, length, step)
    if count * step < total - window + 1:
        yield total - length, stream_N[None, total - length :]


def block_length(total, window):
    """Points of a block: at least four windows, as far as the stream has them."""
    return min(total, max(SHORTEST_BLOCK, 1 << (4 * window - 1).bit_length()))


def over_blocks(fill, stream_N, window, dtype):
    """None, once `fill(first window, CentredBlocks)` has had all groups of blocks; on a CPU in
    as many threads as torch uses, each of which computes alone, in a `Workspace` of its own.

    So the threads meet once in a call; torch's own would meet at every operation. Which thread
    does what changes no result: a last pair that repeats windows follows the one it repeats.
    """
    pairs, threads = list(blocks(stream_N, window)), torch.get_num_threads()
    count = min(threads, len(pairs) - 1) if stream_N.device.type == "cpu" else 1

    def work(share, alone=True):
        if alone:
            torch.set_num_threads(1)  # for this thread, and those that begin before the end
        space = Workspace(stream_N.device)
        for first, rows_BL in share:
            fill(first, CentredBlocks(rows_BL, window, dtype, space))

    if count < 2:
        return work(pairs, alone=False)
    last = pairs.pop()
    shares = [pairs[i::count] for i in range(count)]
    shares[(len(pairs) - 1) % count].append(last)
    try:
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(work, shares))
    finally:
        torch.set_num_threads(threads)


def compiles(device):
    """Whether blocks on this device go through `compiled_passes`: on a CPU where numba is."""
    return compiled_passes is not None and device.type == "cpu"


def empty(*shape, dtype, device):
    """An uninitialised tensor; on a CPU from NumPy, which asks the kernel for huge pages: a
    fault for each page of 4 KB would cost as much as all the arithmetic on it."""
    if torch.device(device).type != "cpu":
        return torch.empty(shape, dtype=dtype, device=device)
    return torch.from_numpy(np.empty(shape, torch.empty(0, dtype=dtype).numpy().dtype))


class Workspace:
    """Buffers that one thread reuses for all its groups of blocks."""

    def __init__(self, device):
        self._device, self._buffers = device, {}

    def take(self, name, *shape, dtype):
        """The buffer `name`, uninitialised, cut to `shape`; the first use is the largest."""
        if name not in self._buffers:
            self._buffers[name] = empty(*shape, dtype=dtype, device=self._device)
        return self._buffers[name][: shape[0]]


class CentredBlocks:
    """Blocks less their own mean, with the sums of every window in float64.

    values_BL (in `dtype`), sum_BJ (of a window's values), energy_BJ (squared deviations from
    the window's mean) and least_B1 (the smallest of a block), all float64; energy_error_B1 and
    dot_error_B1: how far off rounding may put an energy, and a dot product with a query of
    length 1. lost_BJ (windows with a non-finite point) and flat_BJ (of one repeated value):
    masks, or None. All live in `work` and hold until the next group is made there.
    """

    def __init__(self, rows_BL, window, dtype, work):
        self.window, self._work = window, work
        self.shape_BJ = len(rows_BL), rows_BL.shape[1] - window + 1
        self.lost_BJ = self.flat_BJ = None
        self.values_BL = work.take("values", *rows_BL.shape, dtype=dtype)
        self.sum_BJ = work.take("sums", *self.shape_BJ, dtype=torch.float64)
        self.energy_BJ = work.take("energy", *self.shape_BJ, dtype=torch.float64)
        rows_BL = rows_BL.to(dtype)
        self.compiled = compiles(rows_BL.device)
        total_B1 = self._centre_and_sum(rows_BL)
        if not total_B1.isfinite().all():
            total_B1 = self._centre_and_sum(self._without_lost(rows_BL))
        self.energy_error_B1 = total_B1 * (SUM_ULPS * torch.finfo(torch.float64).eps)
        rms_B1 = (total_B1 / rows_BL.shape[1]).sqrt()
        self.dot_error_B1 = rms_B1 * (DOT_ULPS * torch.finfo(dtype).eps)
        if (self.least_B1 <= self.energy_error_B1).any():
            changes_BL = torch.nn.functional.pad(rows_BL[:, 1:] != rows_BL[:, :-1], (1, 0))
            self.flat_BJ = self._window_counts(changes_BL) == changes_BL[:, : self.shape_BJ[1]]
            self.energy_BJ.masked_fill_(self.flat_BJ, 0.0)

    def _centre_and_sum(self, rows_BL):
        """Fill in values, sums and energies; returns the sums of all squares, (B, 1)."""
        if self.compiled:
            return self._centre_and_sum_compiled(rows_BL)
        self.centre_B1 = rows_BL.mean(1, keepdim=True)
        torch.sub(rows_BL, self.centre_B1, out=self.values_BL)
        wide_BL = self._work.take("wide", *rows_BL.shape, dtype=torch.float64)
        self._window_sums(self.values_BL, self.sum_BJ)
        total_B1 = self._window_sums(wide_BL.copy_(self.values_BL).square_(), self.energy_BJ)
        self.energy_BJ.addcmul_(self.sum_BJ, self.sum_BJ, value=-1 / self.window).clamp_(min=0)
        self.least_B1 = self.energy_BJ.amin(1, keepdim=True)
        return total_B1

    def _centre_and_sum_compiled(self, rows_BL):
        (count, length), (step, inner) = rows_BL.shape, rows_BL.stride()
        step //= max(1, inner)
        part_N = rows_BL.as_strided(((count - 1) * step + length,), (inner,))
        block_B3 = torch.empty(count, 3, dtype=torch.float64)
        given = (part_N, self.values_BL, self.sum_BJ, self.energy_BJ, block_B3)
        compiled_passes.centre_and_sum(self.window, step, *(x.numpy() for x in given))
        self.centre_B1, total_B1, self.least_B1 = block_B3.split(1, 1)
        return total_B1

    def _without_lost(self, rows_BL):
        """The blocks with the mean of the others for each non-finite point, whose windows are
        noted."""
        finite_BL = rows_BL.isfinite()
        self.lost_BJ = self._window_counts(~finite_BL) > 0
        total_B1 = rows_BL.where(finite_BL, 0.0).sum(1, keepdim=True, dtype=torch.float64)
        mean_B1 = total_B1 / finite_BL.sum(1, keepdim=True).clamp(min=1)
        return rows_BL.where(finite_BL, mean_B1.to(rows_BL.dtype))

    def _window_sums(self, values_BL, sums_BJ):
        """Fill in the sums of every window, as differences of one prefix sum per block; returns
        those of whole blocks, (B, 1)."""
        prefix_BL = self._work.take("prefix", *values_BL.shape, dtype=torch.float64)
        torch.cumsum(values_BL, 1, out=prefix_BL)
        sums_BJ[:, 0] = prefix_BL[:, self.window - 1]
        torch.sub(prefix_BL[:, self.window :], prefix_BL[:, : -self.window], out=sums_BJ[:, 1:])
        return prefix_BL[:, -1:].clone()

    def _window_counts(self, mask_BL):
        """How many points of every window are marked, (B, J) int64."""
        prefix_BL = torch.nn.functional.pad(mask_BL.cumsum(1), (1, 0))
        return prefix_BL[:, self.window :] - prefix_BL[:, : -self.window]

    def mean_BJ(self):
        """Mean of every window, float64."""
        return self.sum_BJ / self.window + self.centre_B1

    def spectrum(self):
        """Transform of every block, to be shared by all queries."""
        out = self._take_complex("spectrum")
        return torch.fft.rfft(self.values_BL, out=out)

    def correlate(self, spectrum, query_spectrum):
        """Dot products with one query from two spectra: O(log L) per window. The first J of a
        row, (B, L), are those of whole windows."""
        product = torch.mul(spectrum, query_spectrum, out=self._take_complex("product"))
        dots_BL = self._work.take("dots", *self.values_BL.shape, dtype=self.values_BL.dtype)
        return torch.fft.irfft(product, n=self.values_BL.shape[1], out=dots_BL)

    def correlate_directly(self, query_M):
        """Dot products with one query, (B, J), one shifted multiply-add per query point: O(M)
        per window."""
        kept = self.shape_BJ[1]
        dots_BJ = self._work.take("direct", *self.shape_BJ, dtype=self.values_BL.dtype)
        if self.compiled:
            compiled_passes.correlate(*(x.numpy() for x in (query_M, self.values_BL, dots_BJ)))
            return dots_BJ
        dots_BJ.zero_()
        for shift, weight in enumerate(query_M.tolist()):
            dots_BJ.add_(self.values_BL[:, shift : shift + kept], alpha=weight)
        return dots_BJ

    def finish_compiled(self, measure, query, limit_B1, dots_BL, out_BJ):
        """Whether some distance is below its block's limit; fills in the squared distances to a
        `stream_inputs.Query`, compiled."""
        given = (x.numpy() for x in (limit_B1, dots_BL, self.energy_BJ, out_BJ))
        if measure == "zdist":
            return compiled_passes.zdist(self.window, *given)
        means = query.mean, self.sum_BJ.numpy(), self.centre_B1.numpy()
        return compiled_passes.unscaled(
            self.window, query.norm, measure == "sdist", means, *given
        )

    def _take_complex(self, name):
        count, length = self.values_BL.shape
        dtype = self.values_BL.dtype.to_complex()
        return self._work.take(name, count, length // 2 + 1, dtype=dtype)


def query_spectrum(query_M, length):
    """The factor of `CentredBlocks.correlate` for a query: its conjugated transform, padded to
    the block length."""
    return torch.fft.rfft(query_M, n=length).conj().resolve_conj()
