"""The volatile tier in the process: the set-associative cache again, in the host's memory.

What was looked at longest ago goes first, as the article says of its second level. Unlike the
original's hash map it goes one by one, from the set of the key that comes, not down to 80 %.
"""

import numpy as np


class InProcess:
    """`tier = InProcess(100_000)`, so many vectors of each table, or a set's 64 more.

    Calls are those of `RedisTier`, where it is said what a stamp is. Shapes: `K` keys, `W`
    width; keys int64, vectors float32, all NumPy.
    """

    def __init__(self, most):
        if most < 1:
            raise ValueError(f"a tier of {most} vectors came; 1 or more is allowed")
        self.most, self.tables = most, {}

    def get(self, table, keys, stamp, width):
        """(vectors (K, W), found (K,)); rows that are not found are zero."""
        cache, found = self._of(table, stamp), np.ones(len(keys), bool)
        if cache is None:
            return np.zeros((len(keys), width), np.float32), ~found
        held = cache.query(_tensor(keys))
        found[held.missing.numpy()] = False
        return held.vectors.numpy(), found

    def put(self, table, keys, vectors, stamp):
        """None; keeps these vectors of the table's state `stamp`, of equal keys the last."""
        if self._of(table, stamp) is None:
            from device_cache import DeviceCache  # it needs torch, other tiers do not

            self.tables[table] = stamp, DeviceCache(self.most, vectors.shape[1])
        cache, keys, vectors = self.tables[table][1], _tensor(keys), _tensor(vectors)
        cache.replace(keys, vectors)
        cache.update(keys, vectors)

    def refresh(self, table, keys, vectors, old, new):
        """None; of keys that are held, the vectors by which the state `new` follows `old`."""
        if cache := self._of(table, old):
            cache.update(_tensor(keys), _tensor(vectors))
            self.tables[table] = new, cache

    def count(self, table):
        """How many vectors of a table are held."""
        return len(self.tables[table][1].dump()) if table in self.tables else 0

    def _of(self, table, stamp):
        """The table's cache; None where there is none of this stamp."""
        if table in self.tables and self.tables[table][0] != stamp:
            del self.tables[table]
        return self.tables[table][1] if table in self.tables else None


def _tensor(array):
    import torch

    return torch.from_numpy(np.ascontiguousarray(array))
