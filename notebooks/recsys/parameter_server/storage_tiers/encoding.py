"""Keys and vectors as the bytes that Redis and RocksDB hold.

Shapes: `K` keys, `W` width; keys int64, vectors float32, all NumPy.
"""

import numpy as np


def words(keys):
    """Eight bytes for each key (K,), the highest first."""
    packed = np.asarray(keys, ">i8").tobytes()
    return [packed[at : at + 8] for at in range(0, len(packed), 8)]


def values(vectors):
    """The bytes of each vector (K, W)."""
    rows = np.ascontiguousarray(vectors, np.float32)
    packed, step = rows.tobytes(), 4 * rows.shape[1]
    return [packed[at : at + step] for at in range(0, len(packed), step)]


def rows_of(held, width):
    """(vectors (K, W), found (K,)) of what a store answered: bytes, or None.

    Bytes of another length are not found, nor is what holds NaN or infinity; its row is zero.
    """
    size = 4 * width
    found = np.fromiter((one is not None and len(one) == size for one in held), bool, len(held))
    vectors = np.zeros((len(held), width), np.float32)
    if found.any():
        joined = b"".join(one for one, there in zip(held, found, strict=True) if there)
        vectors[found] = np.frombuffer(joined, np.float32).reshape(-1, width)
        found &= np.isfinite(vectors).all(1)
        vectors[~found] = 0
    return vectors, found
