"""Which layers, and whether at all: a selector that samples, the grid that tries everything, and
the time of a transfer with and without compression.

nvCOMP's selector looks at 100 random samples of 1,024 values, estimates the ratio of each setting
on them, and takes the best. Ours encodes the samples outright. It has to know the sizes before
it can answer, so it waits for the device: a call that selects is not asynchronous.
"""

from itertools import product

import torch
from cascaded_chunks import Layers, encode

GRID = [Layers(*counts, True) for counts in product(range(3), range(3))]
SAMPLES, SAMPLE_VALUES = 100, 1024


def sizes(values_N, lengths, grid=GRID):
    """{layers: bytes} of these chunks under each setting; a header for each chunk included."""
    return {layers: sum(map(len, encode(values_N, lengths, layers))) for layers in grid}


def sampled(values_N, grid=GRID, samples=SAMPLES, generator=None):
    """The setting that packs a sample of `values_N` (N,) best, Layers; the first of `grid` for no
    values.

    Headers are not counted: a sample is shorter than a chunk, and they would weigh more than
    they do later. Seeded by 0 unless a CPU generator is given, so that one array makes one frame.
    """
    if not len(values_N):
        return grid[0]
    length = min(SAMPLE_VALUES, len(values_N))
    generator = generator or torch.Generator().manual_seed(0)
    most = min(samples, len(values_N) // length)
    begins = torch.randint(0, len(values_N) - length + 1, (most,), generator=generator)
    inside = begins[:, None] + torch.arange(length)
    picked_N = values_N[inside.reshape(-1).to(values_N.device)]
    found = sizes(picked_N, [length] * most, grid)
    head = {layers: most * (16 * (layers.rles + 1) + 8 * layers.deltas) for layers in grid}
    return min(grid, key=lambda layers: found[layers] - head[layers])


def transfer_seconds(n_bytes, link_bytes_per_s, ratio=1.0, decode_bytes_per_s=None):
    """Seconds until `n_bytes` are there, sent as they are, or packed by `ratio` and decoded.

    >>> transfer_seconds(1e9, 16e9)
    0.0625

    n / BW, or (n / ratio) / BW + n / decode rate, both rates in uncompressed bytes; nothing
    overlaps. Raises ValueError for rates or a ratio that are not positive.
    """
    if not (link_bytes_per_s > 0 and ratio > 0 and (decode_bytes_per_s or 1) > 0):
        raise ValueError(
            f"link {link_bytes_per_s}, ratio {ratio}, decode {decode_bytes_per_s}: must be positive"
        )
    sent = n_bytes / ratio / link_bytes_per_s
    return sent + (n_bytes / decode_bytes_per_s if decode_bytes_per_s else 0.0)


def break_even_rate(ratio, link_bytes_per_s):
    """The decode rate, in uncompressed bytes per second, above which compression pays.

    n / BW = n / (r BW) + n / D gives D = BW r / (r - 1); infinite where nothing shrinks.
    """
    return link_bytes_per_s * ratio / (ratio - 1) if ratio > 1 else float("inf")
