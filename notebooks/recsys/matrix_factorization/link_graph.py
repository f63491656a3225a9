"""The links between pages as a matrix of ones: files, filters, held-out rows, a drawn graph.

Wikispeedia's links (West and Leskovec 2012) stand in for the article's WebGraph, two subjects
for its two top-level domains: a row is a page, a column one that it links to. As there, the
filter of few links runs once, so pages with fewer, and with none, remain (`dangling`).

Shapes: `E` links; a *history* is the list of columns of a row.
"""

import itertools
import urllib.parse
from collections import namedtuple
from typing import NamedTuple

import numpy as np
import torch


class Graph(NamedTuple):
    """Link e goes from page rows[e] to page cols[e], int64 tensors (E,); the pages' titles."""

    rows: torch.Tensor
    cols: torch.Tensor
    titles: list

    @property
    def shape(self):
        """(rows, columns) of the matrix: each page is both."""
        return len(self.titles), len(self.titles)


# Rows that no training sees: their numbers, what may be shown of each, and what is asked for.
Held = namedtuple("Held", "rows seen wanted")
# Training links, and two Helds: one to choose on, one to report.
Split = namedtuple("Split", "rows cols validation test")


def read_links(folder):
    """The Graph of `links.tsv`, titles sorted; ValueError for a line that is no pair."""
    pairs = [line.split("\t") for line in _lines(folder / "links.tsv")]
    if wrong := [pair for pair in pairs if len(pair) != 2 or not all(pair)]:
        told = f"links.tsv: {wrong[0]} came"
        raise ValueError(f"{told}; two titles with a tab between are allowed")
    names = sorted({name for pair in pairs for name in pair})
    number = {name: at for at, name in enumerate(names)}
    links = torch.tensor([[number[a], number[b]] for a, b in pairs])
    return Graph(*links.T.contiguous(), [_title(name) for name in names])


def read_subjects(folder):
    """{title: set of subjects} of `categories.tsv`: "Art" of `subject.Art.Artists`."""
    found = {}
    for line in _lines(folder / "categories.tsv"):
        name, category = line.split("\t")
        found.setdefault(_title(name), set()).add(category.split(".")[1])
    return found


def _title(name):
    return urllib.parse.unquote(name).replace("_", " ")


def among(graph, pages):
    """The Graph of those pages alone, numbered anew; `pages`: a boolean for each title."""
    inside = pages[graph.rows] & pages[graph.cols]
    number = torch.cumsum(pages, 0) - 1
    titles = [title for title, kept in zip(graph.titles, pages.tolist(), strict=True) if kept]
    return Graph(number[graph.rows[inside]], number[graph.cols[inside]], titles)


def with_links(graph, minimum):
    """The Graph of pages with at least `minimum` links out and in, filtered once."""
    out, into = degrees(graph)
    return among(graph, (out >= minimum) & (into >= minimum))


def degrees(graph):
    """The numbers of links out of and into each page, two tensors."""
    return [torch.bincount(ends, minlength=len(graph.titles)) for ends in graph[:2]]


def dangling(graph):
    """(pages without a link out, pages without a link in) of a Graph."""
    return tuple(int((counts == 0).sum()) for counts in degrees(graph))


def six_variants(graph, subjects, minima=(10, 20), places=("Geography", "Science")):
    """{name: Graph}: all pages and those of two subjects, each with two minima of links."""
    parts = {"all": torch.ones(len(graph.titles), dtype=torch.bool)}
    for place in places:
        inside = [place in subjects.get(title, ()) for title in graph.titles]
        parts[place] = torch.tensor(inside)
    pairs = itertools.product(minima, parts.items())
    return {f"{name}, {n}": with_links(among(graph, pages), n) for n, (name, pages) in pairs}


def both_ways(rows, cols, shape):
    """The links as (rows, columns, shape), and the same with sides changed."""
    return (rows, cols, shape), (cols, rows, shape[::-1])


def refuse_links(rows, cols, shape):
    """None; ValueError for other than int64, no links, ids out of range, and links twice."""
    if len(rows) != len(cols) or not len(rows):
        raise ValueError(f"{len(rows)} rows, {len(cols)} columns: allowed are as many, not 0")
    for name, ends, count in (("rows", rows, shape[0]), ("columns", cols, shape[1])):
        kind = getattr(ends, "dtype", type(ends).__name__)
        if not torch.is_tensor(ends) or kind != torch.int64:
            raise ValueError(f"{name} are {kind}; allowed are tensors of torch.int64")
        low, high = int(ends.min()), int(ends.max())
        if low < 0 or high >= count:
            raise ValueError(f"{name} {low} to {high}: allowed are 0 to {count - 1}")
    keys = torch.sort(rows * shape[1] + cols).values
    twice = (keys[1:] == keys[:-1]).nonzero()[:, 0]
    if len(twice):
        pair = divmod(int(keys[twice[0]]), shape[1])
        raise ValueError(f"link {pair} and {len(twice) - 1} more come twice: allowed is once")


def histories_of(rows, cols, count):
    """A list of `count` int64 tensors: the sorted columns of each row."""
    order = torch.argsort(rows * (int(cols.max()) + 1 if len(cols) else 1) + cols)
    lengths = torch.bincount(rows, minlength=count)
    return list(torch.split(cols[order], lengths.tolist()))


def split_rows(graph, seed=0, share=0.1, hidden=0.25):
    """The Split of a graph: a `share` of the rows (of those with two links) for validation, as
    many for the test. A part `hidden` of each is asked for, the rest shown to the finished
    model. ValueError for other shares than 0 to 1, or where no row is left for training.
    """
    if not (0 < share < 0.5 and 0 < hidden < 1):
        told = f"share={share}, hidden={hidden}"
        raise ValueError(f"{told}: allowed are above 0, below 0.5 and 1")
    draw = torch.Generator().manual_seed(seed)
    histories = histories_of(graph.rows, graph.cols, len(graph.titles))
    fit = torch.tensor([len(history) >= 2 for history in histories]).nonzero()[:, 0]
    order = fit[torch.randperm(len(fit), generator=draw)]
    count = max(1, int(share * len(fit)))
    sets = order[:count], order[count : 2 * count]
    parts = [_held(histories, rows.tolist(), hidden, draw) for rows in sets]
    out = torch.zeros(len(graph.titles), dtype=torch.bool)
    out[order[: 2 * count]] = True
    trained = ~out[graph.rows]
    if not trained.any():
        raise ValueError(f"{len(fit)} rows with two links: too few to hold {2 * count} out")
    return Split(graph.rows[trained], graph.cols[trained], *parts)


def community_graph(pages, links, communities=50, inside=0.8, exponent=1.0, seed=0):
    """A drawn Graph: each page belongs to a community, and links there with the chance
    `inside`, else anywhere. Its weight as source and as target is `rank ** -exponent` of random
    ranks. Pairs that are drawn twice count once, so there are a few fewer than `links`.
    """
    if not (1 <= communities <= pages and links >= 1 and 0 <= inside <= 1):
        told = f"pages={pages}, links={links}, communities={communities}, inside={inside}"
        raise ValueError(f"{told}: allowed are a link, 1 to {pages} communities, a chance")
    draw = np.random.default_rng(seed)
    weights = [(1.0 + draw.permutation(pages)) ** -exponent for _ in range(2)]
    rows = draw.choice(pages, links, p=weights[0] / weights[0].sum())
    cols = draw.choice(pages, links, p=weights[1] / weights[1].sum())
    community = np.arange(pages) % communities
    at_home = draw.random(links) < inside
    for one in range(communities):  # a target of the source's own community, by its weight
        members, asked = np.flatnonzero(community == one), at_home & (community[rows] == one)
        chances = weights[1][members] / weights[1][members].sum()
        cols[asked] = draw.choice(members, asked.sum(), p=chances)
    keys = np.unique(rows * np.int64(pages) + cols)
    ends = torch.from_numpy(keys // pages), torch.from_numpy(keys % pages)
    return Graph(*ends, [str(n) for n in range(pages)])


def _held(histories, rows, hidden, draw):
    seen, wanted = [], []
    for row in rows:
        history = histories[row][torch.randperm(len(histories[row]), generator=draw)]
        count = min(max(1, round(hidden * len(history))), len(history) - 1)
        wanted.append(history[:count].sort().values)
        seen.append(history[count:].sort().values)
    return Held(rows, seen, wanted)


def _lines(path):
    text = path.read_text(encoding="utf-8")
    return [line for line in text.split("\n") if line.strip() and line[0] != "#"]
