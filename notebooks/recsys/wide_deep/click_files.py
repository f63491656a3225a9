"""Features as batches on disk, read through a memory map.

The article stores "pre-batched TFRecords": each record is a whole batch, shuffled once while it
is written, so that training reads long stretches and does no work a row. We keep the idea and
replace the format by Arrow IPC files, which need no TensorFlow and are read through a memory
map: a batch is a slice of the file, and nothing is parsed.

A batch is written with three fixed-width columns, `categories`, `multi_hot` and `numbers`,
beside clicked, display_id and ad_id. `write` makes each file whole or not at all, keeps a
journal of finished ones with their SHA-256, and after a kill goes on behind the last. The
folder counts as finished, and can be opened, when `manifest.json` stands in it.

Shapes: `B` rows of a batch, `C` categorical columns, `H` multi-hot features, `K` slots of each
(0 is an empty one), `F` numeric columns.
"""

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from click_loader import Loader, LoaderReport  # noqa: F401  (public here)

_FORMAT = 1


@dataclass(frozen=True)
class Layout:
    """Which columns of a features table go where: names in order; `slots` a multi-hot feature.

    >>> Layout(("ad_id_hash",), ("topic_0", "topic_1", "topic_2"), ("ad_ctr",)).slots
    3
    """

    categories: tuple
    multi_hot: tuple
    numbers: tuple
    slots: int = 3

    def __post_init__(self):
        if len(self.multi_hot) % self.slots:
            raise ValueError(
                f"{len(self.multi_hot)} multi-hot columns are no multiple of {self.slots} slots"
            )


def write(source, folder, layout, rows=131_072, files_of=8, seed=None):
    """The manifest (a dict) of `folder`, with all rows of `source` as batches of `rows`.

    >>> write(["train.parquet"], "train", layout, rows=8192, seed=0)["batches"]
    25

    source: a pyarrow Table, or paths of Parquet files; it is held in memory once. `seed`: the
    rows are shuffled over all batches first; None keeps their order. The last batch may be
    shorter; a file has `files_of` batches. A killed run is gone on with by the same call, and a
    finished folder is left as it is. Raises ValueError for other content in `folder`, a column
    that is missing, has nulls or a wrong type, negative buckets, and a source without rows.
    """
    table, folder = _table(source, layout), Path(folder)
    options = {"format": _FORMAT, "rows": table.num_rows, "batch_rows": rows}
    options |= {"files_of": files_of, "seed": seed, "layout": asdict(layout)}
    options = json.loads(json.dumps(options)) | {"source": _digest(table)}
    done = _resume(folder, options)
    if isinstance(done, dict):
        return done
    order = None if seed is None else np.random.default_rng(seed).permutation(table.num_rows)
    with open(folder / "journal.jsonl", "a", encoding="utf-8") as journal:
        for number, first in enumerate(range(0, table.num_rows, rows * files_of)):
            if number < len(done):
                continue
            last = min(first + rows * files_of, table.num_rows)
            part = table.slice(first, last - first)
            if order is not None:
                part = table.take(pa.array(order[first:last]))
            made = _write_file(folder, number, part, layout, rows)
            done.append(made | {"rows": last - first})
            journal.write(json.dumps(done[-1]) + "\n")
            journal.flush()
            os.fsync(journal.fileno())
    manifest = options | {"batches": -(-table.num_rows // rows), "files": done}
    _replace(folder / "manifest.json", json.dumps(manifest, indent=1).encode())
    (folder / "journal.jsonl").unlink()
    return manifest


class ClickFiles:
    """A finished folder of batches: `len(files)`, `files.rows`, `files[3]`.

    `files[i]` is a dict of NumPy arrays: categories (B, C) and multi_hot (B, H, K) int32,
    numbers (B, F) float32, clicked (B,) int8, display_id and ad_id (B,) int64; they are views
    of the file, not to be written to. `verify` holds every file against its SHA-256 first.
    Raises FileNotFoundError for a folder that was not finished, ValueError for a damaged file.
    """

    def __init__(self, folder, verify=True):
        self.folder = Path(folder)
        path = self.folder / "manifest.json"
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} is missing: the folder was not finished; call `write` again"
            )
        self.manifest = json.loads(path.read_text(encoding="utf-8"))
        self.layout = Layout(**self.manifest["layout"])
        self.rows, self._open = self.manifest["rows"], {}
        for file in self.manifest["files"]:
            if problem := _damage(self.folder, file, verify):
                raise ValueError(f"{self.folder / file['name']} {problem}; write it again")

    def __len__(self):
        return self.manifest["batches"]

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(f"batch {index}; there are {len(self)}")
        number, at = divmod(index, self.manifest["files_of"])
        if number not in self._open:
            file = pa.memory_map(str(self.folder / self.manifest["files"][number]["name"]))
            self._open[number] = pa.ipc.open_file(file)
        batch = self._open[number].get_batch(at)
        arrays = {name: batch.column(name) for name in batch.schema.names}
        for name in ("categories", "multi_hot", "numbers"):
            arrays[name] = arrays[name].flatten()
        arrays = {name: array.to_numpy() for name, array in arrays.items()}
        slots = self.layout.slots
        hot = (len(self.layout.multi_hot) // slots, slots)
        count, kinds = batch.num_rows, len(self.layout.categories)
        arrays["categories"] = arrays["categories"].reshape(count, kinds)
        arrays["multi_hot"] = arrays["multi_hot"].reshape(count, *hot)
        arrays["numbers"] = arrays["numbers"].reshape(count, len(self.layout.numbers))
        return arrays


def _table(source, layout):
    named = [*layout.categories, *layout.multi_hot, *layout.numbers]
    named = ["display_id", "ad_id", "clicked", *named]
    if not isinstance(source, pa.Table):
        tables = [pq.read_table(path) for path in source]
        source = pa.concat_tables(tables)
    if missing := [name for name in named if name not in source.column_names]:
        raise ValueError(f"columns {missing} are missing; there are {source.column_names}")
    table = source.select(named).combine_chunks()
    if not table.num_rows:
        raise ValueError("the source has no rows; at least one is needed")
    for name in named:
        column, number = table[name], name in layout.numbers
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


def _resume(folder, options):
    """The manifest of a finished folder, or the files that a killed run had finished."""
    folder.mkdir(parents=True, exist_ok=True)
    finished, journal = folder / "manifest.json", folder / "journal.jsonl"
    if finished.is_file():
        manifest = json.loads(finished.read_text(encoding="utf-8"))
        if options.items() <= manifest.items():
            return manifest
        raise ValueError(f"{folder} holds batches of other data or options; name a new folder")
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.is_file() else []
    if not lines and any(not path.name.startswith(".") for path in folder.iterdir()):
        raise ValueError(f"{folder} holds other files; name an empty or a new folder")
    if lines and json.loads(lines[0]) != options:
        raise ValueError(f"{folder} was begun with other data or options; name a new folder")
    done = []
    for line in lines[1:]:
        try:
            file = json.loads(line)
        except ValueError:  # the kill came in the middle of a line
            break
        if _damage(folder, file, True):
            break
        done.append(file)
    _replace(journal, "".join(json.dumps(x) + "\n" for x in [options, *done]).encode())
    return done


def _write_file(folder, number, part, layout, rows):
    arrays = {name: part[name] for name in ("clicked", "display_id", "ad_id")}
    wide = {"categories": pa.int32(), "multi_hot": pa.int32(), "numbers": pa.float32()}
    for name, dtype in wide.items():
        names = getattr(layout, name)
        values = np.stack([part[n].to_numpy() for n in names], 1) if names else np.empty(0)
        flat = pa.array(values.astype(dtype.to_pandas_dtype()).ravel())
        arrays[name] = pa.FixedSizeListArray.from_arrays(flat, len(names))
    types = {"clicked": pa.int8(), "display_id": pa.int64(), "ad_id": pa.int64()}
    arrays = {n: a.cast(types[n]) if n in types else a for n, a in arrays.items()}
    table, sink = pa.table(arrays), pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    content = sink.getvalue()
    name = f"batches-{number:05d}.arrow"
    _replace(folder / name, content)
    return {"name": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _replace(path, content):
    """Writes a file whole: another name first, onto the disk, then its own name."""
    temp = path.with_name(f".{path.name}.partial")
    with open(temp, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temp, path)


def _damage(folder, file, verify):
    """What is wrong with a file of the journal or manifest, or ""."""
    path = folder / file["name"]
    if not path.is_file():
        return "is missing"
    if path.stat().st_size != file["bytes"]:
        return f"has {path.stat().st_size:,} bytes, {file['bytes']:,} were written"
    if verify:
        with path.open("rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() != file["sha256"]:
                return "differs from what was written (SHA-256)"
    return ""


def _digest(table):
    """SHA-256 of a table's names, types and values."""
    found = hashlib.sha256(repr(table.schema.remove_metadata()).encode())
    for column in table.columns:
        found.update(np.ascontiguousarray(column.to_numpy()))
    return found.hexdigest()
