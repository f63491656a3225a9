"""Cascaded on a CPU: a core takes a chunk into its cache and walks through it once for each
layer, in compiled loops. PyTorch's operations would walk through all memory once for each step.

A stream of n integers is packed as its minimum and `width` bits for each value: frame of
reference. It lies in R rows of L = ceil(n / R) lanes, R the bits of a word, value i in row
i // L, lane i % L. Each lane packs its R values into `width` words; word k of all lanes lies
together. All values of a row have one shift, so a core unpacks several at once, and a GPU as
many as it has threads. This is the vertical layout of Lemire and Boytsov (2015), with as many
lanes as the stream has in place of four. A word is the narrowest of 8, 16, 32 and 64 bits that
holds the width.

Values are int64 in here and count modulo 2^bits: the same bits hold the signed and the unsigned
reading, so the narrower range is packed, and the reader need not know which it was.

Legend: C chunks, B bytes, K words of a header; of an array the first n values count.
"""

import numba
import numpy as np

OK, CUT_SHORT, BAD_STREAM, BAD_COUNTS = range(4)  # what a chunk's status says
COUNT = (1 << 32) - 1  # the bits of a header's word that say how many values; the others: width
compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


@compiled
def packed_bytes(n, width):
    """Bytes of a packed stream: `packed_bytes(33, 5)` is five lanes of five bytes, 25."""
    rows = word_bits(width)
    return -(-n // rows) * width * (rows // 8)


@compiled
def word_bits(width):
    """Bits of the words that hold `width` bits."""
    return 8 if width <= 8 else 16 if width <= 16 else 32 if width <= 32 else 64


@compiled
def copy(source, target, n):
    """None; n values into an array of another type, the low bits of each."""
    for i in range(n):
        target[i] = source[i]


@compiled
def runs(values, n, ends):
    """How many runs there are; `values` keeps one of each, `ends` says where each ends. No
    branch depends on the values: one that a core cannot guess costs more than two stores."""
    found, before = 0, values[0]
    for i in range(1, n):
        values[found], ends[found] = before, i  # again and again, until the run is over
        now = values[i]
        found += now != before
        before = now
    values[found], ends[found] = before, n
    return found + 1


@compiled
def differences(values, n, spare):
    """The base; `values` become the differences of neighbours, modulo 2^(64 - spare). The first
    has no predecessor: it repeats the smallest of the others, which never widens the range, and
    base + it is the first value."""
    first = before = values[0]
    least = (values[1] - before) << spare >> spare if n > 1 else 0
    for i in range(1, n):
        now = values[i]
        step = (now - before) << spare >> spare
        values[i], before, least = step, now, min(least, step)
    values[0] = least
    return (first - least) << spare >> spare


@compiled
def bits(span):
    """Bits of an integer that is read without a sign."""
    width = 64 if span < 0 else 0
    while span > 0:
        width, span = width + 1, span >> 1
    return width


@compiled
def narrowest(values, n, lowest):
    """(minimum, width) by the narrower of the signed and the unsigned reading; `lowest` is that
    of the type. Of int8 127 and -128, which differ by one, (127, 1)."""
    low = high = values[0]
    low_turned = high_turned = values[0] ^ lowest  # sorted as without a sign
    for i in range(1, n):
        low, high = min(low, values[i]), max(high, values[i])
        turned = values[i] ^ lowest
        low_turned, high_turned = min(low_turned, turned), max(high_turned, turned)
    signed, unsigned = bits(high - low), bits(high_turned - low_turned)
    return (low_turned ^ lowest, unsigned) if unsigned < signed else (low, signed)


@compiled
def pack(values, n, low, width, words, out):
    """None; fills the bytes `out` with the packed stream, row by row into the `words` that hold
    its bits; a row's bits may go on in the next words."""
    rows = word_bits(width)
    lanes, mask = -(-n // rows), -1 if width == 64 else (1 << width) - 1
    words[: width * lanes] = 0
    for row in range(rows if width else 0):
        at, shift, begin = row * width // rows * lanes, row * width % rows, row * lanes
        past, piece, held = shift + width - rows, values[begin:n][:lanes], words[at:]
        for lane in range(len(piece)):
            held[lane] |= (piece[lane] - low & mask) << shift
        if past > 0:
            held = words[at + lanes :]
            for lane in range(len(piece)):
                held[lane] |= (piece[lane] - low & mask) >> width - past
    if rows == 8:
        copy(words, out, len(out))
    elif rows == 16:
        copy(words, out.view(np.uint16), len(out) // 2)
    elif rows == 32:
        copy(words, out.view(np.uint32), len(out) // 4)
    else:
        copy(words, out.view(np.int64), len(out) // 8)


@compiled
def unpack(packed, n, low, width, words, values):
    """None; the values again: shift and mask, and twice that for one that straddles words."""
    rows = word_bits(width)
    lanes, mask = -(-n // rows), -1 if width == 64 else (1 << width) - 1
    if rows == 8:
        copy(packed, words, len(packed))
    elif rows == 16:
        copy(packed.view(np.uint16), words, len(packed) // 2)
    elif rows == 32:
        copy(packed.view(np.uint32), words, len(packed) // 4)
    else:
        copy(packed.view(np.int64), words, len(packed) // 8)
    if not width:
        values[:n] = low
    for row in range(rows if width else 0):
        at, shift, begin = row * width // rows * lanes, row * width % rows, row * lanes
        past, piece, held = shift + width - rows, values[begin:n][:lanes], words[at:]
        if past <= 0:
            for lane in range(len(piece)):
                piece[lane] = (held[lane] >> shift & mask) + low
        else:
            rest, here = words[at + lanes :], (1 << width - past) - 1  # not the sign's copies
            for lane in range(len(piece)):
                found = held[lane] >> shift & here | rest[lane] << width - past
                piece[lane] = (found & mask) + low


@compiled
def repeat(values, counts, n, out):
    """Whether n counts, modulo 2^32, are positive and add up to len(out), which then has each
    value so often; nothing is written past `out`, whatever they say."""
    at = 0
    for k in range(n):
        count = counts[k] << 32 >> 32
        if count < 1 or count > len(out) - at:
            return False
        value, run = values[k], out[at : at + count]
        for i in range(count):
            run[i] = value
        at += count
    return at == len(out)


@compiled
def sums(values, n, base, out):
    """None; the sum of all up to each value, from the base on, into `out` or in place."""
    total = base
    for i in range(n):
        total += values[i]
        out[i] = total


@compiled
def encode_stream(values, n, lowest, words, out, at, stream):
    """Where a stream ends that begins at byte `at` of a chunk, `out`; it and its fields of the
    header are written if it fits."""
    low, width = narrowest(values, n, lowest)
    end = at + packed_bytes(n, width)
    if end <= len(out):
        head = out[16 * stream : 16 * stream + 16].view(np.int64)
        head[0], head[1] = n | width << 32, low
        pack(values, n, low, width, words, out[at:end])
    return end


@compiled
def encode(column, begins, lengths, rles, deltas, out_CB, sizes, first, last):
    """None; packs chunks `first` to `last` into rows of `out_CB`, uint8, and says in `sizes`
    how many bytes each takes; a chunk that is longer than its row is not whole there."""
    room = np.empty((3, lengths.max() + 64), np.int64)
    values, ends, words = room[0], room[1], room[2]
    spare, header = 64 - 8 * column.itemsize, 16 * (rles + 1) + 8 * deltas
    for c in range(first, last):
        n, at, out = lengths[c], header, out_CB[c]
        copy(column[begins[c] :], values, n)
        for layer in range(max(rles, deltas)):
            if layer < rles:
                n = runs(values, n, ends)
                for k in range(n - 1, 0, -1):
                    ends[k] -= ends[k - 1]  # counts
                at = encode_stream(ends, n, -(1 << 31), words, out, at, layer)
            if layer < deltas:
                base = differences(values, n, spare)
                if header <= len(out):
                    out[16 * (rles + 1) : header].view(np.int64)[layer] = base
        sizes[c] = encode_stream(values, n, -1 << 63 - spare, words, out, at, rles)


@compiled
def check_headers(packed, begins, sizes, lengths, rles, bits, heads_CK, statuses):
    """None; fills in each chunk's header and status.

    A stream has a value at least and no more than the one around it, its width is at most its
    type's, and the streams fill the chunk's bytes to the last one: what a header claims is
    bounded by what is there before anybody follows it."""
    words = heads_CK.shape[1]
    for c in range(len(begins)):
        statuses[c] = CUT_SHORT
        if sizes[c] < 8 * words:
            continue
        head, around, size, good = heads_CK[c], lengths[c], 8 * words, True
        copy(packed[begins[c] : begins[c] + size].view(np.int64), head, words)
        for s in range(rles + 1):
            n, width, least = head[2 * s] & COUNT, head[2 * s] >> 32, 1 if s < rles else around
            good &= least <= n <= around and 0 <= width <= (32 if s < rles else bits)
            size += packed_bytes(n, width) if good else 0
            around = n
        statuses[c] = OK if good and size == sizes[c] else BAD_STREAM


@compiled
def decode_stream(packed, at, head, stream, words, values):
    """How many values a stream has, which are now in `values`; `at`: where the first begins."""
    for s in range(stream):
        at += packed_bytes(head[2 * s] & COUNT, head[2 * s] >> 32)
    n, width, low = head[2 * stream] & COUNT, head[2 * stream] >> 32, head[2 * stream + 1]
    unpack(packed[at : at + packed_bytes(n, width)], n, low, width, words, values)
    return n


@compiled
def decode(packed, begins, heads_CK, lengths, rles, deltas, out, places, statuses, first, last):
    """None; unpacks those of chunks `first` to `last` whose status is 0, from byte `begins[c]`
    of `packed` to `places[c]` of `out`; a status says where counts do not add up.

    Somebody has checked the headers: whether a stream lies in its chunk is not asked again."""
    room = np.empty((4, lengths.max() + 64), np.int64)
    values, other, counts, words = room[0], room[1], room[2], room[3]
    for c in range(first, last):
        if statuses[c]:
            continue
        head, target = heads_CK[c], out[places[c] : places[c] + lengths[c]]
        at, good = begins[c] + 8 * heads_CK.shape[1], True
        n = decode_stream(packed, at, head, rles, words, values)
        for layer in range(max(rles, deltas) - 1, -1, -1):
            if layer < deltas:
                base = head[2 * (rles + 1) + layer]
                if layer or rles:
                    sums(values, n, base, values)
                else:
                    sums(values, n, base, target)
            if layer < rles and good:
                decode_stream(packed, at, head, layer, words, counts)
                outer = head[2 * layer - 2] & COUNT if layer else lengths[c]
                if layer:
                    good = repeat(values, counts, n, other[:outer])
                    values, other = other, values
                else:
                    good = repeat(values, counts, n, target)
                n = outer
        if not rles and not deltas:
            copy(values, target, n)
        if not good:
            statuses[c] = BAD_COUNTS
