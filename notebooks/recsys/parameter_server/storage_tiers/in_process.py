"""The volatile tier in the process: for each table an index and a block of vectors.

When a table holds more than `most` vectors, the longest unread go until 80 % are left: the
policy `evict_oldest` of the original, with its resolution target of 0.8.

Shapes: `K` keys, `W` width; keys int64, vectors float32, all NumPy.
"""

import numpy as np

TARGET = 0.8


class InProcess:
    """`tier = InProcess(100_000)`, so many vectors of each table; `tier.get("ads", keys)`.

    Rows that are not found are zero. One thread at a time: the hierarchy holds a lock.
    """

    def __init__(self, most):
        if most < 1:
            raise ValueError(f"a tier of {most} vectors came; 1 or more is allowed")
        self.most, self.clock, self.tables = most, 0, {}

    def get(self, table, keys):
        """(vectors (K, W), found (K,)); what is found is read now, which keeps it longer."""
        rows = self._rows(table, keys)
        found = rows >= 0
        if table not in self.tables:
            return None, found
        _, vectors, read = self.tables[table]
        self.clock += 1
        read[rows[found]] = self.clock
        return np.where(found[:, None], vectors[rows], np.float32(0)), found

    def put(self, table, keys, vectors):
        """None; keeps these vectors, of equal keys the last."""
        if table not in self.tables:
            size = self.most + 1
            block = np.zeros((size, vectors.shape[1]), np.float32)
            self.tables[table] = ({}, block, np.zeros(size, np.int64))
        index, block, read = self.tables[table]
        self.clock += 1
        for start in range(0, len(keys), max(1, self.most // 8)):
            part = slice(start, start + max(1, self.most // 8))
            new = [key for key in dict.fromkeys(keys[part].tolist()) if key not in index]
            if len(index) + len(new) > self.most:
                self._evict(table, len(new))
                index, block, read = self.tables[table]
                new = [key for key in dict.fromkeys(keys[part].tolist()) if key not in index]
            index.update(zip(new, range(len(index), len(index) + len(new)), strict=True))
            rows = self._rows(table, keys[part])
            block[rows], read[rows] = vectors[part], self.clock

    def refresh(self, table, keys, vectors):
        """None; new vectors for keys that are held, and for no others."""
        found = self._rows(table, keys) >= 0
        if found.any():
            self.put(table, keys[found], vectors[found])

    def clear(self):
        """None; forgets all."""
        self.tables = {}

    def count(self, table):
        """How many vectors of a table are held."""
        return len(self.tables[table][0]) if table in self.tables else 0

    def _rows(self, table, keys):
        index = self.tables[table][0] if table in self.tables else {}
        return np.fromiter((index.get(key, -1) for key in keys.tolist()), np.int64, len(keys))

    def _evict(self, table, coming):
        index, block, read = self.tables[table]
        stay = max(0, min(int(TARGET * self.most), self.most - coming, len(index)))
        rows = np.sort(
            np.argsort(-read[: len(index)], kind="stable")[:stay]
        )  # longest unread go
        keys = np.fromiter(index, np.int64, len(index))[rows]  # an index keeps its rows' order
        block[:stay], read[:stay] = block[rows], read[rows]
        self.tables[table] = (dict(zip(keys.tolist(), range(stay), strict=True)), block, read)
