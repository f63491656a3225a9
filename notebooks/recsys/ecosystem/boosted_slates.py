"""Slates of the best scores, with noise for those items alone that can reach one: for a CPU.

A score is uniform between a liking and the liking plus the boost of the item's provider. So no
score is above its *ceiling*, the liking plus the boost where that is positive. Walk over the
items with the best scores so far in hand: an item whose ceiling is not above the last of them
needs no noise. A provider's items lie close together. Where the ceiling of all of them, from
the distance to their middle less their radius, is not above it, none of them is looked at.

An item's noise is a hash of the draw, the user and the item (splitmix64, Steele et al. 2014):
what is left out shifts nothing, and the slates are those of all scores.

Shapes: `W` worlds, `U` users, `P` providers, `D` documents, `T` two topics, `K` slate.
"""

import math

import numba
import numpy as np
import torch
from array_backends import of

GOLDEN, FIRST = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)  # the three of splitmix64
MARGIN = 1e-3  # of a ceiling: more than what rounding takes from it

# sums may be taken in another order; infinity keeps its meaning
_fused = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz"})


@_fused
def mixed(number):
    """A hash of 64 bits of a number of 64 bits."""
    number = (number ^ (number >> np.uint64(30))) * FIRST
    number = (number ^ (number >> np.uint64(27))) * SECOND
    return number ^ (number >> np.uint64(31))


@_fused
def level(seed, place):
    """The noise at a place, from 0 up to, never at, 1, in steps of 2⁻²⁴."""
    return (mixed(seed + np.uint64(place + 1) * GOLDEN) >> np.uint64(40)) * 2.0**-24


@_fused
def _fill(interest_UT, topics_DT, owner_D, boost_P, seed, slate_UK):
    """None; fills in the slates of one world."""
    order, last = np.argsort(owner_D, kind="mergesort"), slate_UK.shape[1] - 1
    items, owners = topics_DT[order], owner_D[order]
    live = np.flatnonzero(np.bincount(owners, minlength=len(boost_P)))  # who has items
    first, end = np.searchsorted(owners, live), np.searchsorted(owners, live, side="right")
    boost, middle = boost_P[live], np.empty((2, len(live)), items.dtype)
    top = np.maximum(boost, np.zeros_like(boost))
    top += 2  # the ceiling at no distance; in place it stays in the items' precision
    ceiling, highest = top.copy(), np.empty_like(boost)
    for g in range(len(live)):
        own = items[first[g] : end[g]]
        middle[0, g], middle[1, g] = own[:, 0].mean(), own[:, 1].mean()
        apart = (own[:, 0] - middle[0, g]) ** 2 + (own[:, 1] - middle[1, g]) ** 2
        ceiling[g] += math.sqrt(apart.max()) + MARGIN
    scores, places = np.empty(last + 2, items.dtype), np.zeros(last + 2, np.int64)
    for u in range(len(interest_UT)):
        x, y = interest_UT[u, 0], interest_UT[u, 1]
        for g in range(len(live)):
            away = (middle[0, g] - x) ** 2 + (middle[1, g] - y) ** 2
            highest[g] = ceiling[g] - math.sqrt(away)
        best = np.argmax(highest)
        scores[:] = -np.inf
        bar = scores[last]
        for turn in range(-1, len(live)):  # the most promising first: it sets a high bar
            g = best if turn < 0 else turn
            if turn == best or not highest[g] > bar:
                continue
            for i in range(first[g], end[g]):
                far = math.sqrt((items[i, 0] - x) ** 2 + (items[i, 1] - y) ** 2)
                if top[g] - far > bar:
                    noise, k = level(seed, u * len(items) + order[i]), last + 1
                    score = items.dtype.type(2 - far + boost[g] * noise)
                    while k > 0 and scores[k - 1] < score:  # the last slot is one too many
                        scores[k], places[k] = scores[k - 1], places[k - 1]
                        k -= 1
                    scores[k], places[k] = score, order[i]
                    bar = scores[last]
        slate_UK[u] = places[: last + 1]


def seed_of(key, world=0):
    """The seed of a world's noise in the draw that a whole number `key` names."""
    return np.uint64(mixed(np.uint64(key * 65_536 + world)))


def slates(interest_WUT, topics_WDT, owner_WD, boost_WP, count, key):
    """The places of each user's `count` best scores, (W, U, K), the best first; on a CPU.

    `owner_WD`: each document's provider. Equal keys, whole numbers, draw equal noise.
    """
    worlds = map(np.ascontiguousarray, (interest_WUT, topics_WDT, owner_WD, boost_WP))
    found = np.zeros((*interest_WUT.shape[:2], count), np.int64)
    for world, own in enumerate(zip(*worlds, strict=True)):
        _fill(*own, seed_of(key, world), found[world])
    return torch.from_numpy(found) if of(interest_WUT) is torch else found
