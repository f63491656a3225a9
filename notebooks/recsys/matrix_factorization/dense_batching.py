"""Dense batching: histories of any length as rows of one length, so that every batch has the
same shape.

The article: a core wants tensors of static shapes, and histories vary wildly, so long ones are
cut into rows of `length` items. Each row remembers whose it is; sums over a history become
segment sums over its rows. Places that stay empty hold -1. The *fill ratio* is the share of
places that hold an item.

Shapes: `R` dense rows, `L` items a row, `U` histories.
"""

from typing import NamedTuple

import torch


class Batch(NamedTuple):
    """One batch of static shape: items (R, L), the place of each row's owner in `owners` (R,),
    and `owners` (U,).

    Empty places and owners hold -1. An empty row points at the first owner, to whom its empty
    places add nothing.
    """

    items_RL: torch.Tensor
    place_R: torch.Tensor
    owners_U: torch.Tensor


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
        """A list of Batch with `rows` dense rows each, no history in two of them; ValueError
        where one is longer.

        A history without items has no row and no batch: its solution is zero, and nothing has
        to be solved.
        """
        if rows < 1:
            raise ValueError(f"rows={rows}: a batch needs at least 1 dense row")
        owners, counts = torch.unique_consecutive(self.owner_R.cpu(), return_counts=True)
        if len(counts) and int(counts.max()) > rows:
            told = (
                f"history {int(owners[counts.argmax()])} needs {int(counts.max())} dense rows"
            )
            raise ValueError(f"{told} and a batch has {rows}: it is solved in one, so as many")
        cuts, used = [0], 0  # in owners
        for at, count in enumerate(counts.tolist()):
            if used + count > rows:
                cuts, used = [*cuts, at], 0
            used += count
        ends = [*cuts[1:], len(counts)]
        width = max((end - start for start, end in zip(cuts, ends, strict=True)), default=0)
        first = torch.cumsum(counts, 0) - counts
        return [
            self._batch(int(first[start]), owners[start:end], counts[start:end], rows, width)
            for start, end in zip(cuts, ends, strict=True)
            if end > start
        ]

    def _batch(self, start, owners, counts, rows, width):
        used = int(counts.sum())
        items = self.items_RL.new_full((rows, self.items_RL.shape[1]), -1)
        items[:used] = self.items_RL[start : start + used]
        place = torch.zeros(rows, dtype=torch.int64)
        place[:used] = torch.repeat_interleave(torch.arange(len(owners)), counts)
        padded = torch.full((width,), -1)
        padded[: len(owners)] = owners
        return Batch(items, place, padded)


def dense_batches(histories, length):
    """The DenseBatches of a list of histories (tensors or lists of item numbers), cut into rows
    of `length` items.

    `dense_batches([[3, 1, 4], [1]], 2)` has the rows (3, 1), (4, -1), (1, -1) of owners 0, 0,
    1, and a fill ratio of 4/6. ValueError for a length below 1 and for a negative item.
    """
    if length < 1:
        raise ValueError(f"length={length}: a dense row needs a place for at least 1 item")
    histories = [torch.as_tensor(history, dtype=torch.int64) for history in histories]
    links = torch.tensor([len(history) for history in histories], dtype=torch.int64)
    items = torch.cat(histories) if histories else torch.zeros(0, dtype=torch.int64)
    if len(items) and int(items.min()) < 0:
        raise ValueError(
            f"item {int(items.min())}: items are numbered from 0, and -1 marks an empty place"
        )
    rows = -(-links // length)
    owner = torch.repeat_interleave(torch.arange(len(histories)), rows)
    first = torch.repeat_interleave(
        torch.cumsum(rows, 0) - rows, links
    )  # dense row where a link's history begins
    within = torch.arange(len(items)) - torch.repeat_interleave(
        torch.cumsum(links, 0) - links, links
    )
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
