"""Dense batching: histories of any length as rows of one length, so that every batch has the
same shape. Long ones are cut into rows of `length` items, each of which remembers its owner.
Places that stay empty hold -1; the *fill ratio* is the share of those that do not.

Shapes: `R` dense rows, `L` items a row, `U` histories.
"""

import itertools
from typing import NamedTuple

import torch


class Batch(NamedTuple):
    """One batch of static shape: items (R, L), owners (U,), and where rounds of rows end. Empty
    places and owners hold -1.

    The first round has the first dense row of each owner, the next the second row of all who
    have two, and so on; who has most comes first, so it is of the first so many owners.
    """

    items_RL: torch.Tensor
    ends: tuple
    owners_U: torch.Tensor

    def to(self, device):
        """The same on a device."""
        return Batch(self.items_RL.to(device), self.ends, self.owners_U.to(device))


class DenseBatches(NamedTuple):
    """All dense rows: items (R, L), each row's owner (R,), links of each owner (U,)."""

    items_RL: torch.Tensor
    owner_R: torch.Tensor
    links_U: torch.Tensor

    @property
    def fill(self):
        """The share of places that hold an item; 1.0 where there is no row."""
        return float((self.items_RL >= 0).float().mean()) if len(self.items_RL) else 1.0

    def enough(self, rows):
        """`rows`, or as many as the longest history needs."""
        longest = max(self.links_U.tolist(), default=0)
        return max(rows, -(-longest // self.items_RL.shape[1]))

    def batches(self, rows):
        """A list of Batch with `rows` dense rows each, no history in two of them, and none that
        is empty; ValueError where one is longer.
        """
        if rows < 1:
            raise ValueError(f"rows={rows}: a batch needs at least 1 dense row")
        owners, counts = torch.unique_consecutive(self.owner_R.cpu(), return_counts=True)
        if len(counts) and (most := int(counts.max())) > rows:
            told = f"history {int(owners[counts.argmax()])} needs {most} dense rows"
            raise ValueError(f"{told} and a batch has {rows}: it is solved in one, so as many")
        cuts, used = [0], 0  # in owners
        for at, count in enumerate(counts.tolist()):
            if used + count > rows:
                cuts, used = [*cuts, at], 0
            used += count
        bounds = list(itertools.pairwise((*cuts, len(counts)))) if len(counts) else []
        width = max((end - start for start, end in bounds), default=0)
        first = torch.cumsum(counts, 0) - counts
        return [
            self._batch(owners[start:end], first[start:end], counts[start:end], rows, width)
            for start, end in bounds
        ]

    def _batch(self, owners, first, counts, rows, width):
        counts, order = counts.sort(descending=True, stable=True)
        rounds = torch.arange(int(counts[0]))[:, None]
        takes = rounds < counts  # (rounds, owners)
        used = (first[order] + rounds)[takes]
        items = self.items_RL.new_full((rows, self.items_RL.shape[1]), -1)
        items[: len(used)] = self.items_RL[used]
        padded = torch.full((width,), -1)
        padded[: len(owners)] = owners[order]
        return Batch(items, tuple(takes.sum(1).cumsum(0).tolist()), padded)


def dense_batches(histories, length):
    """The DenseBatches of a list of histories (tensors or lists), in rows of `length` items.

    `dense_batches([[3, 1, 4], [1]], 2)` has the rows (3, 1), (4, -1), (1, -1) of owners 0, 0,
    1, and a fill ratio of 4/6. ValueError for a length below 1 and for a negative item.
    """
    if length < 1:
        raise ValueError(f"length={length}: a dense row needs a place for at least 1 item")
    histories = [torch.as_tensor(history, dtype=torch.int64) for history in histories]
    links = torch.tensor([len(history) for history in histories], dtype=torch.int64)
    items = torch.cat(histories) if histories else torch.zeros(0, dtype=torch.int64)
    if len(items) and (least := int(items.min())) < 0:
        raise ValueError(f"item {least}: items are numbered from 0, -1 marks an empty place")
    rows = -(-links // length)
    owner = torch.repeat_interleave(torch.arange(len(histories)), rows)
    first = (rows.cumsum(0) - rows).repeat_interleave(links)  # its history's first row
    within = torch.arange(len(items)) - (links.cumsum(0) - links).repeat_interleave(links)
    table = torch.full((int(rows.sum()), length), -1, dtype=torch.int64)
    table[first + within // length, within % length] = items
    return DenseBatches(table, owner, links)


def dense_batches_reference(histories, length):
    """The same rows and owners as two lists, by plain loops."""
    rows, owners = [], []
    for owner, history in enumerate(histories):
        for start in range(0, len(history), length):
            row = [int(item) for item in history[start : start + length]]
            rows.append(row + [-1] * (length - len(row)))
            owners.append(owner)
    return rows, owners


def padded_fill(histories):
    """The fill ratio where every history is padded to the longest one."""
    lengths = [len(history) for history in histories]
    return sum(lengths) / (len(lengths) * max(lengths)) if any(lengths) else 1.0
