"""Snappy's raw format, written and read: bytes that other implementations read, and the other
way round.

Source: `format_description.txt` of google/snappy. The length before compression as a varint,
then elements, the low two bits of whose first byte say what they are: 00 literals (length less
1 in six bits; 60 to 63 mean one to four more bytes), 01 a copy of 4 to 11 bytes from up to
2,047 back, 10 one of 1 to 64 bytes with a two-byte offset, 11 the same with four bytes. Raw
means without the framing format's magic and checksums. Matches are those of `lz4_block`."""

from lz4_block import MINIMUM, copy, sequences


def encode(data):
    """The raw Snappy form of `data`, bytes-like; `encode(b"")` is b"\\0"."""
    data, out, done = bytes(data), bytearray(_varint(len(data))), 0
    for begin, offset, length in sequences(data, MINIMUM, 0):
        _write_literals(out, data[done:begin])
        done = begin + length
        while length > 64:
            part = 64 if length >= 68 else 60  # leaves four bytes or more
            out += bytes([(part - 1) << 2 | 2]) + offset.to_bytes(2, "little")
            length -= part
        if length <= 11 and offset < 2048:
            out += bytes([offset >> 8 << 5 | (length - 4) << 2 | 1, offset & 255])
        else:
            out += bytes([(length - 1) << 2 | 2]) + offset.to_bytes(2, "little")
    _write_literals(out, data[done:])
    return bytes(out)


def decode(block, size):
    """The `size` bytes that `block`, bytes-like, holds.

    Raises ValueError unless it is whole, and says and holds exactly so many: for one that is
    cut short, an element beyond `size`, an offset of 0 or before the begin. Writes at most
    `size` bytes, whatever the block says."""
    block, out = bytes(block), bytearray()
    said, at = _read_varint(block)
    if said != size:
        raise ValueError(f"the block says {said} bytes, {size} were wanted")
    while at < len(block):
        tag, kind = block[at] >> 2, block[at] & 3
        if kind == 0:
            extra = max(0, tag - 59)
            length = 1 + (_integer(block, at + 1, extra) if extra else tag)
            at += 1 + extra
            if at + length > len(block) or len(out) + length > size:
                raise ValueError(f"{length} literals at {at}: beyond the block or {size} bytes")
            out += block[at : at + length]
            at += length
            continue
        if kind == 1:
            length, offset = 4 + (tag & 7), tag >> 3 << 8 | _integer(block, at + 1, 1)
        else:
            length, offset = 1 + tag, _integer(block, at + 1, 2 if kind == 2 else 4)
        at += 1 + (1, 2, 4)[kind - 1]
        if not 1 <= offset <= len(out) or len(out) + length > size:
            raise ValueError(
                f"a copy of {length} from {offset} back: {len(out)} of {size} are there"
            )
        copy(out, offset, length)
    if len(out) != size:
        raise ValueError(f"the block holds {len(out)} bytes, {size} were wanted")
    return bytes(out)


def max_encoded_bytes(size):
    """Bytes of the longest form of `size` bytes, as the reference implementation bounds it."""
    return 32 + size + size // 6


def _write_literals(out, literals):
    count = len(literals) - 1
    if count >= 60:
        extra = (count.bit_length() + 7) // 8
        out += bytes([(59 + extra) << 2]) + count.to_bytes(extra, "little")
    elif count >= 0:
        out.append(count << 2)
    out += literals


def _integer(block, at, size):
    if at + size > len(block):
        raise ValueError(f"Snappy block of {len(block)} bytes is cut short at {at}")
    return int.from_bytes(block[at : at + size], "little")


def _varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(block):
    """(value, next position); at most five bytes, 32 bits."""
    value = 0
    for at in range(5):
        byte = _integer(block, at, 1)
        value |= (byte & 127) << (7 * at)
        if byte < 128 and value < 1 << 32:
            return value, at + 1
    raise ValueError("the length before compression has more than 32 bits")
