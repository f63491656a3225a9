"""LZ4's block format, written and read: bytes that the C library reads, and the other way
round.

Source: `lz4_Block_format.md` of lz4. A block is a chain of sequences: a token (high four bits
the number of literals, low four the match length less 4; 15 goes on in bytes of 255 until one
is less), the literals, a two-byte offset back, 1 to 65,535. The last sequence has literals
alone. The last five bytes are literals, and the last match begins twelve bytes or more before
the end. A copy may overlap what it writes: offset 1 repeats a byte.

The matches are found for all positions at once by a stable sort of four-byte words: equal words
become neighbours, in the order of their places. The choice among them is greedy, one sequence
after the other, as the format is; so this is a reference to learn from, far from the C
library's speed.
"""

import bisect

import torch

MINIMUM, REACH = 4, 65_535  # a match's bytes at least; how far back one reaches
LAST_LITERALS, LAST_START = 5, 12


def encode(data):
    """The LZ4 block of `data`, bytes-like: `encode(b"")` is b"\\0"; at most
    `max_encoded_bytes(len(data))` long, readable by every LZ4 decoder."""
    data, out, done = bytes(data), bytearray(), 0
    for begin, offset, length in sequences(data, LAST_START, LAST_LITERALS):
        _write(out, data[done:begin], length - MINIMUM)
        out += offset.to_bytes(2, "little")
        _write_rest(out, length - MINIMUM)
        done = begin + length
    _write(out, data[done:], 0)
    return bytes(out)


def decode(block, size):
    """The `size` bytes that `block`, bytes-like, holds.

    Raises ValueError unless it is a whole block of exactly so many: for one that is cut short,
    a length beyond `size`, an offset of 0 or before the begin, a match that reaches into the
    last five bytes. Writes at most `size` bytes, whatever the block says."""
    block, out, at = bytes(block), bytearray(), 0
    while True:
        if at >= len(block):
            raise ValueError(f"LZ4 block of {len(block)} bytes is cut short at a token")
        token = block[at]
        literals, at = _read_length(block, at + 1, token >> 4)
        if at + literals > len(block) or len(out) + literals > size:
            raise ValueError(f"{literals} literals at {at}: beyond the block or {size} bytes")
        out += block[at : at + literals]
        at += literals
        if at == len(block):
            break
        offset = int.from_bytes(block[at : at + 2], "little")
        if at + 2 > len(block) or not 1 <= offset <= len(out):
            raise ValueError(f"offset {offset} at {at}: 1 to {len(out)} bytes back are there")
        length, at = _read_length(block, at + 2, token & 15)
        if len(out) + length + MINIMUM > size - LAST_LITERALS:
            raise ValueError(f"a match of {length + MINIMUM} reaches into the last five bytes")
        copy(out, offset, length + MINIMUM)
    if not size and block != b"\0":
        raise ValueError(f"no bytes are one zero, as a block; {block[:8].hex()} came")
    if len(out) != size:
        raise ValueError(f"the block holds {len(out)} bytes, {size} were wanted")
    return bytes(out)


def max_encoded_bytes(size):
    """Bytes of the longest block of `size` bytes: incompressible ones grow by 1 in 255."""
    return size + size // 255 + 16


def copy(out, offset, length):
    """None; appends `length` bytes from `offset` back, which may be bytes that it appends."""
    begin = len(out) - offset
    if length <= offset:
        out += out[begin : begin + length]
    else:
        out += (bytes(out[begin:]) * (length // offset + 1))[:length]


def earlier_twins(data):
    """For each position the nearest earlier one with the same four bytes, int64, -1 for none.

    >>> earlier_twins(b"abcdabcdx").tolist()
    [-1, -1, -1, -1, 0, -1]
    """
    if len(data) < MINIMUM:
        return torch.empty(0, dtype=torch.int64)
    bytes_N = torch.frombuffer(bytearray(data), dtype=torch.uint8).to(torch.int64)
    count = len(data) - MINIMUM + 1
    words_N = sum(bytes_N[i : i + count] << (8 * i) for i in range(MINIMUM))
    sorted_N, order_N = torch.sort(words_N, stable=True)
    same = sorted_N[1:] == sorted_N[:-1]
    twins_N = torch.full((count,), -1)
    twins_N[order_N[1:][same]] = order_N[:-1][same]
    return twins_N


def sequences(data, last_start, last_literals):
    """Greedy matches as triples (begin, offset, length), in order and without overlap.

    None begins in the last `last_start` bytes, or reaches into the last `last_literals`.
    """
    twins_N = earlier_twins(data)[: max(0, len(data) - last_start + 1)]
    at_N = torch.arange(len(twins_N))
    places = ((twins_N >= 0) & (at_N - twins_N <= REACH)).nonzero().squeeze(1).tolist()
    twins, done, k = twins_N.tolist(), 0, 0
    while (k := bisect.bisect_left(places, done, k)) < len(places):
        begin = places[k]
        length = common_length(data, twins[begin], begin, len(data) - last_literals)
        if length >= MINIMUM:
            yield begin, begin - twins[begin], length
        done = begin + (length if length >= MINIMUM else 1)


def common_length(data, first, second, end):
    """How many bytes from `first` and from `second` are equal, up to `end` of the second."""
    length, step = 0, 16
    while second + length < end:
        step = min(step, end - second - length)
        a = data[first + length : first + length + step]
        b = data[second + length : second + length + step]
        if a == b:
            length, step = length + step, step * 2
        elif step == 1:
            break
        else:
            step = max(1, step // 2)
    return length


def _write(out, literals, match):
    out.append(min(len(literals), 15) << 4 | min(match, 15))
    _write_rest(out, len(literals))
    out += literals


def _write_rest(out, length):
    if length >= 15:
        whole, rest = divmod(length - 15, 255)
        out += b"\xff" * whole + bytes([rest])


def _read_length(block, at, length):
    """(length, next position) of a length whose first four bits are given."""
    more = 255 if length == 15 else 0
    while more == 255:
        if at >= len(block):
            raise ValueError(f"LZ4 block of {len(block)} bytes is cut short in a length")
        more = block[at]
        length, at = length + more, at + 1
    return length, at
