"""Where each embedding table lies: a pure function from tables and devices to a plan.

The rules are those of NVIDIA-Merlin/distributed-embeddings 1.0 (`dist_model_parallel.py`), in
our own code. Sizes and thresholds count elements (rows x width):

    elements <= replicate_threshold   a copy on every device, gradients averaged
    elements >= row_threshold         rows cut into one range for each device
    otherwise                         whole, or columns cut into 2, 4, 8 ... slices, each of
                                      at most column_threshold

Where we differ: tables of one width merge whatever their combiner, since here the layer divides
the sums of means itself; `device_limit` counts copies and row slices, too, and may move row
slices to the host; what lies there is merged as well. Theirs limits and moves whole tables and
column slices alone, merges none of those on the host, and deals in turn on one device. Theirs
refuses a plan that leaves a device without a piece; here that device stays idle.
"""

import heapq
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

STRATEGIES = ("basic", "memory_balanced", "memory_optimized")


class Table(NamedTuple):
    """An embedding table: `Table(10_000, 16)`; several ids become their "sum" or "mean"."""

    rows: int
    width: int
    combiner: str = "sum"

    @property
    def elements(self):
        """The numbers in the table."""
        return self.rows * self.width


class Piece(NamedTuple):
    """A rectangle of a table on a device; `host`: its weights lie in the host's memory."""

    table: int
    device: int
    first_row: int
    rows: int
    first_col: int
    cols: int
    host: bool = False

    @property
    def elements(self):
        """The numbers in the piece."""
        return self.rows * self.cols


class Merged(NamedTuple):
    """Pieces of one width on a device, one below the other; piece k from row `offsets[k]`."""

    width: int
    host: bool
    pieces: tuple
    offsets: tuple
    rows: int


@dataclass(frozen=True)
class Plan:
    """What lies where. `inputs[i]`: the table of input i; `replicated`: on all devices."""

    tables: tuple
    devices: int
    strategy: str
    inputs: tuple
    pieces: tuple
    replicated: tuple = ()
    row_sliced: tuple = ()

    def on(self, device):
        """The pieces of a device, in the order of their tables."""
        return tuple(piece for piece in self.pieces if piece.device == device)

    def copies(self):
        """The replicated tables as pieces that belong to no device."""
        return tuple(
            Piece(t, -1, 0, self.tables[t].rows, 0, self.tables[t].width)
            for t in self.replicated
        )

    def merged(self, pieces):
        """The Merged tables of these pieces: one for each width on the device or its host."""
        groups = {}
        for piece in pieces:
            groups.setdefault((piece.cols, piece.host), []).append(piece)
        found = []
        for (width, host), own in groups.items():
            offsets = [0, *accumulate(piece.rows for piece in own)]
            found.append(Merged(width, host, tuple(own), tuple(offsets[:-1]), offsets[-1]))
        return found

    def wanted(self, pieces):
        """[(input, piece)] that these pieces answer: by merged table, by piece, by input."""
        readers = {}
        for one, table in enumerate(self.inputs):
            readers.setdefault(table, []).append(one)
        merged = self.merged(pieces)
        return [
            (one, piece)
            for group in merged
            for piece in group.pieces
            for one in readers.get(piece.table, ())
        ]

    def elements(self, device, host=False):
        """The numbers that a device keeps itself (copies included), or on its host."""
        copies = 0 if host else sum(self.tables[table].elements for table in self.replicated)
        return copies + sum(piece.elements for piece in self.on(device) if piece.host == host)


def plan(
    tables,
    devices,
    strategy="basic",
    *,
    inputs=None,
    column_threshold=None,
    row_threshold=None,
    replicate_threshold=None,
    device_limit=None,
):
    """The Plan of these tables on so many devices: `plan([(1000, 8), (500, 8)], 2).on(0)`.

    `tables`: (rows, width[, combiner]). `strategy`: "basic" deals slices out in turn,
    "memory_balanced" in a zigzag by size, "memory_optimized" the largest to the emptiest.
    `inputs`: the table of each, where shared. Thresholds in elements; with fewer tables than
    devices and no `column_threshold` the largest are halved until all have one. `device_limit`:
    what a device may hold; beyond, its largest pieces go to the host. ValueError otherwise.
    """
    tables, inputs = _described(tables, devices, strategy, inputs)
    _thresholds(column_threshold, row_threshold, replicate_threshold, device_limit)
    inf = float("inf")
    copied = [
        i
        for i, t in enumerate(tables)
        if replicate_threshold and t.elements <= replicate_threshold
    ]
    rows = [
        i
        for i, t in enumerate(tables)
        if t.elements >= (row_threshold or inf) and i not in copied
    ]
    whole = [i for i in range(len(tables)) if i not in copied and i not in rows]
    if column_threshold is None:
        column_threshold = _automatic([tables[i].elements for i in whole], devices)
    slices = {i: _widths(tables[i], column_threshold, devices) for i in whole}
    dealt = _dealt(tables, slices, devices, strategy)
    pieces = _columns(tables, slices, dealt) + _rows(tables, rows, devices)
    pieces = sorted(pieces, key=lambda piece: (piece.device, piece.table))
    if device_limit is not None:
        pieces = _offloaded(
            pieces, devices, device_limit - sum(tables[i].elements for i in copied)
        )
    return Plan(tables, devices, strategy, inputs, tuple(pieces), tuple(copied), tuple(rows))


def _described(tables, devices, strategy, inputs):
    try:
        tables = tuple(Table(*table) for table in tables)
    except TypeError as error:
        raise ValueError(f"tables: each is (rows, width[, combiner]); {error}") from None
    for at, table in enumerate(tables):
        whole = all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in table[:2])
        if not whole or table.combiner not in ("sum", "mean"):
            raise ValueError(
                f"table {at} is {tuple(table)}; whole numbers above 0, sum or mean"
            )
    if not tables or not isinstance(devices, int) or devices < 1:
        raise ValueError(f"{len(tables)} tables on {devices!r} devices: at least one of each")
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy {strategy!r}: allowed are {', '.join(STRATEGIES)}")
    inputs = tuple(range(len(tables)) if inputs is None else inputs)
    if wrong := [i for i in inputs if i not in range(len(tables))]:
        raise ValueError(f"inputs read table {wrong[0]!r}; allowed are 0 to {len(tables) - 1}")
    return tables, inputs


def _thresholds(column, row, replicate, limit):
    named = {
        "column_threshold": column,
        "row_threshold": row,
        "replicate_threshold": replicate,
        "device_limit": limit,
    }
    for name, value in named.items():
        if value is not None and not value >= 0:  # NaN as well
            raise ValueError(f"{name}={value!r}: a number of elements is needed, or None")
    if column is not None and column < 1:
        raise ValueError(f"column_threshold={column!r}: below one element, nothing fits")
    if row is not None and (replicate or 0) >= row:
        raise ValueError(f"replicate_threshold={replicate}, row_threshold={row}: both at once")


def _automatic(sizes, devices):
    """The threshold that halves the largest tables until all devices have a slice."""
    threshold, heap = float("inf"), [-size for size in sizes]
    heapq.heapify(heap)
    while heap and len(heap) < devices and -heap[0] > 1:
        largest = -heapq.heappop(heap)
        threshold = largest - 1
        heapq.heappush(heap, -(largest // 2))
        heapq.heappush(heap, -(largest // 2))
    return threshold


def _widths(table, threshold, devices):
    """The widths of a table's column slices; the first ones take what does not divide."""
    count = 1
    while table.elements / count > threshold:
        count *= 2
    count = min(count, devices, table.width)
    return [table.width // count + (k < table.width % count) for k in range(count)]


def _dealt(tables, slices, devices, strategy):
    """For each device the tables of its slices, one with several there several times."""
    ids = [i for i, widths in slices.items() for _ in widths]
    sizes = [tables[i].rows * width for i, widths in slices.items() for width in widths]
    if strategy == "basic":
        return [ids[device::devices] for device in range(devices)]
    ordered = [i for _, i in sorted(zip(sizes, ids, strict=True), reverse=True)]
    if strategy == "memory_balanced":
        turn = 2 * devices
        return [ordered[d::turn] + ordered[turn - 1 - d :: turn] for d in range(devices)]
    loads = [[0, []] for _ in range(devices)]  # of equal loads, the tables held decide
    for size, i in sorted(zip(sizes, ids, strict=True), reverse=True):
        load, held = heapq.heappop(loads)
        heapq.heappush(loads, [load + size, [*held, i]])
    return [held for _, held in sorted(loads)]


def _columns(tables, slices, dealt):
    """Pieces of whole columns in the devices' order: slices of a table on one become one."""
    pieces, next_col, left = [], Counter(), {i: list(widths) for i, widths in slices.items()}
    for device, held in enumerate(dealt):
        for table, count in Counter(held).items():
            cols = sum(left[table].pop(0) for _ in range(count))
            pieces.append(Piece(table, device, 0, tables[table].rows, next_col[table], cols))
            next_col[table] += cols
    return pieces


def _rows(tables, cut, devices):
    """Pieces of whole rows, one for each device; the first ones take what does not divide."""
    pieces = []
    for table in cut:
        first = 0
        for device in range(devices):
            rows = tables[table].rows // devices + (device < tables[table].rows % devices)
            if rows:
                pieces.append(Piece(table, device, first, rows, 0, tables[table].width))
            first += rows
    return pieces


def _offloaded(pieces, devices, limit):
    """The pieces, the largest of each device on its host until the rest keeps to the limit."""
    if limit < 0:
        raise ValueError(f"device_limit: {-limit:,} elements too few for the copies")
    room = dict.fromkeys(range(devices), limit)
    for piece in pieces:
        room[piece.device] -= piece.elements
    moved = set()
    for piece in sorted(pieces, key=lambda piece: (-piece.elements, piece)):
        if room[piece.device] < 0:
            room[piece.device] += piece.elements
            moved.add(piece)
    return [piece._replace(host=piece in moved) for piece in pieces]
