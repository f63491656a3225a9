"""A message: new vectors of one table, numbered by its trainer.

Bytes: magic, the trainer's identity (8), its sequence number (8), keys (4), width (4), CRC-32
of all else (4), the keys (int64), the vectors (float32), all little-endian. The message's Kafka
key is the table's name.
"""

import struct
import zlib

import numpy as np

HEAD, CRC = struct.Struct("<4sQQII"), struct.Struct("<I")
MAGIC, SIZE = b"EMB2", HEAD.size + CRC.size


class BadMessage(ValueError):
    """Bytes that `pack` never made."""


def pack(number, keys, vectors):
    """The bytes of a message, whatever the vectors.

    `number`: (the trainer's identity, its sequence number), both below 2**64.
    """
    vectors = np.ascontiguousarray(vectors, "<f4")
    body = np.asarray(keys, "<i8").tobytes() + vectors.tobytes()
    head = HEAD.pack(MAGIC, *number, *vectors.shape)
    return head + CRC.pack(zlib.crc32(body, zlib.crc32(head))) + body


def unpack(message):
    """((trainer, sequence), keys (K,), vectors (K, W)); BadMessage for what `pack` never made.

    Whether a table may have these keys and vectors, its tiers say.
    """
    if message is None or len(message) < SIZE:
        raise BadMessage(f"{len(message or b'')} bytes came; a head has {SIZE}")
    magic, trainer, sequence, count, width = HEAD.unpack_from(message)
    wanted = SIZE + 8 * count + 4 * count * width
    if magic != MAGIC or len(message) != wanted:
        came = f"{magic!r} and {len(message)} bytes came"
        raise BadMessage(f"{came}; {MAGIC!r} and {wanted} bytes are needed")
    head, body = message[: HEAD.size], memoryview(message)[SIZE:]
    if CRC.unpack_from(message, HEAD.size)[0] != zlib.crc32(body, zlib.crc32(head)):
        raise BadMessage("the checksum is another: bytes changed on the way")
    keys = np.frombuffer(body[: 8 * count], "<i8").astype(np.int64)
    vectors = np.frombuffer(body[8 * count :], "<f4").reshape(count, width)
    return (trainer, sequence), keys, vectors.astype(np.float32)
