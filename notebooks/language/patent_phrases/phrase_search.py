"""Phrases nearest to a query, among all or in some contexts: one matrix product and a partial
sort.

`V` phrases of 384 numbers are 1.5 kB each: 29,340 targets take 45 MB, and a query reads them
once. At the speed of memory that is milliseconds, so nothing approximate is needed at this
size.

Shapes: `V` phrases of the collection, `D` = 384 features, `K` found.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np
import phrase_encoder as pe
from patent_pairs import Pairs, titles


class Index(NamedTuple):
    """Different phrases, their unit vectors (V, D) and the contexts in which each occurs."""

    phrases: np.ndarray
    vectors: np.ndarray
    contexts: list[frozenset[str]]


def index(pairs: Pairs, encode: Callable = pe.encode) -> Index:
    """All different targets of the pairs, encoded; each knows the contexts of its pairs."""
    contexts: dict[str, set[str]] = {}
    for target, context in zip(pairs.target, pairs.context, strict=True):
        contexts.setdefault(target, set()).add(context)
    vectors = encode(list(contexts))
    return Index(
        np.array(list(contexts), dtype=object), vectors, [*map(frozenset, contexts.values())]
    )


def nearest(vector: np.ndarray, vectors: np.ndarray, count: int) -> tuple:
    """Rows (K,) of the `count` vectors with the highest dot product, best first, and those
    products.

    >>> vectors = np.array([[0.0, 1.0], [1.0, 0.0], [0.6, 0.8]])
    >>> rows, cosines = nearest(np.array([1.0, 0.0]), vectors, 2)
    >>> rows.tolist(), cosines.tolist()
    ([1, 2], [1.0, 0.6])

    Equal products come in the order of their rows. Raises ValueError for a count below 1.
    """
    if count < 1:
        raise ValueError(f"count {count}; at least one phrase is to be found")
    products = vectors @ vector
    rows = np.arange(len(products))
    if count < len(products):
        rows = np.flatnonzero(products >= np.partition(products, -count)[-count])
    rows = rows[np.argsort(-products[rows], kind="stable")][:count]
    return rows, products[rows]


def search(
    query: str,
    held: Index,
    count: int = 10,
    contexts: Collection[str] = (),
    encoder: pe.Encoder | None = None,
) -> list[tuple[str, float]]:
    """The phrases nearest to the query with their cosines, best first; only from these
    contexts, if any are given.

    Raises ValueError for an unknown context and for what `phrase_encoder.encode` refuses.
    """
    if unknown := sorted(set(contexts) - set(titles())):
        raise ValueError(
            f"contexts {unknown} are unknown; allowed are the {len(titles())} of cpc_titles.tsv"
        )
    asked = [not contexts or bool(of & set(contexts)) for of in held.contexts]
    kept = np.flatnonzero(asked)
    rows, cosines = nearest(pe.encode([query], encoder)[0], held.vectors[kept], count)
    return list(zip(held.phrases[kept[rows]], cosines.tolist(), strict=True))
