"""A pass over both sides as a GPU would run it, the naive way, and a broken one.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import implicit_als
import matrix_free
import torch
from link_graph import both_ways

LINKS = 40  # a page
METRICS = {}  # sparse products are counted as dense ones: no rate can be held against that


def ours(sizes, device):
    """A pass over both sides without matrices; its sparse products are counted as dense ones"""
    ends, tables = _ready(sizes, device)
    links = [matrix_free.sparse_links(*end, sizes["factors"]) for end in ends]

    def call():
        for side, own in enumerate(links):
            gram = 0.1 * implicit_als.gramian(tables[1 - side])
            penalties = 0.01 * (own.links_U + 0.1 * sizes["pages"])
            tables[side] = matrix_free.solve_rows(
                own, tables[1 - side], tables[side], gram, penalties
            )

    return call


def naive(sizes, device):
    """One batch by normal equations; predicted faster, since it is one of the pass's many"""
    _, tables = _ready(sizes, device)
    rows = sizes["batch"]
    items = torch.arange(rows * 16, device=device).reshape(rows, 16) % sizes["pages"]
    place, penalties = torch.arange(rows, device=device), torch.ones(rows, device=device)

    def call():
        gram = 0.1 * implicit_als.gramian(tables[1])
        A, b = implicit_als.normal_equations(tables[1][items], place, gram, penalties)
        factor, _ = torch.linalg.cholesky_ex(A)
        return torch.cholesky_solve(b[..., None], factor)

    return call


def broken(sizes, device):
    """The pass without matrices, but the tables come from the host and go back each time"""
    ends, tables = _ready(sizes, device)
    links = matrix_free.sparse_links(*ends[0], sizes["factors"])
    on_host = [table.cpu() for table in tables]

    def call():
        users, items = (table.to(device) for table in on_host)
        gram = 0.1 * implicit_als.gramian(items)
        on_host[0] = matrix_free.solve_rows(
            links, items, users, gram, torch.ones(len(users), device=device)
        ).cpu()

    return call


def _ready(sizes, device):
    """(both ways of links that are spread evenly, both tables) on the device."""
    count = sizes["pages"]
    rows = torch.arange(LINKS * count, device=device) // LINKS
    cols = (rows * 7 + torch.arange(LINKS * count, device=device) % LINKS * 11) % count
    tables = [torch.full((count, sizes["factors"]), 0.1, device=device) for _ in range(2)]
    return both_ways(rows, cols, (count, count)), tables
