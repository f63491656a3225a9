"""The device path: chunks decoded by kernels in Triton (the language), a program for each.

`_unpack` goes through a stream row by row: a word for each lane, two where a value straddles,
a shift and a mask. It adds up differences on the way, so only the result is written. `_repeat`
marks where runs begin, and counts marks to know which run a place belongs to. So a column of
differences moves little more than its own bytes; by `cascaded_chunks.passes`, which need no
Triton, each value moves some ten times.

A frame aligns nothing, so words are put together from bytes; those that several rows need come
from the cache. Without a GPU the kernels run in Triton's interpreter (`TRITON_INTERPRET=1`):
it shows values and each load and store, neither time nor races. No GPU has run them yet.

Legend: C chunks, X columns of a launch's table, int64.
"""

import numpy as np
import torch
import triton
import triton.language as tl

BLOCK = 1024  # values that the threads of a program have at once


@triton.jit
def _word(words, at, size, inside):
    word, k = (at * 0).to(tl.uint64), 0
    while k < size:
        byte = tl.load(words + at * size + k, mask=inside, other=0)
        word = word | (byte.to(tl.uint64) << 8 * k)
        k += 1
    return word


@triton.jit
def _unpack(packed, table, out, SUM: tl.constexpr, BLOCK: tl.constexpr):
    row_X = table + 6 * tl.program_id(0)
    words, n, width = packed + tl.load(row_X), tl.load(row_X + 1), tl.load(row_X + 2)
    low, total, to = tl.load(row_X + 3), tl.load(row_X + 4), out + tl.load(row_X + 5)
    rows = tl.where(width > 32, 64, tl.where(width > 16, 32, tl.where(width > 8, 16, 8)))
    lanes, above = (n + rows - 1) // rows, ((64 - width) % 64).to(tl.uint64)
    row = 0
    while row < rows:
        first, at, shift = 0, row * width // rows, row * width % rows
        while first < lanes:
            lane = first + tl.arange(0, BLOCK)
            inside = (lane < lanes) & (row * lanes + lane < n)
            some, more = inside & (lane * 0 < width), inside & (lane * 0 + rows < shift + width)
            word = _word(words, at * lanes + lane, rows // 8, some)
            rest = _word(words, (at + 1) * lanes + lane, rows // 8, more)
            word = (word >> shift.to(tl.uint64)) | (rest << ((rows - shift) % 64).to(tl.uint64))
            value = (word << above >> above).to(tl.int64) + low
            if SUM:
                value = tl.where(inside, value, 0)
                found, total = tl.cumsum(value, 0) + total, total + tl.sum(value, 0)
                value = found
            tl.store(to + row * lanes + lane, value, mask=inside)
            first += BLOCK
        row += 1


@triton.jit
def _sums(values, table, out, BLOCK: tl.constexpr):
    row_X, first = table + 4 * tl.program_id(0), 0
    source, n = values + tl.load(row_X), tl.load(row_X + 1)
    total, to = tl.load(row_X + 2), out + tl.load(row_X + 3)
    while first < n:
        at = first + tl.arange(0, BLOCK)
        value = tl.load(source + at, mask=at < n, other=0).to(tl.int64)
        tl.store(to + at, tl.cumsum(value, 0) + total, mask=at < n)
        total += tl.sum(value, 0)
        first += BLOCK


@triton.jit
def _repeat(
    counts, values, marks, table, out, statuses, SUM: tl.constexpr, BLOCK: tl.constexpr
):
    chunk = tl.program_id(0)
    row_X = table + 5 * chunk
    runs, m, n = tl.load(row_X), tl.load(row_X + 1), tl.load(row_X + 2)
    total, to = tl.load(row_X + 3), tl.load(row_X + 4)
    first, end, run, good = 0, m * 0, m * 0 - 1, m > 0
    while first < n:
        at = first + tl.arange(0, BLOCK)
        tl.store(marks + to + at, at * 0, mask=at < n)
        first += BLOCK
    tl.debug_barrier()
    first = 0
    while first < m:
        k = first + tl.arange(0, BLOCK)
        count = tl.load(counts + runs + k, mask=k < m, other=1).to(tl.int64)
        good = good & (tl.min(count, 0) >= 1)
        count = tl.where(k < m, count, 0)
        begin = end + tl.cumsum(count, 0) - count
        inside = (k < m) & (begin >= 0) & (begin < n)  # nothing is written past the chunk
        tl.store(marks + to + begin, k * 0 + 1, mask=inside)
        end += tl.sum(count, 0)
        first += BLOCK
    before = tl.load(statuses + chunk)
    tl.store(statuses + chunk, tl.where(good & (end == n), before, 3))  # BAD_COUNTS
    tl.debug_barrier()
    first = 0
    while first < n:
        at = first + tl.arange(0, BLOCK)
        mark = tl.load(marks + to + at, mask=at < n, other=0).to(tl.int64)
        which = run + tl.cumsum(mark, 0)
        inside = (at < n) & (which >= 0)
        value = tl.load(values + runs + which, mask=inside, other=0).to(tl.int64)
        if SUM:
            found, total = tl.cumsum(value, 0) + total, total + tl.sum(value, 0)
            value = found
        tl.store(out + to + at, value, mask=at < n)
        run += tl.sum(mark, 0)
        first += BLOCK


def steps(layers):
    """The launches as lists: what, of which stream or layer, and the differences (a layer, or
    None) that it adds up on the way: [["unpack", 1, 0], ["repeat", 0, None]] for R1 D1."""
    found = [["unpack", layers.rles, None]]
    for layer in reversed(range(max(layers))):
        if layer < layers.deltas:
            if found[-1][2] is None:
                found[-1][2] = layer
            else:
                found.append(["sums", None, layer])
        if layer < layers.rles:
            found.append(["repeat", layer, None])
    return found


def decode(out_N, packed_B, streams, lengths, places):
    """The statuses of C chunks, as `cascaded_chunks.passes`; waits for the device once, at the
    end. `streams`: `cascaded_chunks.Streams` of headers that somebody has checked."""
    chunks, device, none = len(lengths), out_N.device, np.zeros_like(lengths)
    statuses_C = torch.zeros(chunks, dtype=torch.int32, device=device)

    def launch(kernel, given, columns, *more):
        table_CX = torch.from_numpy(np.stack(columns, 1)).to(device)
        kernel[(chunks,)](*given, table_CX, *more, BLOCK=BLOCK)

    def unpack(s, base, to, out, add_up):
        columns = (streams.begins_CS, streams.counts_CS, streams.widths_CS, streams.lows_CS)
        launch(_unpack, [packed_B], [*(one[:, s] for one in columns), base, to], out, add_up)

    path, flowing_M, runs_at, runs = steps(streams.layers), out_N, none, none
    for what, s, delta in path:
        if what == "unpack":
            n = streams.counts_CS[:, s]
        elif what == "repeat":
            n = streams.counts_CS[:, s - 1] if s else lengths
            counts_M = torch.empty(len(flowing_M), dtype=torch.int32, device=device)
            unpack(s, none, runs_at, counts_M, False)
        last = [what, s, delta] == path[-1]
        to = places if last else n.cumsum() - n
        out = out_N if last else out_N.new_empty(int(n.sum()))
        base = none if delta is None else streams.bases_CD[:, delta]
        if what == "unpack":
            unpack(s, base, to, out, delta is not None)
        elif what == "sums":
            launch(_sums, [flowing_M], [runs_at, n, base, to], out)
        else:
            marks = torch.empty(len(out), dtype=torch.uint8, device=device)
            columns, more = [runs_at, runs, n, base, to], (out, statuses_C, delta is not None)
            launch(_repeat, [counts_M, flowing_M, marks], columns, *more)
        flowing_M, runs_at, runs = out, to, n
    return statuses_C.cpu().numpy()
