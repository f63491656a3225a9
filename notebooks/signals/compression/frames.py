"""The self-describing frame: what `compress` writes, and what `decompress` checks before it
trusts.

Little-endian. All that a reader needs stands in the frame, so it takes no arguments:

    0   magic "ACF1", then u8 each: version, codec, dtype, axes, run-length layers, delta
    layers,
        two zeros
    12  u32 bytes of a whole chunk before compression, u32 number of chunks
    20  u64 for each axis of the shape
        for each chunk: u32 stored bytes (the top bit: stored as is), u32 CRC-32 of them
        u32 CRC-32 of all above
        the chunks, one after the other, to the last byte of the frame

Every field that others follow from is checked twice: against its checksum, and against the
frame's real length, so that a frame with right checksums and absurd claims allocates nothing.
What no check of a header can bound is a good frame that is a decompression bomb: a chunk of a
few dozen bytes may hold 64 KiB of one value. So a reader states `max_bytes`. nvCOMP brought a
self-describing manager in 2.2, after the article's 2.0; its layout is another."""

import math
import struct
import zlib
from dataclasses import dataclass

import torch
from cascaded_chunks import Layers, check_layers

MAGIC, VERSION, FIXED = b"ACF1", 1, struct.Struct("<4s8BII")
CODECS = ("cascaded", "lz4", "snappy")
NAMES = (
    "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 bool"
)
DTYPES = [getattr(torch, name) for name in NAMES.split()]
AS_IS, MOST_AXES, LARGEST_CHUNK = 1 << 31, 8, 1 << 20
MOST_BYTES = 1 << 28  # of an array, unless the reader allows more


class FrameError(ValueError):
    """A frame that cannot be trusted; the message says which check it fails."""


@dataclass(frozen=True)
class Header:
    """What a frame says of its content; `chunk_bytes` is a multiple of the dtype's size."""

    codec: str
    dtype: torch.dtype
    shape: tuple
    layers: Layers
    chunk_bytes: int

    @property
    def total_bytes(self):
        """Bytes of the array before compression."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def chunk_lengths(self):
        """Bytes of each chunk before compression: all whole but the last."""
        whole, rest = divmod(self.total_bytes, self.chunk_bytes)
        return [self.chunk_bytes] * whole + [rest] * (rest > 0)


def write(header, chunks):
    """The frame as bytes. `chunks` are pairs (bytes, stored as is), as many as the header's
    shape has."""
    layers, codec = header.layers, CODECS.index(header.codec)
    fields = (VERSION, codec, DTYPES.index(header.dtype), len(header.shape))
    told = [*fields, layers.rles, layers.deltas, 0, 0]
    parts = [FIXED.pack(MAGIC, *told, header.chunk_bytes, len(chunks))]
    parts.append(struct.pack(f"<{len(header.shape)}Q", *header.shape))
    for chunk, as_is in chunks:
        parts.append(struct.pack("<II", len(chunk) | AS_IS * as_is, zlib.crc32(chunk)))
    head = b"".join(parts)
    return b"".join([head, struct.pack("<I", zlib.crc32(head)), *(c for c, _ in chunks)])


def read(frame, max_bytes=MOST_BYTES):
    """(header, chunks) of a frame: a Header, and for each chunk, all checked, the byte where it
    begins, how many it has, and whether it is stored as is.

    `frame` is bytes-like. Raises FrameError for anything that `write` would not have written,
    and for an array of more than `max_bytes`, by default 256 MiB. Allocates in proportion to
    the frame, whatever it claims. Not looked at, since no value depends on them: the bits that
    fill up a stream's last lanes."""
    frame = memoryview(frame).cast("B")
    if len(frame) < FIXED.size + 4:
        raise FrameError(f"{len(frame)} bytes, fewer than {FIXED.size + 4}: cut short")
    magic, version, codec, dtype, axes, *rest, chunk_bytes, count = FIXED.unpack_from(frame)
    if (magic, version) != (MAGIC, VERSION):
        raise FrameError(f"begins with {magic!r}, version {version}; {MAGIC!r}, 1 is read here")
    end = FIXED.size + 8 * axes + 8 * count
    if axes > MOST_AXES or end + 4 > len(frame):
        raise FrameError(
            f"claims {axes} axes and {count} chunks; {len(frame)} bytes list fewer"
        )
    if zlib.crc32(frame[:end]) != struct.unpack_from("<I", frame, end)[0]:
        raise FrameError("the header's checksum is wrong: damaged")
    header = _header(frame, codec, dtype, axes, rest, chunk_bytes)
    if header.total_bytes > max_bytes:
        raise FrameError(f"claims {header.total_bytes:,} bytes, beyond max_bytes={max_bytes:,}")
    if count != -(-header.total_bytes // chunk_bytes):
        raise FrameError(f"claims {count} chunks for {header.total_bytes:,} bytes")
    return header, _chunks(frame, end, count, header)


def _header(frame, codec, dtype, axes, rest, chunk_bytes):
    rles, deltas, *zeros = rest
    if codec >= len(CODECS) or dtype >= len(DTYPES) or any(zeros):
        raise FrameError(f"codec {codec}, dtype {dtype}, {zeros}: one is unknown")
    try:
        layers = check_layers((rles, deltas))
    except ValueError as error:
        raise FrameError(str(error)) from error
    if CODECS[codec] != "cascaded" and any(layers):
        raise FrameError(f"{CODECS[codec]} with {layers}: only cascaded has layers")
    kind = DTYPES[dtype]
    if chunk_bytes % 8 or not 8 <= chunk_bytes <= LARGEST_CHUNK:
        told = f"allowed are multiples of 8 up to {LARGEST_CHUNK:,}"
        raise FrameError(f"chunks of {chunk_bytes:,} bytes; {told}")
    shape = struct.unpack_from(f"<{axes}Q", frame, FIXED.size)
    if math.prod(axis or 1 for axis in shape) >= 1 << 63:  # no tensor's, though it be empty
        raise FrameError(f"claims the shape {shape}; its product passes 2^63, or max_bytes")
    return Header(CODECS[codec], kind, shape, layers, chunk_bytes)


def _chunks(frame, end, count, header):
    entries = struct.unpack_from(f"<{2 * count}I", frame, end - 8 * count)
    at, chunks = end + 4, []
    for k, length in enumerate(header.chunk_lengths):
        as_is, size = bool(entries[2 * k] & AS_IS), entries[2 * k] & ~AS_IS
        if at + size > len(frame) or (size != length if as_is else size >= length):
            raise FrameError(f"chunk {k} claims {size} bytes for {length}: damaged")
        if zlib.crc32(frame[at : at + size]) != entries[2 * k + 1]:
            raise FrameError(f"chunk {k}: its checksum is wrong: damaged")
        chunks.append((at, size, as_is))
        at += size
    if at != len(frame):
        raise FrameError(f"{len(frame) - at} bytes follow the last chunk; none are allowed")
    return chunks
