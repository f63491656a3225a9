"""Six models that nobody has to allocate, Tiny to Colossal; and ids that follow a power law.

The numbers are those of `config_v3.py` in NVIDIA-Merlin/distributed-embeddings (Apache-2.0),
retold: (tables, ids of each input, rows, width). Where two hotnesses stand, the table is shared
by two inputs. `DLRM_TERABYTE` has the rows of the 26 tables of the Criteo Terabyte log with no
value left out (MLPerf's list): their sum times 128 is the article's 113 billion.
"""

import re
from typing import NamedTuple

import torch
from placement import Table


class Kind(NamedTuple):
    """`count` tables alike, read by one input for each number of ids in `hot`."""

    count: int
    hot: tuple
    rows: int
    width: int


class Model(NamedTuple):
    """A synthetic model: tables, hidden layers, numbers; `stride` of pooling before them."""

    name: str
    kinds: tuple
    hidden: tuple
    numbers: int
    stride: int

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


def _model(text):
    name, hidden, numbers, stride, *kinds = text.split()
    parts = [kind.split("*") for kind in kinds]
    made = [
        Kind(int(count), tuple(map(int, hot.split(","))), int(float(rows)), int(width))
        for count, hot, rows, width in parts
    ]
    return Model(
        name, tuple(made), tuple(map(int, hidden.split(","))), int(numbers), int(stride)
    )


# name, hidden layers, numeric features, stride (0: none), then kinds: tables*ids*rows*width
_MODELS = """
Tiny 256,128 10 0 1*1,10*1e4*8 1*1,10*1e6*16 1*1,10*25e6*16 1*1*25e6*16 16*1*10*8
  10*1*1000*8 4*1*1e4*8 2*1*1e5*16 19*1*1e6*16
Small 512,256,128 10 0 5*1,30*1e4*16 3*1,30*4e6*32 1*1,30*5e7*32 1*1*5e7*32 30*1*10*16
  30*1*1000*16 5*1*1e4*16 5*1*1e5*32 27*1*4e6*32
Medium 1024,512,256,128 25 7 20*1,50*1e5*64 5*1,50*1e7*64 1*1,50*1e8*128 1*1*1e8*128
  80*1*10*32 60*1*1000*32 80*1*1e5*64 24*1*2e5*64 40*1*1e7*64
Large 2048,1024,512,256 100 8 40*1,100*1e5*64 16*1,100*15e6*64 1*1,100*2e8*128 1*1*2e8*128
  100*1*10*32 100*1*1e4*32 160*1*1e5*64 50*1*5e5*64 144*1*15e6*64
Jumbo 2048,1024,512,256 200 20 50*1,200*1e5*128 24*1,200*2e7*128 1*1,200*4e8*256 1*1*4e8*256
  100*1*10*32 200*1*1e4*64 350*1*1e5*128 80*1*1e6*128 216*1*2e7*128
Colossal 4096,2048,1024,512,256 500 30 100*1,300*1e5*128 50*1,300*4e7*256 1*1,300*2e9*256
  1*1*1e9*256 100*1*10*32 400*1*1e4*128 100*1*1e5*128 800*1*1e6*128 450*1*4e7*256
"""
MODELS = {
    one.name: one for one in map(_model, re.sub(r"\n +", " ", _MODELS).strip().splitlines())
}

_TERABYTE = """227605432 39060 17295 7424 20265 3 7122 1543 63 130229467 3067956 405282 10 2209
11938 155 4 976 14 292775614 40790948 187188510 590152 12973 108 36"""
DLRM_TERABYTE = Model(
    "DLRM",
    tuple(Kind(1, (1,), int(rows), 128) for rows in _TERABYTE.split()),
    (1024, 1024, 512, 256),
    13,
    0,
)


def power_law(count, rows, alpha=1.05, generator=None, device="cpu"):
    """`count` ids from 0 to rows - 1, id k about as often as (k + 1) ** -alpha; the benchmark
    draws 1.05. A continuous power law from 1 to rows + 1 is cut off to whole numbers, by the
    inverse of its distribution function.
    """
    if rows < 1 or count < 0 or alpha == 1:
        raise ValueError(
            f"count={count}, rows={rows}, alpha={alpha}: a row is needed, alpha not 1"
        )
    share = torch.rand(count, generator=generator, device=device, dtype=torch.float64)
    power = 1 - alpha
    drawn = (share * ((rows + 1) ** power - 1) + 1) ** (1 / power)
    return drawn.long().clamp(1, rows) - 1
