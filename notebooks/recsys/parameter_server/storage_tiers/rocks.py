"""The persistent tier: a full copy of every table in RocksDB, in the process.

A table is a column family, as in the original. One `write` puts vectors of several tables, the
reader's place in the log and a stamp of each table into one batch: after any kill, all are
there or none. A stamp is drawn at each write, not counted: two nodes that go on from one copy
count alike and hold other vectors. `PackedRows` answers what it can; RocksDB is the truth.

Shapes: `K` keys, `N` rows, `W` width; keys int64, vectors float32, all NumPy.
"""

import contextlib
import json
import secrets
import tempfile
import threading
from pathlib import Path

import numpy as np
import rocksdict

from .encoding import rows_of, values, words

PLACE, STAMP = b"place", b"stamp:"  # in the default family
RESERVED = -(2**63)  # the key of no row: it marks an empty slot of a cache


class Rocks(contextlib.AbstractContextManager):
    """`with Rocks(folder, {"ads": 64}) as tier: tier.write([("ads", keys, vectors)], place)`

    `widths`: of the tables; those that the folder has already must be among them. `packed`:
    whether tables get a read copy. A write survives a killed process, not a lost machine: it
    does not wait for the disk.
    """

    def __init__(self, folder, widths, cache_mb=8, packed=True):
        self.folder, self.widths, self.packs = Path(folder), dict(widths), packed
        held = rocksdict.Rdict.list_cf(str(folder)) if self.folder.exists() else ["default"]
        if unknown := set(held) - {"default", *self.widths}:
            came = f"tables {sorted(self.widths)}"
            raise ValueError(f"{came}, but the folder has {sorted(unknown)} too; name them all")
        options = _options(cache_mb)
        families = {name: options for name in held if name != "default"}
        self.db = rocksdict.Rdict(str(folder), options, column_families=families)
        for name in set(self.widths) - set(held):
            self.db.create_column_family(name, options)
        self.tables = {name: self.db.get_column_family(name) for name in self.widths}
        self.handles = {name: self.db.get_column_family_handle(name) for name in self.widths}
        self.packed = {}
        self.stamps = {name: self._stamp(name) for name in self.widths}
        for name in held:
            self._pack(name)

    def get(self, table, keys):
        """(vectors (K, W), found (K,)); rows that are not found are zero."""
        packed = self.packed.get(self._known(table))
        if packed is None:
            return self._below(table, keys)
        vectors, found = packed.get(keys)
        if len(new := np.flatnonzero(~found)):
            vectors[new], found[new] = self._below(table, keys[new])
        return vectors, found

    def _below(self, table, keys):
        held = self.tables[table].get(words(keys))
        vectors, found = rows_of(held, self.widths[table])
        if found.sum() != sum(one is not None for one in held):
            raise ValueError(
                f"table {table!r} has rows that are not {self.widths[table]} floats"
            )
        return vectors, found

    def checked(self, parts):
        """The parts (table, keys, vectors), one for each table; ValueError for what may not be.

        That is: no such table, another shape, NaN or infinity, the reserved key.
        """
        tables = {}
        for table, keys, vectors in parts:
            wanted = (len(keys), self.widths[self._known(table)])
            keys, vectors = np.asarray(keys), np.ascontiguousarray(vectors, np.float32)
            if vectors.shape != wanted:
                came = f"vectors of shape {vectors.shape} came for table {table!r}"
                raise ValueError(f"{came}; {wanted} is needed")
            if not np.isfinite(vectors).all():
                raise ValueError(f"NaN or infinity came for {table!r}: it would spoil scores")
            if keys.dtype != np.int64 or (keys == RESERVED).any():
                came = f"keys of {keys.dtype} came for {table!r}"
                raise ValueError(f"{came}; int64 without the reserved key {RESERVED} is needed")
            tables.setdefault(table, []).append((keys, vectors))
        return [
            (table, *map(np.concatenate, zip(*pairs, strict=True)))
            for table, pairs in tables.items()
        ]

    def write(self, parts, place=None):
        """None; all parts (table, keys, vectors) and the place, in one batch or not at all."""
        parts, batch = self.checked(parts), rocksdict.WriteBatch(raw_mode=True)
        for table, keys, vectors in parts:
            batch.set_default_column_family(self.handles[table])
            for word, value in zip(words(keys), values(vectors), strict=True):
                batch.put(word, value)
        batch.set_default_column_family(self.db.get_column_family_handle("default"))
        for table, *_ in parts:
            batch.put(STAMP + table.encode(), secrets.token_bytes(16))
        if place is not None:
            batch.put(PLACE, json.dumps(place).encode())
        copies = {table: self.packed.pop(table, None) for table, *_ in parts}  # until all is in
        try:
            self.db.write(batch)
        finally:  # one that failed may be in, too
            self.stamps |= {table: self._stamp(table) for table in copies}
        for table, keys, vectors in parts:
            if copies[table]:
                copies[table].put(keys, vectors)
                self.packed[table] = copies[table]

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
        self._pack(table)

    def _pack(self, table):
        if self.packs and table in self.tables:
            pairs = self.tables[table].items()
            self.packed[table] = PackedRows(self.folder, pairs, self.widths[table])

    def _stamp(self, table):
        return self.db.get(STAMP + table.encode()) or b"never written"

    def copy_to(self, folder):
        """None; a copy of everything as it is now, from which another node starts."""
        if Path(folder).exists():
            raise ValueError(f"{folder} is there already; a copy needs a new folder")
        rocksdict.Checkpoint(self.db).create_checkpoint(str(folder))

    def close(self):
        """None; lets go of the folder."""
        self.tables = self.handles = {}
        self.db.close()

    def __exit__(self, *_):
        self.close()

    def _known(self, name):
        if name not in self.tables:
            raise ValueError(f"there is no table {name!r}; there are {sorted(self.tables)}")
        return name


class PackedRows:
    """A read copy of a table: all rows in one file, so that a row is an offset.

    RocksDB looks for each key in its own blocks and hands back bytes; here the keys are one
    sorted array, and the rows one mapped file. It has no name and is written at each start, so
    that nothing of it has to be believed. It costs the table's bytes once more on disk, 8 bytes
    a key in memory, and a pass over the table at the start: `pairs`, of a key's bytes and a
    vector's, in RocksDB's order.
    """

    def __init__(self, folder, pairs, width):
        words, self.lock = [], threading.Lock()
        with tempfile.TemporaryFile(dir=folder) as file:
            for word, value in pairs:
                if len(value) != 4 * width:
                    came = f"a row of {len(value)} bytes came"
                    raise ValueError(f"{came}; {4 * width} are needed: is it another width?")
                words.append(word)
                file.write(value)
            file.flush()
            shape, self.rows_NW = (len(words), width), np.zeros((0, width), np.float32)
            if words:  # the mapping outlives the file
                self.rows_NW = np.asarray(np.memmap(file, np.float32, "r+", shape=shape))
        self.keys_N = np.frombuffer(b"".join(words), ">u8").astype(np.uint64)

    def get(self, keys):
        """(vectors (K, W), found (K,)); rows that are not found are zero."""
        at, found = self._places(keys)
        vectors = np.zeros((len(keys), self.rows_NW.shape[1]), np.float32)
        with self.lock:
            vectors[found] = self.rows_NW[at[found]]
        return vectors, found

    def put(self, keys, vectors):
        """None; new vectors of keys that are there, of equal keys the last."""
        at, found = self._places(keys)
        with self.lock:
            self.rows_NW[at[found]] = vectors[found]

    def _places(self, keys):
        wanted = np.asarray(keys, np.int64).view(
            np.uint64
        )  # RocksDB's order: negative ones last
        at = np.searchsorted(self.keys_N, wanted)
        at[at == len(self.keys_N)] = 0
        return at, self.keys_N[at] == wanted if len(self.keys_N) else np.zeros(len(at), bool)


def _options(cache_mb):
    options, blocks = rocksdict.Options(raw_mode=True), rocksdict.BlockBasedOptions()
    options.create_if_missing(True)
    blocks.set_block_cache(rocksdict.Cache(int(cache_mb * 2**20)))
    blocks.set_bloom_filter(10, False)  # a key never seen reads no block
    blocks.set_data_block_index_type(rocksdict.DataBlockIndexType.binary_and_hash())
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(
        rocksdict.DBCompressionType.none()
    )  # vectors of floats hardly shrink
    return options
