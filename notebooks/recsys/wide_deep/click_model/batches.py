"""Features as batches on disk, read through a memory map.

The article stores "pre-batched TFRecords": each record is a whole batch, shuffled once while it
is written, so that training reads long stretches and does no work a row. We replace the format
by Arrow IPC files, which need no TensorFlow: a batch is a slice of the file, and nothing is
parsed. It has three fixed-width columns, `categories`, `multi_hot` and `numbers`, beside
clicked, display_id and ad_id. The folder is a `click_features.Folder`, whose report holds every
file's SHA-256.

Shapes: `B` rows of a batch, `C` categorical columns, `H` multi-hot features, `K` slots of each
(0 is an empty one), `F` numeric columns.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from click_features import CATEGORIES, MULTI_HOT, NUMBERS, Folder, spec

_FORMAT = 2
WIDE = {  # columns of a batch: the features in it, their type, and the shape of a row
    "categories": (CATEGORIES, pa.int32(), (len(CATEGORIES),)),
    "multi_hot": (MULTI_HOT, pa.int32(), (len(MULTI_HOT) // spec.SLOTS, spec.SLOTS)),
    "numbers": (NUMBERS, pa.float32(), (len(NUMBERS),)),
}


def write_batches(source, folder, rows=131_072, per_file=8, seed=None):
    """The report (a dict) of `folder`, with all rows of `source` as batches of `rows`.

    >>> write_batches(["train.parquet"], "train", rows=8192, seed=0)["batches"]
    25

    source: a pyarrow Table, or paths of Parquet files; it is held in memory once. `seed`: the
    rows are shuffled over all batches first; None keeps their order. The last batch may be
    shorter; a file has `per_file` batches. A killed run is gone on with by the same call, and a
    finished folder is left as it is. Raises ValueError for other content in `folder`, a column
    that is missing, has nulls or a wrong type, negative buckets, and a source without rows.
    """
    table = _table(source)
    options = {"format": _FORMAT, "rows": table.num_rows, "batch_rows": rows}
    options |= {"per_file": per_file, "seed": seed}
    output = Folder(folder, **options, source=_digest(table))
    if output.report:
        return output.report
    order = None if seed is None else np.random.default_rng(seed).permutation(table.num_rows)
    names = []
    for number, first in enumerate(range(0, table.num_rows, rows * per_file)):
        names.append(f"batches-{number:05d}.arrow")
        if not output.has(names[-1]):
            last = min(first + rows * per_file, table.num_rows)
            part = table.slice(first, last - first)
            if order is not None:
                part = table.take(pa.array(order[first:last]))
            with output.file(names[-1]) as path:
                _write_file(path, part, rows)
    files = [{"name": name} | _facts(output.store.path / name) for name in names]
    return output.finish(**options, batches=-(-table.num_rows // rows), files=files)


class Batches:
    """A finished folder of batches: `len(batches)`, `batches.rows`, `batches[3]`.

    `batches[i]` is a dict of NumPy arrays: categories (B, C) and multi_hot (B, H, K) int32,
    numbers (B, F) float32, clicked (B,) int8, display_id and ad_id (B,) int64; they are views
    of the file, not to be written to. Every file is held against its SHA-256 first.
    Raises FileNotFoundError for a folder that was not finished, ValueError for a damaged file.
    """

    def __init__(self, folder):
        self.folder = Path(folder)
        path = self.folder / "report.json"
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} is missing: the folder was not finished; call `write_batches` again"
            )
        self.report = json.loads(path.read_text(encoding="utf-8"))
        self.rows, self._open = self.report["rows"], {}
        for file in self.report["files"]:
            if problem := _damage(self.folder / file["name"], file):
                raise ValueError(
                    f"{self.folder / file['name']} {problem}; remove the folder, write it again"
                )

    def __len__(self):
        return self.report["batches"]

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(f"batch {index}; there are {len(self)}")
        number, at = divmod(index, self.report["per_file"])
        if number not in self._open:
            file = pa.memory_map(str(self.folder / self.report["files"][number]["name"]))
            self._open[number] = pa.ipc.open_file(file)
        batch = self._open[number].get_batch(at)
        arrays = {}
        for name in batch.schema.names:
            column, shape = batch.column(name), WIDE[name][2] if name in WIDE else ()
            flat = column.flatten() if shape else column
            arrays[name] = flat.to_numpy().reshape(batch.num_rows, *shape)
        return arrays


def _table(source):
    named = list(spec.COLUMNS)
    if not isinstance(source, pa.Table):
        tables = [pq.read_table(path) for path in source]
        source = pa.concat_tables(tables)
    if missing := [name for name in named if name not in source.column_names]:
        raise ValueError(f"columns {missing} are missing; there are {source.column_names}")
    table = source.select(named).combine_chunks()
    if not table.num_rows:
        raise ValueError("the source has no rows; at least one is needed")
    for name in named:
        column, number = table[name], name in NUMBERS
        fits = pa.types.is_floating if number else pa.types.is_integer
        if column.null_count or not fits(column.type):
            raise ValueError(
                f"column {name} has type {column.type} and {column.null_count} nulls; "
                f"{'floats' if number else 'integers'} without nulls are needed"
            )
        low, high = pa.compute.min_max(column).as_py().values()
        if not number and low < 0:
            raise ValueError(f"column {name} has {low}; buckets and ids count from 0")
        if number and not pa.compute.all(pa.compute.is_finite(column)).as_py():
            raise ValueError(f"column {name} has values that are not finite, {low} to {high}")
    return table


def _write_file(path, part, rows):
    types = {"clicked": pa.int8(), "display_id": pa.int64(), "ad_id": pa.int64()}
    arrays = {name: part[name].cast(dtype) for name, dtype in types.items()}
    for name, (names, dtype, _) in WIDE.items():
        values = np.stack([part[n].to_numpy() for n in names], 1)
        flat = pa.array(values.astype(dtype.to_pandas_dtype()).ravel())
        arrays[name] = pa.FixedSizeListArray.from_arrays(flat, len(names))
    table = pa.table(arrays)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)


def _facts(path):
    with path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def _damage(path, file):
    """What is wrong with a file of the report, or ""."""
    if not path.is_file():
        return "is missing"
    return "" if file == file | _facts(path) else "differs from what was written"


def _digest(table):
    """SHA-256 of a table's names, types and values."""
    found = hashlib.sha256(repr(table.schema.remove_metadata()).encode())
    for column in table.columns:
        found.update(np.ascontiguousarray(column.to_numpy()))
    return found.hexdigest()
