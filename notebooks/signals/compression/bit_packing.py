"""Bit-packing: each stream of integers becomes its minimum and `width` bits for each value.

A stream of M values is laid out as R rows of L = ceil(M / R) lanes, R the bits of a word: value
i stands in row i // L, lane i % L. Each lane packs its R values into `width` words, so that
word k of all lanes lies together: shape (width, L). One row is then unpacked by one shift and
one mask over all lanes, of all streams with that width at once. This is the interleaved layout
of Lemire and Boytsov (2015) with L lanes in place of four. A word has 32 bits up to width 32,
64 beyond.

Values are taken modulo 2^bits: value = minimum + packed. The same bits hold the signed and the
unsigned reading, so the encoder takes whichever range is narrower and the decoder need not
know.

Legend: C streams, M values of one, L lanes of one, R rows (bits of a word).
"""

from operator import itemgetter

import torch

LOWEST = {1: -(1 << 7), 2: -(1 << 15), 4: -(1 << 31), 8: -(1 << 63)}


def rows_of(width):
    """Bits of a word, which is also the values of one lane: 32 up to width 32, else 64."""
    return 32 if width <= 32 else 64


def packed_bytes(count, width):
    """Bytes of a packed stream: `packed_bytes(33, 5)` is two lanes of five 4-byte words, 40."""
    rows = rows_of(width)
    return -(-count // rows) * width * (rows // 8)


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
    """The "amin", "amax" or "sum" of each stream, shape (C,); lengths are positive."""
    if len(set(lengths)) == 1:
        return getattr(values_M.view(len(lengths), -1), way)(1).to(values_M.dtype)
    where = torch.tensor(lengths, device=values_M.device)
    owner_M = torch.repeat_interleave(
        torch.arange(len(lengths), device=values_M.device), where, output_size=len(values_M)
    )
    out_C = values_M.new_zeros(len(lengths))
    return out_C.scatter_reduce_(0, owner_M, values_M, way, include_self=False)


def pack(values_M, lengths, found):
    """C packed streams as uint8 tensors, given `found`, the (minimum, width) of each.

    Streams of one width are packed together: `width` words for each lane, each written by the
    rows whose bits it holds.
    """
    packed, parts = [None] * len(lengths), values_M.split(lengths)
    for width, group in _by_width(found).items():
        rows = rows_of(width)
        word = torch.int32 if rows == 32 else torch.int64
        columns = []
        for k in group:
            left_M = (parts[k] - found[k][0]).to(word)
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
    """The C streams again, a list of tensors of `dtype` (int8 to int64), shape (M,) each.

    `streams` are uint8 tensors of `packed_bytes(length, width)` bytes each, `found` their
    (minimum, width). Raises nothing for any content: every pattern of bits is some value.
    """
    values = [None] * len(lengths)
    for width, group in _by_width(found).items():
        rows = rows_of(width)
        word = torch.int32 if rows == 32 else torch.int64
        lanes = [-(-lengths[k] // rows) for k in group]
        if width:
            words = [streams[k].view(word).view(width, -1) for k in group]
            lanes_RL = unpack_rows(words[0] if len(words) == 1 else torch.cat(words, 1), width)
        else:
            lanes_RL = torch.zeros(
                rows, sum(lanes), dtype=word, device=streams[group[0]].device
            )
        if lanes_RL.dtype != dtype:
            lanes_RL = lanes_RL.to(dtype)
        lowest = torch.tensor([found[k][0] for k in group]).to(dtype)  # modulo 2^bits
        lanes_RL += torch.repeat_interleave(lowest, torch.tensor(lanes)).to(lanes_RL.device)
        for k, part_RL in zip(group, lanes_RL.split(lanes, 1), strict=True):
            values[k] = part_RL.reshape(-1)[: lengths[k]]
    return values


def unpack_rows(words_WL, width):
    """The packed values of all lanes, shape (R, L), from their words (width, L).

    One shift and one mask for each row; a value that straddles two words takes three more
    passes. Memory traffic: `width` bits read and one word written for each value, as long as a
    row stays in cache.
    """
    rows = rows_of(width)
    if width == rows:
        return words_WL.clone()
    lanes_RL = words_WL.new_empty(rows, words_WL.shape[1])
    for row in range(rows):
        at, shift = divmod(row * width, rows)
        lane_L = lanes_RL[row]
        torch.bitwise_right_shift(words_WL[at], shift, out=lane_L)
        if shift + width > rows:
            lane_L &= (1 << (rows - shift)) - 1  # the shift copied the sign down
            lane_L |= words_WL[at + 1] << (rows - shift)
        lane_L &= (1 << width) - 1
    return lanes_RL


def _by_width(found):
    groups = {}
    for k, (_, width) in enumerate(found):
        groups.setdefault(width, []).append(k)
    return groups
