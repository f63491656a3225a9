"""Bags of ids, and their pooled lookup.

A *bag* holds the ids of one input in one sample: one id, many, or none. `Bags` keeps a batch of several inputs as one
run of ids, input by input and in each sample by sample, so that what goes to a device is a slice of it.

Shape legend: `F` inputs, `B` samples, `V` ids in all, `W` width of a table.
"""

from typing import NamedTuple

import torch
from torch.nn import functional as F


class Bags(NamedTuple):
    """Ids by input, then by sample: `Bags(ids_V, lengths_FB)`.

    `lengths_FB` is an int64 tensor, or, where each sample of an input has equally many ids, one plain int for each input: then
    nobody has to be told the lengths (`Bags(torch.tensor([5, 6, 7, 8, 9, 9]), (1, 2))` are two samples).
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
        return len(self.ids) // max(1, sum(self.lengths)) if self.fixed else self.lengths.shape[1]

    def lengths_FB(self):
        """The lengths as a tensor of shape (F, B)."""
        if not self.fixed:
            return self.lengths
        counts = torch.tensor(self.lengths, device=self.ids.device)
        return counts[:, None].expand(-1, self.batch)

    def by_input(self):
        """The ids of each input, as views: a list of F tensors."""
        sizes = [n * self.batch for n in self.lengths] if self.fixed else self.lengths.sum(1).tolist()
        return list(self.ids.split(sizes))

    def part(self, start, stop):
        """The Bags of the samples from `start` to before `stop`: a process's share of a batch."""
        if self.fixed:
            pairs = zip(self.by_input(), self.lengths, strict=True)
            return Bags(torch.cat([ids[n * start : n * stop] for ids, n in pairs]), self.lengths)
        ends = F.pad(self.lengths.cumsum(1), (1, 0))
        pairs = zip(self.by_input(), ends.tolist(), strict=True)
        return Bags(torch.cat([ids[end[start] : end[stop]] for ids, end in pairs]), self.lengths[:, start:stop])


def pack(lists):
    """The Bags of nested lists: `pack([[[5], [6]], [[7, 8], []]])` has two inputs of two samples."""
    lengths = torch.tensor([[len(bag) for bag in one] for one in lists])
    return Bags(torch.tensor([i for one in lists for bag in one for i in bag], dtype=torch.long), lengths)


def checked(bags, rows):
    """`bags`, where they fit inputs that read tables of so many `rows` each; ValueError says what does not."""
    ids, lengths = bags
    if ids.dim() != 1 or ids.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"ids of shape {tuple(ids.shape)}, {ids.dtype}: one run of int32 or int64 is needed, as Bags says")
    if len(lengths) != len(rows):
        raise ValueError(f"{len(lengths)} inputs came, the plan has {len(rows)}: ids would be looked up in other tables")
    if bags.fixed:
        wrong = any(not isinstance(n, int) or n < 1 for n in lengths) or sum(lengths) * bags.batch != len(ids)
    else:
        wrong = lengths.dim() != 2 or bool((lengths < 0).any()) or int(lengths.sum()) != len(ids)
    if wrong:
        raise ValueError(f"lengths and ids disagree: {len(ids)} ids for lengths {_brief(lengths)}; each bag takes its own")
    for at, (own, limit) in enumerate(zip(bags.by_input(), rows, strict=True)):
        if len(own) and not (0 <= int(own.min()) and int(own.max()) < limit):
            bad = int(own[(own < 0) | (own >= limit)][0])
            raise ValueError(f"input {at} has id {bad}; allowed are 0 to {limit - 1}, the rows of its table")
    return bags


def _brief(lengths):
    return tuple(lengths.shape) if isinstance(lengths, torch.Tensor) else tuple(lengths)


def pooled_reference(weight_RW, ids, combiner="sum"):
    """One bag's vector as plain loops in Python's float64: `pooled_reference(weight, [3, 3], "mean")` is row 3."""
    total = [0.0] * weight_RW.shape[1]
    for i in ids:
        total = [a + b for a, b in zip(total, weight_RW[i].tolist(), strict=True)]
    divisor = len(ids) if combiner == "mean" and ids else 1
    return [one / divisor for one in total]


def pooled(weight_RW, ids_V, lengths_N, sparse=True, dead=None):
    """The sums of the rows in each of N bags, shape (N, W); an empty bag gives zeros.

    The gradient is sparse: a row for each id, those of one id twice where it stands twice. `dead`: a row that counts as
    nothing and gets no gradient. `lengths_N` is a tensor, or an int where all bags are equally long. Moves V x W numbers.
    """
    if isinstance(lengths_N, int):
        count = len(ids_V) // lengths_N if lengths_N else 0
        starts = torch.arange(0, count * lengths_N, max(1, lengths_N), device=ids_V.device, dtype=ids_V.dtype)
    else:
        starts = (lengths_N.cumsum(0) - lengths_N).to(ids_V.dtype)
    return F.embedding_bag(ids_V, weight_RW, starts, mode="sum", sparse=sparse, padding_idx=dead)


def added_up(gradient):
    """A sparse gradient with one row for each id, its duplicates added; what an optimiser with state must see."""
    return gradient.coalesce() if gradient.is_sparse else gradient
