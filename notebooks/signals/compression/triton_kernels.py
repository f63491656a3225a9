"""The two steps of decoding that a GPU spends its time in, as kernels in Triton (the language):
bit unpacking and prefix sums. Equal to the torch path (`bit_packing.unpack_rows`, `cumsum`).

One program unpacks a block of lanes: it reads `width` words of each lane once and writes all
rows, where the torch path makes two to five passes over each row. One program sums one chunk:
it reads and writes each value once. Nothing here is imported unless it is asked for, and no
chapter of the book needs it: without a GPU the kernels run in Triton's interpreter alone
(`TRITON_INTERPRET=1`), which shows their values and neither time nor races.

Legend: C chunks, M values of one, L lanes, R rows, W words of a lane.
"""

import torch
import triton
import triton.language as tl

LANES = 128  # of one program: its rows are read and written in whole cache lines


@triton.jit
def _unpack(words, lanes, L, W: tl.constexpr, R: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = lane < L
    for row in tl.static_range(R):
        at: tl.constexpr = row * W // R
        shift: tl.constexpr = row * W % R
        value = tl.load(words + at * L + lane, mask=inside, other=0) >> shift
        if shift + W > R:
            value = value & ((1 << (R - shift)) - 1)
            rest = tl.load(words + (at + 1) * L + lane, mask=inside, other=0)
            value = value | (rest << (R - shift))
        if W < R:
            value = value & ((1 << W) - 1)
        tl.store(lanes + row * L + lane, value, mask=inside)


@triton.jit
def _prefix_sums(values, bases, sums, M: tl.constexpr, BLOCK: tl.constexpr):
    chunk = tl.program_id(0).to(tl.int64)
    total = tl.load(bases + chunk).to(tl.int64)  # cannot overflow; the low 32 bits count
    for begin in range(0, M, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        part = tl.load(values + chunk * M + at, mask=at < M, other=0).to(tl.int64)
        found = (tl.cumsum(part, 0) + total).to(tl.int32)
        tl.store(sums + chunk * M + at, found, mask=at < M)
        total += tl.sum(part, 0)


def unpack_rows(words_WL, width):
    """The packed values of all lanes, int32 of shape (32, L), from their words, int32 (width,
    L).

    Raises ValueError for other words, and widths outside 1 to 32.
    """
    if words_WL.dtype != torch.int32 or words_WL.dim() != 2 or len(words_WL) != width:
        told = f"{words_WL.dtype} of shape {tuple(words_WL.shape)}"
        raise ValueError(f"words {told}; int32 of shape ({width}, L) is needed")
    if not 1 <= width <= 32:
        raise ValueError(f"width {width}; 1 to 32 are unpacked from 32-bit words")
    lanes = words_WL.shape[1]
    lanes_RL = torch.empty(32, lanes, dtype=torch.int32, device=words_WL.device)
    if lanes:
        grid = (triton.cdiv(lanes, LANES),)
        _unpack[grid](words_WL.contiguous(), lanes_RL, lanes, width, 32, LANES)
    return lanes_RL


def prefix_sums(values_CM, bases_C):
    """Each chunk's running sums from its base, modulo 2^32, int32 of shape (C, M).

    Raises ValueError unless both are int32 and there is one base for each chunk.
    """
    if values_CM.dtype != torch.int32 or bases_C.dtype != torch.int32:
        raise ValueError(f"{values_CM.dtype} and {bases_C.dtype}; both must be int32")
    if values_CM.dim() != 2 or bases_C.shape != values_CM.shape[:1]:
        told = f"{tuple(values_CM.shape)} and {tuple(bases_C.shape)}"
        raise ValueError(f"shapes {told}; (C, M) and (C,) are needed")
    sums_CM = torch.empty_like(values_CM)
    if values_CM.numel():
        chunks, length = values_CM.shape
        _prefix_sums[(chunks,)](values_CM.contiguous(), bases_C, sums_CM, length, 256)
    return sums_CM
