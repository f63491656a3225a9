"""A pass over both sides as a GPU would run it, the naive way, and a broken one.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import implicit_als
import matrix_free
import torch
from link_graph import both_ways

LINKS = 40  # a page
METRICS = {"pass_rate": ("ours", lambda sizes: LINKS * sizes["pages"])}


def ours(sizes, device):
    """A pass over both sides without matrices, three steps from the last tables"""
    ends, tables = _ready(sizes, device)
    solve = _free(ends, sizes)
    return lambda: _pass(tables, solve)


def naive(sizes, device):
    """The same pass by normal equations, each row's matrix formed and factored in batches"""
    ends, tables = _ready(sizes, device)
    linked = [other[own.argsort()].reshape(-1, LINKS) for own, other, _ in ends]
    penalty = 0.01 * (LINKS + 0.1 * sizes["pages"])

    def solve(side, other, own, gram):
        batches = linked[side].split(sizes["batch"])
        return torch.cat([_solved(other[items], gram, penalty) for items in batches])

    return lambda: _pass(tables, solve)


def broken(sizes, device):
    """The pass without matrices, but the tables come from the host and go back each time"""
    ends, tables = _ready(sizes, device)
    solve, there = _free(ends, sizes), [table.cpu() for table in tables]
    return lambda: [one.cpu() for one in _pass([one.to(device) for one in there], solve)]


def _pass(tables, solve):
    """Both tables after a pass; `solve(side, other, own, gram)` gives those of a side."""
    found = list(tables)
    for side in (0, 1):
        other = found[1 - side]
        found[side] = solve(side, other, found[side], 0.1 * implicit_als.gramian(other))
    return found


def _free(ends, sizes):
    links = [matrix_free.sparse_links(*end, sizes["factors"]) for end in ends]

    def solve(side, other, own, gram):
        penalties = 0.01 * (links[side].links_U + 0.1 * sizes["pages"])
        return matrix_free.solve_rows(links[side], other, own, gram, penalties)

    return solve


def _solved(vectors_RLD, gram_DD, penalty):
    """The rows of one batch from their items' vectors, by Cholesky."""
    penalties_R = vectors_RLD.new_full((len(vectors_RLD),), penalty)
    A, b = implicit_als.normal_equations(vectors_RLD, (len(vectors_RLD),), gram_DD, penalties_R)
    factor, _ = torch.linalg.cholesky_ex(A)
    return torch.cholesky_solve(b[..., None], factor)[..., 0]


def _ready(sizes, device):
    """(both ways of links that are spread evenly, both tables) on the device."""
    count = sizes["pages"]
    rows = torch.arange(LINKS * count, device=device) // LINKS
    cols = (rows * 7 + torch.arange(LINKS * count, device=device) % LINKS * 11) % count
    tables = [torch.full((count, sizes["factors"]), 0.1, device=device) for _ in range(2)]
    return both_ways(rows, cols, (count, count)), tables
