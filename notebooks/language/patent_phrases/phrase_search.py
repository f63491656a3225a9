"""Phrases nearest to a query, among all or in some contexts: one matrix product and a partial
sort; and how much of what raters found alike a search finds.

29,340 targets of 384 numbers are 45 MB, read once by a query: at the speed of memory that is
milliseconds, so nothing approximate is needed. Nothing is copied without a filter; with one,
the rows of its contexts are, unless they are most of the phrases.

Shapes: `V` phrases, `C` = 106 contexts, `D` = 384 features, `K` found, `Q` queries.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np
import phrase_encoder as pe
from patent_pairs import Pairs, other_targets, titles

ALIKE = 0.75  # rated so or higher


class Index(NamedTuple):
    """Different phrases, their unit vectors (V, D), in which contexts each occurs (V, C)."""

    phrases: np.ndarray
    vectors: np.ndarray
    contexts: np.ndarray

    def inside(self, contexts: Collection[str]) -> np.ndarray:
        """Which phrases occur in any of these contexts, (V,); ValueError for unknown ones."""
        if unknown := sorted(set(contexts) - set(titles())):
            known = f"allowed are the {len(titles())} of cpc_titles.tsv"
            raise ValueError(f"contexts {unknown} are unknown; {known}")
        return self.contexts[:, np.isin(list(titles()), list(contexts))].any(1)


def index(pairs: Pairs, encode: Callable = pe.encode) -> Index:
    """All different targets of the pairs, encoded; each knows the contexts of its pairs."""
    row = {target: at for at, target in enumerate(dict.fromkeys(pairs.target.tolist()))}
    column = {context: at for at, context in enumerate(titles())}
    contexts = np.zeros((len(row), len(column)), bool)
    contexts[[row[one] for one in pairs.target], [column[one] for one in pairs.context]] = True
    return Index(np.array(list(row), dtype=object), encode(list(row)), contexts)


def nearest(
    vector: np.ndarray, vectors: np.ndarray, count: int, rows: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows (K,) of the `count` vectors with the highest dot product, best first, and those
    products; of these `rows` only, in their order, if any are given.

    >>> vectors = np.array([[0.0, 1.0], [1.0, 0.0], [0.6, 0.8]])
    >>> rows, cosines = nearest(np.array([1.0, 0.0]), vectors, 2)
    >>> rows.tolist(), cosines.tolist()
    ([1, 2], [1.0, 0.6])

    Equal products come in the order of their rows. Raises ValueError for a count below 1.
    """
    if count < 1:
        raise ValueError(f"count {count}; at least one phrase is to be found")
    if rows is None:
        rows, products = np.arange(len(vectors)), vectors @ vector
    elif 2 * len(rows) > len(vectors):  # reading all costs less than copying most
        products = (vectors @ vector)[rows]
    else:
        products = vectors[rows] @ vector
    best = np.arange(len(products))
    if count < len(products):
        best = np.flatnonzero(products >= np.partition(products, -count)[-count])
    best = best[np.argsort(-products[best], kind="stable")][:count]
    return rows[best], products[best]


def search(
    query: str, held: Index, count: int = 10, contexts: Collection[str] = (), encoder=None
) -> list[tuple[str, float]]:
    """The phrases nearest to the query with their cosines, best first; from these contexts, if
    any are given. ValueError for unknown ones and for what `pe.encode` refuses."""
    rows = np.flatnonzero(held.inside(contexts)) if len(contexts) else None
    found, cosines = nearest(pe.encode([query], encoder)[0], held.vectors, count, rows)
    return list(zip(held.phrases[found].tolist(), cosines.tolist(), strict=True))


class Query(NamedTuple):
    """A phrase that raters found like an anchor in a context, and the others like that anchor,
    which a search should find."""

    phrase: str
    anchor: str
    context: str
    sought: frozenset[str]


def queries(pairs: Pairs) -> list[Query]:
    """What to ask a search for: each target rated `ALIKE` to its anchor, with the other such
    targets of that anchor in that context; none where there is no other."""
    alike, asked = pairs.score >= ALIKE, []
    for row, others in enumerate(other_targets(pairs)):
        phrase, anchor = str(pairs.target[row]), str(pairs.anchor[row])
        sought = frozenset(pairs.target[others[alike[others]]].tolist()) - {phrase, anchor}
        if alike[row] and phrase != anchor and sought:
            asked.append(Query(phrase, anchor, str(pairs.context[row]), sought))
    return asked


def quality(
    find: Callable, held: Index, asked: list[Query], inside: bool, count: int = 10
) -> np.ndarray:
    """Recall among the first `count`, out of what these places can hold, and one over the place
    of the first that was sought, 0 where none was found: (Q, 2).

    `find` is called as `search` is; `inside` asks in the query's context only. The query's own
    pair, itself and its anchor, is left out of what is found.
    """
    rows = []
    for one in asked:
        found = find(one.phrase, held, count + 2, [one.context] if inside else [])
        found = [phrase for phrase, _ in found if phrase not in one[:2]][:count]
        places = [place for place, phrase in enumerate(found, 1) if phrase in one.sought]
        rows.append(
            (len(places) / min(count, len(one.sought)), 1 / min(places, default=np.inf))
        )
    return np.array(rows).reshape(len(asked), 2)
