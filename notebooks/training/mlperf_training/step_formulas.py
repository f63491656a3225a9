"""What the article's other steps are predicted to save, by bytes, FLOPs and counts alone.

Article: "The Full Stack Optimization Powering NVIDIA MLPerf Training v2.0 Performance"
(NVIDIA, 2022). A kernel takes as long as its arithmetic or its bytes at the card's published
rates, whichever is longer; launches, caches and what a compiler does are left out, so each
number is a prediction. Shapes are those of the published models, in 16 bits.
"""

from math import ceil

FLOPS_PER_S, BYTES_PER_S, BLOCKS = 312e12, 1.555e12, 108  # an A100 of 40 GB, by its data sheet
HALF = 2  # bytes


def seconds(flops, moved):
    """Of a kernel: its arithmetic or its bytes."""
    return max(flops / FLOPS_PER_S, moved / BYTES_PER_S)


def passes_saved(rows, inner, outer, passes):
    """The share of the time of a product and of the passes over its output (reads and writes)
    after it, that is saved where the product does them before it writes.

    >>> round(passes_saved(4096, 1024, 4096, 2), 2)
    0.28
    """
    moved = HALF * (rows * inner + inner * outer + rows * outer)
    product = seconds(2 * rows * inner * outer, moved)
    extra = seconds(0, passes * HALF * rows * outer)
    return extra / (product + extra)


def tile_share(size, tile):
    """The share of the work of tiles that lies outside of `size`: 0.5 for 32 in tiles of 64."""
    if size < 1 or tile < 1:
        raise ValueError(f"size {size} and tile {tile} must both be 1 or more")
    return 1 - size / (ceil(size / tile) * tile)


def together(*blocks):
    """How many times as fast kernels of so many blocks are at once as one by one, each block on
    a processor of its own.

    >>> together(36, 36, 36)
    3.0
    """
    apart = sum(ceil(one / BLOCKS) for one in blocks)
    return apart / ceil(sum(blocks) / BLOCKS)


def overlapped(*parts):
    """How many times as fast parts are side by side as one after the other."""
    return sum(parts) / max(parts)
