"""Bit-packing: each stream of integers becomes its minimum and `width` bits for each value,
which the field calls frame of reference.

A stream of M values is laid out as R rows of L = ceil(M / R) lanes, R the bits of a word: value
i stands in row i // L, lane i % L. Each lane packs its R values into `width` words, so that
word k of all lanes lies together: shape (width, L). One row is then unpacked by one shift and
one mask over all lanes, of all streams with that width at once. This is the vertical layout of
Lemire and Boytsov (2015), with as many lanes as the stream has in place of four. A word is the
narrowest of 8, 16, 32 and 64 bits that holds the width: what is unpacked moves no more bytes
than it must.

Values are taken modulo 2^bits: value = minimum + packed. The same bits hold the signed and the
unsigned reading, so the encoder takes whichever range is narrower and the decoder need not
know.

Legend: C streams, M values of one, L lanes of one, R rows (bits of a word).
"""

from itertools import groupby
from operator import itemgetter

import torch

LOWEST = {1: -(1 << 7), 2: -(1 << 15), 4: -(1 << 31), 8: -(1 << 63)}


WORDS = {8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}
ROWS = [next(rows for rows in WORDS if rows >= width) for width in range(65)]


def packed_bytes(count, width):
    """Bytes of a packed stream: `packed_bytes(33, 5)` is five lanes of five bytes, 25."""
    return -(-count // ROWS[width]) * width * (ROWS[width] // 8)


def minimum_and_width(lowest_C, highest_C):
    """The bits that hold highest - lowest, as a list of ints; the difference may wrap.

    >>> minimum_and_width(torch.tensor([3, -128]), torch.tensor([3, 127]))
    [0, 8]
    """
    bits, spans = 8 * lowest_C.itemsize, (highest_C - lowest_C).tolist()
    return [(span % (1 << bits)).bit_length() for span in spans]


def ranges(values_M, lengths):
    """(minimum, width) of each of C streams laid end to end, by the narrower of the signed and
    the unsigned reading; the minimum is a signed int.

    values_M int8 to int64, `lengths` of C positive ints. Two bytes that differ by one across
    the sign need one bit: `ranges(torch.tensor([127, -128], dtype=torch.int8), [2])` is
    [(127, 1)].
    """
    flip, best = LOWEST[values_M.itemsize], None
    for top in (0, flip):
        turned_M = values_M ^ top if top else values_M
        low_C, high_C = (per_stream(way, turned_M, lengths) for way in ("amin", "amax"))
        widths = minimum_and_width(low_C, high_C)
        found = list(zip((low_C ^ top).tolist(), widths, strict=True))
        pairs = zip(best or found, found, strict=True)
        best = [min(pair, key=itemgetter(1)) for pair in pairs]
    return best


def per_stream(way, values_M, lengths):
    """The "amin" or "amax" of each stream, shape (C,); lengths are positive."""
    if len(set(lengths)) == 1:
        return getattr(values_M.view(len(lengths), -1), way)(1)
    each = [getattr(part, way)() for part in values_M.split(lengths)]
    return torch.stack(each)


def pack(values_M, lengths, found):
    """C packed streams as uint8 tensors, given `found`, the (minimum, width) of each.

    Streams of one width are packed together: `width` words for each lane, each written by the
    rows whose bits it holds.
    """
    packed, parts = [None] * len(lengths), values_M.split(lengths)
    for width, group in _by_width(found).items():
        rows, columns = ROWS[width], []
        for k in group:
            left_M = (parts[k] - found[k][0]).to(WORDS[rows])
            left_M = torch.nn.functional.pad(left_M, (0, -len(left_M) % rows))
            columns.append(left_M.view(rows, -1))
        lanes_RL = torch.cat(columns, 1)
        if width < rows:
            lanes_RL &= (1 << width) - 1  # a narrow type's sign was extended into the word
        words_WL = lanes_RL.new_zeros(width, lanes_RL.shape[1])
        for row in range(rows if width else 0):
            at, shift = divmod(row * width, rows)
            words_WL[at] |= lanes_RL[row] << shift
            if shift + width > rows:  # the rest goes on in the next word
                words_WL[at + 1] |= lanes_RL[row] >> (rows - shift)
        split = words_WL.split([column.shape[1] for column in columns], 1)
        for k, words in zip(group, split, strict=True):
            packed[k] = words.contiguous().view(-1).view(torch.uint8)
    return packed


def unpack(streams, lengths, found, dtype):
    """The C streams again, end to end: a tensor of `dtype` (int8 to int64), (sum of lengths,).

    `streams` are uint8 tensors of `packed_bytes(length, width)` bytes each, `found` their
    (minimum, width), ints of at most the dtype's bits. Raises nothing for any content: every
    pattern of bits is some value. Rows are unpacked for all streams of one width at once; then
    neighbours of one width and length are written together, and each stream's padding is
    overwritten by the next.
    """
    device, groups, lanes_of = streams[0].device, _by_width(found), {}
    for width, group in groups.items():
        rows = ROWS[width]
        if width:  # side by side as bytes, which any place in a buffer may hold
            bytes_WB = torch.cat([streams[k].view(width, -1) for k in group], 1)
            lanes_RL = unpack_rows(bytes_WB.view(WORDS[rows]), width)
        else:
            total = sum(-(-lengths[k] // rows) for k in group)
            lanes_RL = torch.zeros((), dtype=WORDS[rows], device=device).expand(rows, total)
        lanes_of[width] = [lanes_RL, 0]
    lowest_C = torch.tensor([low for low, _ in found]).to(dtype).to(device)
    lows = lowest_C.unbind(0)
    flat_M, at, k = torch.empty(sum(lengths) + 64, dtype=dtype, device=device), 0, 0
    shapes = [(width, length) for (_, width), length in zip(found, lengths, strict=True)]
    for (width, length), neighbours in groupby(shapes):
        rows, alike = ROWS[width], len(list(neighbours))
        at_once = alike if length % rows == 0 else 1
        lane = -(-length // rows)
        for first in range(k, k + alike, at_once):
            lanes_RL, begin = lanes_of[width]
            lanes_of[width][1] = end = begin + at_once * lane
            part, low = lanes_RL[:, begin:end], lows[first]
            out = flat_M[at : at + at_once * rows * lane]
            if at_once == 1:
                out = out.view(rows, lane)
            else:
                part = part.unflatten(1, (at_once, lane)).transpose(0, 1)
                out, low = out.view(part.shape), lowest_C[first : first + at_once, None, None]
            _raise(part, width, low, out)
            at += at_once * length
        k += alike
    return flat_M[:at]


def unpack_rows(words_WL, width):
    """The packed values of all lanes, shape (R, L), from their words (width, L), one of WORDS.

    Two passes over each row, shift and mask; two more for a value that straddles words. Memory
    traffic: `width` bits read and R bits written for each value, as long as a row stays in
    cache. A width of R bits comes back as it is, by its dtype with a sign.
    """
    rows = 8 * words_WL.itemsize
    if width == rows:
        return words_WL
    lanes_RL = words_WL.new_empty(rows, words_WL.shape[1])
    words, signed = words_WL.unbind(0), rows > 8
    for row, lane_L in enumerate(lanes_RL.unbind(0)):
        at, shift = divmod(row * width, rows)
        torch.bitwise_right_shift(words[at], shift, out=lane_L)
        if shift + width > rows:
            if signed:  # the shift copied the sign down
                lane_L &= (1 << (rows - shift)) - 1
            lane_L.add_(words[at + 1], alpha=1 << (rows - shift))
        if shift + width != rows or signed:
            lane_L &= (1 << width) - 1
    return lanes_RL


def _raise(packed, width, lowest, out):
    """None; writes minimum + packed: one pass, two where words are narrower than values."""
    if packed.itemsize == out.itemsize:
        torch.add(packed.view(out.dtype), lowest, out=out)
        return
    out.copy_(packed)
    if width == 8 * packed.itemsize and packed.dtype != torch.uint8:
        out &= (1 << width) - 1  # the copy extended the sign
    out += lowest


def _by_width(found):
    groups = {}
    for k, (_, width) in enumerate(found):
        groups.setdefault(width, []).append(k)
    return groups
