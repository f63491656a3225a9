"""The persistent tier: a full copy of every table in RocksDB, in the process.

A table is a column family, as in the original. One `write` puts vectors of several tables and
the reader's place in the log into one batch: after any kill, both are there or neither is.

Shapes: `K` keys, `W` width; keys int64, vectors float32, all NumPy.
"""

import json
import shutil
from pathlib import Path

import numpy as np
from rocksdict import (
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DataBlockIndexType,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

PLACE = b"place"  # in the default family


class Rocks:
    """`with Rocks(folder, {"ads": 64}) as tier: tier.write([("ads", keys, vectors)], place)`

    `widths`: of the tables; those that the folder has already must be among them. `durable`
    waits for the disk at each write: without it a write survives a killed process, not a lost
    machine.
    """

    def __init__(self, folder, widths, cache_mb=8, durable=False):
        self.folder, self.widths = Path(folder), dict(widths)
        held = Rdict.list_cf(str(folder)) if self.folder.exists() else ["default"]
        if unknown := set(held) - {"default", *self.widths}:
            came = f"tables {sorted(self.widths)}"
            raise ValueError(f"{came}, but the folder has {sorted(unknown)} too; name them all")
        options = _options(cache_mb)
        families = {name: options for name in held if name != "default"}
        self.db = Rdict(str(folder), options, column_families=families)
        for name in set(self.widths) - set(held):
            self.db.create_column_family(name, options)
        self.tables = {name: self.db.get_column_family(name) for name in self.widths}
        self.handles = {name: self.db.get_column_family_handle(name) for name in self.widths}
        self.how = WriteOptions()
        self.how.sync = durable

    def get(self, table, keys):
        """(vectors (K, W), found (K,)); rows that are not found are zero."""
        held = self._table(table).get(_words(keys))
        found = np.fromiter((value is not None for value in held), bool, len(held))
        vectors = np.zeros((len(held), self.widths[table]), np.float32)
        if found.any():
            joined = b"".join(held if found.all() else filter(None, held))
            vectors[found] = np.frombuffer(joined, np.float32).reshape(-1, self.widths[table])
        return vectors, found

    def write(self, parts, place=None):
        """None; all parts (table, keys, vectors) and the place, in one batch or not at all."""
        batch = WriteBatch(raw_mode=True)
        for table, keys, vectors in parts:
            self._table(table)
            wanted = (len(keys), self.widths[table])
            vectors = np.ascontiguousarray(vectors, np.float32)
            if vectors.shape != wanted:
                came = f"vectors of shape {vectors.shape} came for table {table!r}"
                raise ValueError(f"{came}; {wanted} is needed")
            batch.set_default_column_family(self.handles[table])
            values, step = vectors.tobytes(), 4 * wanted[1]
            for row, word in enumerate(_words(keys)):
                batch.put(word, values[row * step : row * step + step])
        if place is not None:
            batch.set_default_column_family(self.db.get_column_family_handle("default"))
            batch.put(PLACE, json.dumps(place).encode())
        self.db.write(batch, self.how)

    def place(self):
        """What the last write that had one said of the reader's place; None before."""
        held = self.db.get(PLACE)
        return held and json.loads(held)

    def load(self, table, keys, vectors, step=20_000):
        """None; a whole table, in batches, packed for reading."""
        for start in range(0, len(keys), step):
            part = slice(start, start + step)
            self.write([(table, keys[part], vectors[part])])
        self.tables[table].flush()
        self.tables[table].compact_range(None, None)

    def copy_to(self, folder):
        """None; a copy of everything as it is now, from which another node starts."""
        if Path(folder).exists():
            raise ValueError(f"{folder} is there already; a copy needs a new folder")
        try:
            Checkpoint(self.db).create_checkpoint(str(folder))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def close(self):
        """None; lets go of the folder."""
        self.tables = self.handles = {}
        self.db.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _table(self, name):
        if name not in self.tables:
            raise ValueError(f"there is no table {name!r}; there are {sorted(self.tables)}")
        return self.tables[name]


def _words(keys):
    packed = np.asarray(keys, dtype=">i8").tobytes()
    return [packed[at : at + 8] for at in range(0, len(packed), 8)]


def _options(cache_mb):
    options, blocks = Options(raw_mode=True), BlockBasedOptions()
    options.create_if_missing(True)
    blocks.set_block_cache(Cache(int(cache_mb * 2**20)))
    blocks.set_bloom_filter(10, False)  # a key never seen reads no block
    blocks.set_data_block_index_type(DataBlockIndexType.binary_and_hash())
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(DBCompressionType.none())  # vectors of floats hardly shrink
    return options
