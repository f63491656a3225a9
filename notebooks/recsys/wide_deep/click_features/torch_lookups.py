"""Joins and similarities as tensors: positions of ids in a list, short lists of weighted keys,
and the cosines of two such lists.

Shapes: `D` documents, `S` slabs of `W` slots, `R` rows. Integers are int64 unless said
otherwise.
"""

from dataclasses import dataclass

import torch

from . import spec as fs

SLAB = 8


class Lookup:
    """Positions of ids in a list of ids: `Lookup(ids)(wanted)`, -1 for those that it lacks.

    >>> Lookup(torch.tensor([7, 3]))(torch.tensor([3, 4, 7]))
    tensor([ 1, -1,  0])

    ids: int64, different, 0 or more. They are addresses of a table, so the largest is its size.
    """

    def __init__(self, ids):
        self.last = int(ids.max()) if len(ids) else -1
        self.table = ids.new_full((self.last + 2,), -1)
        self.table[ids] = torch.arange(len(ids), device=ids.device)

    def __call__(self, wanted):
        inside = (wanted >= 0) & (wanted <= self.last)
        return self.table[torch.where(inside, wanted, self.last + 1)]


@dataclass(frozen=True)
class Items:
    """The lists of an attribute: document d has `many[d]` slabs from `first[d]` on."""

    key_SW: torch.Tensor  # int32, numbers of keys; -1 where empty
    weight_SW: torch.Tensor
    first: torch.Tensor
    many: torch.Tensor


def cosines(items, page, promo):
    """The sum over common keys of products of weights, float64 (R,), of documents (R,)."""
    found = items.weight_SW.new_zeros(len(page))
    slabs = items.many[page], items.many[promo]
    for s in range(int(slabs[0].max()) if len(page) else 0):
        for t in range(int(slabs[1].max())):
            at = torch.nonzero((slabs[0] > s) & (slabs[1] > t))[:, 0]
            one, other = items.first[page[at]] + s, items.first[promo[at]] + t
            key_RW, weight_RW = items.key_SW[other], items.weight_SW[other]
            total = found[at]
            for slot in range(items.key_SW.shape[1]):
                key = items.key_SW[one, slot]
                same_RW = (key[:, None] == key_RW) & (key >= 0)[:, None]
                total += items.weight_SW[one, slot] * (weight_RW * same_RW).sum(1)
            found[at] = total
    return found


def _rank(of, documents):
    """(The place of each item in its document's list, the lists' lengths)."""
    many = torch.bincount(of, minlength=documents)
    return torch.arange(len(of), device=of.device) - (many.cumsum(0) - many)[of], many


def slots_of(of, key, confidence, documents, name, size):
    """By column `NAME_0` …: the buckets of the best keys of each document, int32 (D,)."""
    rank, _ = _rank(of, documents)
    hot_DK = of.new_zeros((documents, fs.SLOTS), dtype=torch.int32)
    best = rank < fs.SLOTS
    hot_DK[of[best], rank[best]] = (1 + fs.hash32(key[best]) % (size - 1)).int()
    return {f"{name}_{slot}": hot_DK[:, slot] for slot in range(fs.SLOTS)}


def slabs_of(of, key, confidence, documents, total):
    """The Items of documents whose keys have TF-IDF weights; `total` is N."""
    _, number, df = key.unique(return_inverse=True, return_counts=True)
    weight = confidence * torch.log(total / df[number].double())
    squares = weight.new_zeros(documents).index_add_(0, of, weight**2)
    rank, many = _rank(of, documents)
    slabs = -(-many // SLAB)
    first = slabs.cumsum(0) - slabs
    key_SW = number.new_full((int(slabs.sum()), SLAB), -1, dtype=torch.int32)
    weight_SW = weight.new_zeros(key_SW.shape)
    at = first[of] + rank // SLAB, rank % SLAB
    key_SW[at] = number.int()
    weight_SW[at] = torch.nan_to_num(weight / squares[of].sqrt())
    return Items(key_SW, weight_SW, first, slabs)
