"""Bags of ids, their pooled lookup, and tables of one width as one table.

A *bag* holds the ids of one input in one sample: one id, many, or none. `Bags` keeps a batch of
several inputs as one run of ids, input by input and in each sample by sample, so that what goes
to a device is a slice of it.

A device that holds twenty tables of width 16 would start twenty small lookups. `MergedLookup`
lays them one below the other and moves an id by the rows above its table. Row slices are asked
for every id of their table; those of other slices go to a last row that counts as nothing.

Shape legend: `F` inputs, `B` samples of one process, `V` ids in all, `W` width, `P` processes
that ask, `K` pairs (input, piece).
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F


class Bags(NamedTuple):
    """Ids by input, then by sample: `Bags(ids_V, lengths_FB)`. Lengths are an int64 tensor, or,
    where each sample of an input has equally many ids, one int for each input: two samples are
    `Bags(torch.tensor([5, 6, 7, 8, 9, 9]), (1, 2))`.
    """

    ids: torch.Tensor
    lengths: object

    @property
    def fixed(self):
        """Whether every input has one number of ids for all its bags."""
        return not isinstance(self.lengths, torch.Tensor)

    @property
    def batch(self):
        """The number of samples."""
        return (
            len(self.ids) // max(1, sum(self.lengths)) if self.fixed else self.lengths.shape[1]
        )

    def lengths_FB(self):
        """The lengths as a tensor of shape (F, B)."""
        if not self.fixed:
            return self.lengths
        counts = torch.tensor(self.lengths, device=self.ids.device)
        return counts[:, None].expand(-1, self.batch)

    def by_input(self):
        """The ids of each input, as views: a list of F tensors."""
        sizes = (
            [n * self.batch for n in self.lengths]
            if self.fixed
            else self.lengths.sum(1).tolist()
        )
        return list(self.ids.split(sizes))

    def part(self, start, stop):
        """The Bags of the samples from `start` to before `stop`: a process's share."""
        if self.fixed:
            pairs = zip(self.by_input(), self.lengths, strict=True)
            return Bags(
                torch.cat([ids[n * start : n * stop] for ids, n in pairs]), self.lengths
            )
        ends = F.pad(self.lengths.cumsum(1), (1, 0))
        pairs = zip(self.by_input(), ends.tolist(), strict=True)
        return Bags(
            torch.cat([ids[end[start] : end[stop]] for ids, end in pairs]),
            self.lengths[:, start:stop],
        )


def pack(lists):
    """The Bags of nested lists; `pack([[[5], [6]], [[7, 8], []]])`: two inputs."""
    lengths = torch.tensor([[len(bag) for bag in one] for one in lists])
    return Bags(
        torch.tensor([i for one in lists for bag in one for i in bag], dtype=torch.long),
        lengths,
    )


def checked(bags, rows):
    """`bags`, where they fit inputs of tables with so many `rows`; else ValueError."""
    ids, lengths = bags
    if ids.dim() != 1 or ids.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"ids of shape {tuple(ids.shape)}, {ids.dtype}: one run of int32 or int64 is needed"
        )
    if len(lengths) != len(rows):
        raise ValueError(
            f"{len(lengths)} inputs came, the plan has {len(rows)}: each reads its table"
        )
    if bags.fixed:
        wrong = any(not isinstance(n, int) or n < 1 for n in lengths) or sum(
            lengths
        ) * bags.batch != len(ids)
    else:
        wrong = (
            lengths.dim() != 2 or bool((lengths < 0).any()) or int(lengths.sum()) != len(ids)
        )
    if wrong:
        raise ValueError(f"{len(ids)} ids for lengths {_brief(lengths)}: they must agree")
    for at, (own, limit) in enumerate(zip(bags.by_input(), rows, strict=True)):
        if len(own) and not (int(own.min()) >= 0 and int(own.max()) < limit):
            bad = int(own[(own < 0) | (own >= limit)][0])
            raise ValueError(
                f"input {at} has id {bad}; allowed are 0 to {limit - 1}, the rows of its table"
            )
    return bags


def _brief(lengths):
    return tuple(lengths.shape) if isinstance(lengths, torch.Tensor) else tuple(lengths)


def pooled_reference(weight_RW, ids, combiner="sum"):
    """One bag's vector by plain loops: `pooled_reference(weight, [3, 3], "mean")` is row 3."""
    total = [0.0] * weight_RW.shape[1]
    for i in ids:
        total = [a + b for a, b in zip(total, weight_RW[i].tolist(), strict=True)]
    divisor = len(ids) if combiner == "mean" and ids else 1
    return [one / divisor for one in total]


def pooled(weight_RW, ids_V, lengths_N, sparse=True, dead=None):
    """The sums of the rows in each of N bags, shape (N, W); an empty bag gives zeros. The
    gradient is sparse: a row for each id. `dead`: a row that counts as nothing, without one.
    `lengths_N` is a tensor, or an int where all bags are equally long. Moves V x W numbers.
    """
    if isinstance(lengths_N, int):
        count = len(ids_V) // lengths_N if lengths_N else 0
        starts = torch.arange(
            0, count * lengths_N, max(1, lengths_N), device=ids_V.device, dtype=ids_V.dtype
        )
    else:
        starts = (lengths_N.cumsum(0) - lengths_N).to(ids_V.dtype)
    return F.embedding_bag(
        ids_V, weight_RW, starts, mode="sum", sparse=sparse, padding_idx=dead
    )


def scattered(numbers, seed):
    """For each whole number one from 0 to below 1, in float64, that looks like chance: by
    SplitMix64 (Steele et al. 2014), with int64's overflow as arithmetic modulo 2^64.
    """
    mixed = numbers + (seed + 1) * 0x1E3779B97F4A7C15 % 2**63
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed = mixed ^ ((mixed >> shift) & (2 ** (64 - shift) - 1))
        mixed = mixed * (factor - 2**64 if factor >= 2**63 else factor)
    return ((mixed >> 11) & (2**53 - 1)).double() / 2**53


class MergedLookup(nn.Module):
    """A module from the ids of these pieces' inputs to their vectors, (P, all pairs' B x W),
    pair by pair.

    `pieces` of `plan`; `asking`: how many processes' samples come at once; `index`: the
    integers that ids come in. Weights lie on `home`, those of host pieces on the CPU. `sparse`:
    gradients with a row for each id.
    """

    def __init__(self, plan, pieces, asking, dtype, home, index, sparse):
        super().__init__()
        self.asking, self.index, self.sparse = asking, index, sparse
        self.dtype, self.home = dtype, home
        self.groups, self.weights = plan.merged(pieces), nn.ParameterList()
        self.cut = [
            any(p.table in plan.row_sliced for p in group.pieces) for group in self.groups
        ]
        self.pairs = [[], *(plan.wanted(group.pieces) for group in self.groups)]
        self.starts = [sum(map(len, self.pairs[:at])) for at in range(1, len(self.pairs) + 1)]
        self.means = [
            [plan.tables[p.table].combiner == "mean" for _, p in own] for own in self.pairs[1:]
        ]
        self.pairs = self.pairs[1:]
        for group, cut in zip(self.groups, self.cut, strict=True):
            place = "cpu" if group.host else home
            weight = torch.zeros(group.rows + cut, group.width, dtype=dtype, device=place)
            self.weights.append(nn.Parameter(weight))
        self._kept = {}

    def places(self):
        """(piece, its rows as a view of the weights) of each piece."""
        for group, weight in zip(self.groups, self.weights, strict=True):
            for piece, offset in zip(group.pieces, group.offsets, strict=True):
                yield piece, weight[offset : offset + piece.rows]

    def _apply(self, fn, recurse=True):
        """Moved or cast as a whole (`model.to(device)`), its host pieces stay on the host."""
        own, names = self.weights._parameters, list(self.weights._parameters)
        kept = {str(at): own.pop(str(at)) for at, group in enumerate(self.groups) if group.host}
        super()._apply(fn, recurse)
        probe = fn(torch.empty(0, dtype=self.dtype, device=self.home))
        self.home, self.dtype, self._kept = probe.device, probe.dtype, {}
        for name in names:  # in their old order, which optimisers go by
            own[name] = kept[name] if name in kept else own.pop(name)
            own[name].data = own[name].data.to(probe.dtype)
        return self

    def forward(self, ids, lengths, batch):
        """The vectors for ids that come process by process, in each pair by pair, in each
        sample by sample. `lengths`: (P, K, B), or one int for each pair, as in `Bags`.
        """
        found = []
        for at, pairs in enumerate(self.pairs):
            if pairs:
                local, counts = self._rows(at, ids, lengths, batch)
                weight, dead = self.weights[at], self.groups[at].rows if self.cut[at] else None
                if isinstance(counts, torch.Tensor):
                    counts = counts.to(weight.device)
                vectors = pooled(weight, local.to(weight.device), counts, self.sparse, dead)
                found.append(
                    self._divided(at, vectors, counts, batch)
                    .to(self.home)
                    .view(self.asking, -1)
                )
        return torch.cat(found, 1) if len(found) > 1 else found[0]

    def _rows(self, at, ids, lengths, batch):
        """(rows of the merged table `at`, lengths of its bags): moved to where pieces lie."""
        start, stop = self.starts[at], self.starts[at] + len(self.pairs[at])
        if isinstance(lengths, torch.Tensor):
            ends = [0, start, stop, lengths.shape[1]]
            sizes = [lengths[:, a:b].sum((1, 2)) for a, b in zip(ends, ends[1:], strict=False)]
            cut = ids.split(torch.stack(sizes, 1).reshape(-1).tolist())
            counts = lengths[:, start:stop].reshape(-1)
            return self._moved(
                at, torch.cat(cut[1::3]), *self._shifts(at, counts, batch)
            ), counts
        key = at, batch, tuple(lengths[start:stop])
        if key not in self._kept:
            if len(self._kept) >= 4 * len(self.groups):
                self._kept.clear()  # batches of ever new sizes would fill the memory
            each = torch.tensor(lengths[start:stop], device=self.home).repeat_interleave(batch)
            each = each.repeat(self.asking)
            counts = lengths[start] if len(set(lengths[start:stop])) == 1 else each
            self._kept[key] = self._shifts(at, each, batch), counts
        shifts, counts = self._kept[key]
        begin, size = sum(lengths[:start]) * batch, sum(lengths[start:stop]) * batch
        return self._moved(
            at, ids.view(self.asking, -1)[:, begin : begin + size].reshape(-1), *shifts
        ), counts

    def _shifts(self, at, lengths, batch):
        """The way of each id from its table's row to the merged table's; for row slices the
        first row and the last, too.
        """
        where = dict(zip(self.groups[at].pieces, self.groups[at].offsets, strict=True))
        rows = [
            (where[p] - p.first_row, p.first_row, p.first_row + p.rows)
            for _, p in self.pairs[at]
        ]
        told = torch.tensor(rows, dtype=self.index, device=lengths.device).repeat_interleave(
            batch, 0
        )
        told = told.repeat(self.asking, 1).repeat_interleave(lengths, 0)
        return [column.contiguous() for column in told.unbind(1)][: 3 if self.cut[at] else 1]

    def _moved(self, at, ids, shift, first=None, last=None):
        moved = ids + shift
        return (
            moved
            if first is None
            else torch.where((ids >= first) & (ids < last), moved, self.groups[at].rows)
        )

    def _divided(self, at, vectors, lengths, batch):
        """The sums; those of tables with combiner mean over their number of ids, if any."""
        if not any(self.means[at]) or isinstance(lengths, int) and lengths == 1:
            return vectors
        mean = (
            torch.tensor(self.means[at], device=vectors.device)
            .repeat_interleave(batch)
            .repeat(self.asking)
        )
        lengths = torch.as_tensor(lengths, device=vectors.device).expand(len(vectors))
        return vectors / torch.where(mean, lengths.clamp(min=1), 1)[:, None].to(vectors.dtype)
