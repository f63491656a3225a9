"""Tables of one width as one table: one lookup instead of many.

A device that holds twenty tables of width 16 would start twenty small lookups. Here they lie one below the other, and an id is
moved by the rows above its table. Pieces of row slices are asked for every id of their table; those of other slices go to a
last row that counts as nothing.

Shape legend: `P` processes that ask, `K` pairs (input, piece), `B` samples of one process, `W` width.
"""

import torch
from torch import nn

from bags import pooled


class MergedLookup(nn.Module):
    """A module from the ids of these pieces' inputs to their vectors, (P, all pairs' B x W), pair by pair.

    `pieces` of `plan`; `asking`: how many processes' samples come at once; `index`: the integers that ids come in. Weights lie
    on `home`, those of host pieces on the CPU. `sparse`: gradients with a row for each id.
    """

    def __init__(self, plan, pieces, asking, dtype, home, index, sparse):
        super().__init__()
        self.asking, self.home, self.index, self.sparse = asking, home, index, sparse
        self.groups, self.weights = plan.merged(pieces), nn.ParameterList()
        self.cut = [any(p.table in plan.row_sliced for p in group.pieces) for group in self.groups]
        self.pairs = [[], *(plan.wanted(group.pieces) for group in self.groups)]
        self.starts = [sum(map(len, self.pairs[:at])) for at in range(1, len(self.pairs) + 1)]
        self.means = [[plan.tables[p.table].combiner == "mean" for _, p in own] for own in self.pairs[1:]]
        self.pairs = self.pairs[1:]
        for group, cut in zip(self.groups, self.cut, strict=True):
            weight = torch.empty(group.rows + cut, group.width, dtype=dtype, device="cpu" if group.host else home)
            self.weights.append(nn.Parameter(weight.uniform_(-(group.width**-0.5), group.width**-0.5)))
        self._kept = {}

    def places(self):
        """(piece, its rows as a view of the weights) of each piece."""
        for group, weight in zip(self.groups, self.weights, strict=True):
            for piece, offset in zip(group.pieces, group.offsets, strict=True):
                yield piece, weight[offset : offset + piece.rows]

    def forward(self, ids, lengths, batch):
        """The vectors for ids that come process by process, in each pair by pair, in each sample by sample.

        `lengths`: (P, K, B), or one int for each pair, as in `Bags`.
        """
        found = []
        for at, pairs in enumerate(self.pairs):
            if pairs:
                local, counts = self._rows(at, ids, lengths, batch)
                weight, dead = self.weights[at], self.groups[at].rows if self.cut[at] else None
                if isinstance(counts, torch.Tensor):
                    counts = counts.to(weight.device)
                vectors = pooled(weight, local.to(weight.device), counts, self.sparse, dead)
                found.append(self._divided(at, vectors, counts, batch).to(self.home).view(self.asking, -1))
        return torch.cat(found, 1) if len(found) > 1 else found[0]

    def _rows(self, at, ids, lengths, batch):
        """(rows of the merged table `at`, the lengths of its bags): what concerns it, and moved to where its pieces lie."""
        start, stop = self.starts[at], self.starts[at] + len(self.pairs[at])
        if isinstance(lengths, torch.Tensor):
            ends = [0, start, stop, lengths.shape[1]]
            sizes = [lengths[:, a:b].sum((1, 2)) for a, b in zip(ends, ends[1:], strict=False)]
            cut = ids.split(torch.stack(sizes, 1).reshape(-1).tolist())
            counts = lengths[:, start:stop].reshape(-1)
            return self._moved(at, torch.cat(cut[1::3]), *self._shifts(at, counts, batch)), counts
        if (at, batch) not in self._kept:
            each = torch.tensor(lengths[start:stop], device=self.home).repeat_interleave(batch)
            each = each.repeat(self.asking)
            counts = lengths[start] if len(set(lengths[start:stop])) == 1 else each
            self._kept[at, batch] = self._shifts(at, each, batch), counts
        shifts, counts = self._kept[at, batch]
        begin, size = sum(lengths[:start]) * batch, sum(lengths[start:stop]) * batch
        return self._moved(at, ids.view(self.asking, -1)[:, begin : begin + size].reshape(-1), *shifts), counts

    def _shifts(self, at, lengths, batch):
        """For each id: the way from its table's row to the merged table's; for row slices the first row and the last, too."""
        where = dict(zip(self.groups[at].pieces, self.groups[at].offsets, strict=True))
        rows = [(where[p] - p.first_row, p.first_row, p.first_row + p.rows) for _, p in self.pairs[at]]
        told = torch.tensor(rows, dtype=self.index, device=lengths.device).repeat_interleave(batch, 0)
        told = told.repeat(self.asking, 1).repeat_interleave(lengths, 0)
        return [column.contiguous() for column in told.unbind(1)][: 3 if self.cut[at] else 1]

    def _moved(self, at, ids, shift, first=None, last=None):
        moved = ids + shift
        return moved if first is None else torch.where((ids >= first) & (ids < last), moved, self.groups[at].rows)

    def _divided(self, at, vectors, lengths, batch):
        """The sums; those of tables with combiner mean over their number of ids, where there are any."""
        if not any(self.means[at]) or isinstance(lengths, int) and lengths == 1:
            return vectors
        mean = torch.tensor(self.means[at], device=vectors.device).repeat_interleave(batch).repeat(self.asking)
        lengths = torch.as_tensor(lengths, device=vectors.device).expand(len(vectors))
        return vectors / torch.where(mean, lengths.clamp(min=1), 1)[:, None].to(vectors.dtype)
