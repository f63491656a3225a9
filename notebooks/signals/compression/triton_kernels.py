"""Decoding's inner steps as kernels in Triton (the language): bit unpacking and prefix sums,
equal to the torch path (`bit_packing.unpack_rows`, `cumsum`), and LZ4's copies.

One program unpacks a block of lanes. It loads a word for each row, two where a value straddles,
most of them again from cache; the torch path makes two to four passes over each row. One
program sums one chunk, and one decodes one LZ4 block: its sequences follow each other, since
each says where the next begins, but the bytes of a copy move side by side. Nothing here is
imported unless it is asked for, and `decompress` does not call it: without a GPU the kernels
run in Triton's interpreter alone (`TRITON_INTERPRET=1`), which shows their values and neither
time nor races.

Legend: C chunks, M values of one, L lanes, R rows, W words of a lane.
"""

import torch
import triton
import triton.language as tl
from bit_packing import ROWS, WORDS

LANES = 128  # of one program: its rows are read and written in whole cache lines


@triton.jit
def _unpack(words, lanes, L, W: tl.constexpr, R: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = lane < L
    word_mask: tl.constexpr = (
        -1 if R == 32 else (1 << R) - 1
    )  # a narrow word's sign is no value
    for row in tl.static_range(R):
        at: tl.constexpr = row * W // R
        shift: tl.constexpr = row * W % R
        word = tl.load(words + at * L + lane, mask=inside, other=0).to(tl.int32) & word_mask
        value = word >> shift
        if shift + W > R:
            value = value & ((1 << (R - shift)) - 1)
            rest = tl.load(words + (at + 1) * L + lane, mask=inside, other=0).to(tl.int32)
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
    """The packed values of all lanes, int32 of shape (R, L), from their words, uint8, int16 or
    int32 (width, L), the narrowest that hold the width.

    Raises ValueError for other words, and widths outside 1 to 32.
    """
    if not 1 <= width <= 32:
        raise ValueError(f"width {width}; 1 to 32 are unpacked")
    kind = WORDS[ROWS[width]]
    if words_WL.dtype != kind or words_WL.dim() != 2 or len(words_WL) != width:
        told = f"{words_WL.dtype} of shape {tuple(words_WL.shape)}"
        raise ValueError(f"words {told}; {kind} of shape ({width}, L) is needed")
    rows, lanes = ROWS[width], words_WL.shape[1]
    lanes_RL = torch.empty(rows, lanes, dtype=torch.int32, device=words_WL.device)
    if lanes:
        grid = (triton.cdiv(lanes, LANES),)
        _unpack[grid](words_WL.contiguous(), lanes_RL, lanes, width, rows, LANES)
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


@triton.jit
def _length(block, at, size, length):
    more = tl.where(length == 15, 255, 0)
    while more == 255:
        more = tl.load(block + at, mask=at < size, other=0).to(tl.int32)
        length += more
        at += 1
    return length, at


@triton.jit
def _move(to, source, count, period, BLOCK: tl.constexpr):
    first = 0
    while first < count:
        here = first + tl.arange(
            0, BLOCK
        )  # a copy that overlaps repeats its first `period` bytes
        value = tl.load(source + here % period, mask=here < count, other=0)
        tl.store(to + here, value, mask=here < count)
        first += BLOCK


@triton.jit
def _lz4(blocks, begins, out, sizes, statuses, M: tl.constexpr, BLOCK: tl.constexpr):
    chunk = tl.program_id(0)
    begin = tl.load(begins + chunk)
    size = (tl.load(begins + chunk + 1) - begin).to(tl.int32)
    block, out = blocks + begin, out + chunk.to(tl.int64) * M
    want = tl.load(sizes + chunk)
    at, done, good = 0, 0, True
    while (at < size) & good:
        token = tl.load(block + at).to(tl.int32)
        count, at = _length(block, at + 1, size, token >> 4)
        good = (at + count <= size) & (done + count <= want)
        count = tl.where(good, count, 0)
        _move(out + done, block + at, count, 1 << 30, BLOCK)
        at += count
        done += count
        if (at < size) & good:
            low = tl.load(block + at).to(tl.int32)
            offset = (
                low | tl.load(block + at + 1, mask=at + 1 < size, other=0).to(tl.int32) << 8
            )
            inside = at + 2 <= size
            count, at = _length(block, at + 2, size, token & 15)
            count += 4
            good = inside & (offset >= 1) & (offset <= done) & (done + count <= want - 5)
            count = tl.where(good, count, 0)
            offset = tl.where(good, offset, 1)
            tl.debug_barrier()  # what it copies may be the literals just written
            _move(out + done, out + done - offset, count, offset, BLOCK)
            done += count
            tl.debug_barrier()
            good = good & (at < size)  # the last sequence has literals alone
    tl.store(statuses + chunk, tl.where(good & (done == want), 0, 17))


def lz4_decode(blocks, sizes, device="cpu"):
    """(bytes, statuses): uint8 of shape (C, largest size), and an int32 for each chunk, 0 or
    `batched_chunks.BAD_DATA`; one program for each of the LZ4 blocks, bytes-like, which hold
    `sizes` bytes. Reads nothing past a block and writes nothing past a row."""
    ends = torch.tensor([0, *map(len, blocks)]).cumsum(0).to(device)
    joined = torch.frombuffer(bytearray().join([*blocks, b"\0"]), dtype=torch.uint8).to(device)
    out_CM = torch.zeros(len(blocks), max(sizes), dtype=torch.uint8, device=device)
    statuses_C = torch.zeros(len(blocks), dtype=torch.int32, device=device)
    wanted_C = torch.tensor(sizes, dtype=torch.int32, device=device)
    _lz4[(len(blocks),)](joined, ends, out_CM, wanted_C, statuses_C, out_CM.shape[1], 128)
    return out_CM, statuses_C
