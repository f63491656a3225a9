"""Click logs of the Criteo shape: a reader for real files, and a world to draw them from.

A line holds a label (0 or 1), 13 counts and 26 categories of eight hexadecimal digits,
separated by tabs; counts and categories may be missing. The real logs (Display Advertising
Challenge, Terabyte Click Logs) may not be passed on, so they are not here.

The world: each category of each table has an effect, some pairs of tables an interaction, each
count a slope. Their sum is the true logit, a click is drawn with its chance. So the best AUC
that any model can reach is known: that of the true chances. Samples do not depend on time,
which real clicks do.

Shape legend: `N` samples, 13 counts, 26 tables.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from lookup import Bags
from synthetic_models import power_law

COUNTS, TABLES = 13, 26
COLUMNS = (
    "label",
    *(f"I{i}" for i in range(1, COUNTS + 1)),
    *(f"C{i}" for i in range(1, TABLES + 1)),
)


class Clicks(NamedTuple):
    """Samples: `labels` (N,), `numbers` (N, 13); `ids` (26, N); known `chances` (N,)."""

    labels: torch.Tensor
    numbers: torch.Tensor
    ids: torch.Tensor
    chances: torch.Tensor | None = None

    def part(self, start, stop):
        """The samples from `start` to before `stop`."""
        chances = None if self.chances is None else self.chances[start:stop]
        return Clicks(
            self.labels[start:stop], self.numbers[start:stop], self.ids[:, start:stop], chances
        )

    def bags(self):
        """The ids as Bags, one in each."""
        return Bags(self.ids.reshape(-1), (1,) * len(self.ids))

    def to(self, device):
        """The same on a device."""
        return Clicks(*(one if one is None else one.to(device) for one in self))


def read(path, rows, limit=None):
    """The Clicks of a file in the Criteo schema, at most `limit` of them.

    `rows`: for each of the 26 tables its number of rows; a category becomes its number modulo
    the rows less one, plus one, and row 0 is for missing ones. A count c becomes log(1 + max(c,
    0)), a missing one 0. Raises ValueError with the line.
    """
    if len(rows) != TABLES or min(rows) < 2:
        raise ValueError(
            f"rows {list(rows)}: {TABLES} numbers from 2 up are needed, row 0 is for none"
        )
    labels, numbers, ids = [], [], []
    with Path(path).open(encoding="ascii", errors="replace") as lines:
        for at, line in enumerate(lines, 1):
            if limit is not None and at > limit:
                break
            fields = line.rstrip("\n").split("\t")
            if len(fields) != len(COLUMNS):
                raise ValueError(
                    f"{path}, line {at}: {len(fields)} fields came, not {len(COLUMNS)}, by tabs"
                )
            label, *rest = (
                _value(path, at, name, text) for name, text in zip(COLUMNS, fields, strict=True)
            )
            if label not in (0, 1):
                raise ValueError(f"{path}, line {at}: label {fields[0]!r}; allowed are 0 and 1")
            labels.append(label)
            numbers.append([0 if one is None else max(one, 0) for one in rest[:COUNTS]])
            own = zip(rest[COUNTS:], rows, strict=True)
            ids.append([0 if one is None else 1 + one % (limit_ - 1) for one, limit_ in own])
    if not labels:
        raise ValueError(f"{path} holds no line; at least one sample is needed")
    counts = torch.tensor(numbers, dtype=torch.float64).log1p().float()
    return Clicks(
        torch.tensor(labels, dtype=torch.float32), counts, torch.tensor(ids).T.contiguous()
    )


def _value(path, at, name, text):
    """The number in a field; None for an empty one."""
    try:
        return int(text, 16 if name[0] == "C" else 10) if text else None
    except ValueError:
        kind = "hexadecimal digits" if name[0] == "C" else "a whole number"
        raise ValueError(
            f"{path}, line {at}: {name} is {text!r}; {kind} are allowed, or nothing"
        ) from None


@dataclass(frozen=True)
class World:
    """Where clicks come from. `rows` of its 26 tables; `alpha` of the power law that categories
    follow; `seed`.

    Effects are normal with standard deviation `effect`; each of `pairs` pairs of tables
    interacts through two vectors of length 4.
    """

    rows: tuple
    alpha: float = 1.2
    effect: float = 0.35
    pairs: int = 6
    bias: float = -1.2
    seed: int = 0

    def __post_init__(self):
        if len(self.rows) != TABLES or min(self.rows) < 2:
            raise ValueError(
                f"rows {self.rows}: {TABLES} numbers from 2 up are needed, one for each table"
            )

    def draw(self, count, seed=0):
        """Clicks with their true chances; `seed` picks the samples, the world stays."""
        law = torch.Generator().manual_seed(self.seed)
        dice = torch.Generator().manual_seed(1_000_003 * (self.seed + 1) + seed)
        logits, ids, vectors = torch.full((count,), self.bias, dtype=torch.float64), [], []
        for rows in self.rows:
            turned = 1 + torch.randperm(
                rows - 1, generator=law
            )  # frequent categories lie anywhere; row 0 is for missing
            own = turned[power_law(count, rows - 1, self.alpha, dice)]
            logits += self.effect * torch.randn(rows, generator=law, dtype=torch.float64)[own]
            vectors.append(torch.randn(rows, 4, generator=law, dtype=torch.float64)[own])
            ids.append(own)
        for _ in range(self.pairs):
            a, b = torch.randperm(TABLES, generator=law)[:2].tolist()
            logits += self.effect * (vectors[a] * vectors[b]).sum(1) / 2
        slopes = torch.randn(COUNTS, generator=law, dtype=torch.float64) * self.effect / 2
        counts = (
            torch.randn(count, COUNTS, generator=dice, dtype=torch.float64).add(2).exp().floor()
        )
        logits += (counts.log1p() - 2) @ slopes
        chances = logits.sigmoid()
        labels = torch.rand(count, generator=dice, dtype=torch.float64) < chances
        return Clicks(labels.float(), counts.log1p().float(), torch.stack(ids), chances)


def write(path, clicks):
    """None; the clicks as a file, which `read` gives back for tables of as many rows."""
    counts = clicks.numbers.double().expm1().round().long().tolist()
    with Path(path).open("w", encoding="ascii") as file:
        for label, own, ids in zip(
            clicks.labels.tolist(), counts, clicks.ids.T.tolist(), strict=True
        ):
            hexed = ("" if one == 0 else f"{one - 1:08x}" for one in ids)
            file.write("\t".join([str(int(label)), *map(str, own), *hexed]) + "\n")


def auc(scores, labels):
    """The chance that a clicked sample scores higher than another; ties half. NaN without."""
    _, inverse, counts = torch.unique(scores, return_inverse=True, return_counts=True)
    ranks = counts.cumsum(0) - (counts - 1) / 2  # the mean rank of each score
    clicked = labels.bool()
    ups, downs = int(clicked.sum()), int((~clicked).sum())
    total = ranks.double()[inverse][clicked].sum().item()
    return (total - ups * (ups + 1) / 2) / (ups * downs) if ups and downs else float("nan")


def shrunk_rows(model, factor, least=3):
    """The rows of a model's tables over `factor`, at least `least`, for a `World`."""
    return tuple(max(least, table.rows // factor) for table in model.tables)
