"""Six models that nobody has to allocate: Tiny to Colossal, as descriptions; and ids that follow a power law.

The numbers are those of `config_v3.py` in NVIDIA-Merlin/distributed-embeddings (Apache-2.0), retold: (tables, ids of each input, rows,
width). Where two hotnesses stand, the table is shared by two inputs. `DLRM_TERABYTE` has the rows of the 26 tables of the
Criteo Terabyte log with no value left out (MLPerf's list): their sum times 128 is the article's 113 billion.
"""

from typing import NamedTuple

import torch

from lookup import Bags
from placement import Table


class Kind(NamedTuple):
    """`count` tables alike, read by one input for each number of ids in `hot`."""

    count: int
    hot: tuple
    rows: int
    width: int


class Model(NamedTuple):
    """A synthetic model: kinds of tables, hidden layers, numeric features; `stride` of the pooling before the layers."""

    name: str
    kinds: tuple
    hidden: tuple
    numbers: int
    stride: int | None

    @property
    def tables(self):
        """All tables, (rows, width)."""
        return [Table(k.rows, k.width) for k in self.kinds for _ in range(k.count)]

    @property
    def inputs(self):
        """The table of each input."""
        hots = [k.hot for k in self.kinds for _ in range(k.count)]
        return [table for table, hot in enumerate(hots) for _ in hot]

    @property
    def hot(self):
        """How many ids each input has in a sample."""
        return tuple(n for k in self.kinds for _ in range(k.count) for n in k.hot)

    @property
    def bytes(self):
        """What the tables take in float32."""
        return 4 * sum(table.elements for table in self.tables)

    def shrunk(self, factor, least=4):
        """The same model with a `factor`-th of the rows, at least so many; widths, inputs and layers stay."""
        kinds = [k._replace(rows=max(min(k.rows, least), k.rows // factor)) for k in self.kinds]
        return self._replace(name=f"{self.name} / {factor:,}", kinds=tuple(kinds))


def _model(name, hidden, numbers, stride, *kinds):
    return Model(name, tuple(Kind(count, hot, int(rows), width) for count, hot, rows, width in kinds), hidden, numbers, stride)


ONE = (1,)
MODELS = {
    "Tiny": _model(
        "Tiny", (256, 128), 10, None,
        (1, (1, 10), 1e4, 8), (1, (1, 10), 1e6, 16), (1, (1, 10), 25e6, 16), (1, ONE, 25e6, 16), (16, ONE, 10, 8),
        (10, ONE, 1e3, 8), (4, ONE, 1e4, 8), (2, ONE, 1e5, 16), (19, ONE, 1e6, 16),
    ),
    "Small": _model(
        "Small", (512, 256, 128), 10, None,
        (5, (1, 30), 1e4, 16), (3, (1, 30), 4e6, 32), (1, (1, 30), 50e6, 32), (1, ONE, 50e6, 32), (30, ONE, 10, 16),
        (30, ONE, 1e3, 16), (5, ONE, 1e4, 16), (5, ONE, 1e5, 32), (27, ONE, 4e6, 32),
    ),
    "Medium": _model(
        "Medium", (1024, 512, 256, 128), 25, 7,
        (20, (1, 50), 1e5, 64), (5, (1, 50), 1e7, 64), (1, (1, 50), 1e8, 128), (1, ONE, 1e8, 128), (80, ONE, 10, 32),
        (60, ONE, 1e3, 32), (80, ONE, 1e5, 64), (24, ONE, 2e5, 64), (40, ONE, 1e7, 64),
    ),
    "Large": _model(
        "Large", (2048, 1024, 512, 256), 100, 8,
        (40, (1, 100), 1e5, 64), (16, (1, 100), 15e6, 64), (1, (1, 100), 2e8, 128), (1, ONE, 2e8, 128), (100, ONE, 10, 32),
        (100, ONE, 1e4, 32), (160, ONE, 1e5, 64), (50, ONE, 5e5, 64), (144, ONE, 15e6, 64),
    ),
    "Jumbo": _model(
        "Jumbo", (2048, 1024, 512, 256), 200, 20,
        (50, (1, 200), 1e5, 128), (24, (1, 200), 2e7, 128), (1, (1, 200), 4e8, 256), (1, ONE, 4e8, 256), (100, ONE, 10, 32),
        (200, ONE, 1e4, 64), (350, ONE, 1e5, 128), (80, ONE, 1e6, 128), (216, ONE, 2e7, 128),
    ),
    "Colossal": _model(
        "Colossal", (4096, 2048, 1024, 512, 256), 500, 30,
        (100, (1, 300), 1e5, 128), (50, (1, 300), 4e7, 256), (1, (1, 300), 2e9, 256), (1, ONE, 1e9, 256), (100, ONE, 10, 32),
        (400, ONE, 1e4, 128), (100, ONE, 1e5, 128), (800, ONE, 1e6, 128), (450, ONE, 4e7, 256),
    ),
}  # fmt: skip

_TERABYTE = """227605432 39060 17295 7424 20265 3 7122 1543 63 130229467 3067956 405282 10 2209 11938 155 4 976 14 292775614
40790948 187188510 590152 12973 108 36"""
DLRM_TERABYTE = Model(
    "DLRM", tuple(Kind(1, ONE, int(rows), 128) for rows in _TERABYTE.split()), (1024, 1024, 512, 256), 13, None
)


def power_law(count, rows, alpha=1.05, generator=None, device="cpu"):
    """`count` ids from 0 to rows - 1, id k about as often as (k + 1) ** -alpha; 1.05 is what the benchmark draws.

    A continuous power law from 1 to rows + 1 is cut off to whole numbers, by the inverse of its distribution function.
    """
    if rows < 1 or count < 0 or alpha == 1:
        raise ValueError(f"count={count}, rows={rows}, alpha={alpha}: at least one row is needed, and alpha other than 1")
    share = torch.rand(count, generator=generator, device=device, dtype=torch.float64)
    power = 1 - alpha
    drawn = (share * ((rows + 1) ** power - 1) + 1) ** (1 / power)
    return drawn.long().clamp(1, rows) - 1


def drawn_bags(model, batch, generator=None, device="cpu", alpha=1.05):
    """The Bags of `batch` samples of a model: fixed hotness, power-law ids."""
    pairs = zip(model.inputs, model.hot, strict=True)
    ids = [power_law(hot * batch, model.tables[t].rows, alpha, generator, device) for t, hot in pairs]
    return Bags(torch.cat(ids), model.hot)
