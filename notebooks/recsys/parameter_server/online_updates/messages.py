"""A message: new vectors of one table, numbered by its trainer.

Bytes: magic, sequence number (8), keys (4), width (4), CRC-32 of the rest (4), the keys
(int64), the vectors (float32), all little-endian. The message's Kafka key is the table's name.
"""

import struct
import zlib

import numpy as np

HEAD = struct.Struct("<4sQIII")
MAGIC = b"EMB1"


class BadMessage(ValueError):
    """A message that must not reach the tables; `sequence` is its number, if readable."""

    def __init__(self, why, sequence=-1):
        super().__init__(why)
        self.sequence = sequence


def pack(sequence, keys, vectors):
    """The bytes of a message; it is not looked at whether vectors are finite."""
    vectors = np.ascontiguousarray(vectors, "<f4")
    body = np.asarray(keys, "<i8").tobytes() + vectors.tobytes()
    return HEAD.pack(MAGIC, sequence, *vectors.shape, zlib.crc32(body)) + body


def unpack(message):
    """(sequence, keys (K,), vectors (K, W)); BadMessage for anything that `pack` did not make.

    Vectors with NaN or infinity are bad, too, and so is the reserved key.
    """
    if message is None or len(message) < HEAD.size:
        raise BadMessage(f"{len(message or b'')} bytes came; a head has {HEAD.size}")
    magic, sequence, count, width, crc = HEAD.unpack_from(message)
    wanted = HEAD.size + 8 * count + 4 * count * width
    if magic != MAGIC or len(message) != wanted:
        came = f"{magic!r} and {len(message)} bytes came"
        raise BadMessage(f"{came}; {MAGIC!r} and {wanted} bytes are needed")
    body = memoryview(message)[HEAD.size :]
    if zlib.crc32(body) != crc:
        raise BadMessage("the checksum is another: bytes changed on the way")
    keys = np.frombuffer(body[: 8 * count], "<i8").astype(np.int64)
    vectors = np.frombuffer(body[8 * count :], "<f4").reshape(count, width)
    if not np.isfinite(vectors).all():
        raise BadMessage("a vector with NaN or infinity: one would spoil every score", sequence)
    if (keys == np.iinfo(np.int64).min).any():
        raise BadMessage("the reserved key: it marks an empty slot", sequence)
    return sequence, keys, vectors.astype(np.float32)
