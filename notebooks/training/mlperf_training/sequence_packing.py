"""Packs of sequences: which lengths share a row, and how often, from a histogram of lengths
alone.

Article: "The Full Stack Optimization Powering NVIDIA MLPerf Training v2.0 Performance"
(NVIDIA, 2022). The algorithms are those of Krell et al., "Efficient Sequence Packing without
Cross-contamination" (arXiv:2107.02027): shortest-pack-first, longest-pack-first and
non-negative least squares (NNLS).

With h_l sequences of length l, a strategy is a multiset of lengths whose sum is at most s,
the row's length; A_lk counts length l in strategy k, and x_k rows follow strategy k. The
efficiency is the share of real tokens:

    e = sum_l l h_l / (s sum_k x_k)

NNLS has the settings that the authors published (graphcore/examples v3.2.0, packedBERT): only
strategies that fill a row, a residual of lengths up to 8 counts 0.09, counts are rounded to the
nearest, and what is left over gets rows of its own. Theirs counts a place that was rounded up
as padding; ours takes the length out of such a row, and the row if nothing is left, so that
every sequence lies in exactly one pack. Where rows may hold one sequence only, theirs has no
row for what is left over. Longest-pack-first is theirs with `distribute`; shortest-pack-first
is that of the paper.

Legend: L lengths (1 to s), K strategies.
"""

import ast
from collections import Counter

import numpy as np
from scipy.optimize import nnls

SHORT, SHORT_WEIGHT = 8, 0.09  # the authors: residuals of lengths up to 8 count less


def read_histogram(path, name="wikipedia_histogram"):
    """The counts, int64 (s,), of the array `name` in a file of Python text, read as numbers
    and never run.

    Entry i counts the sequences of length i + 1. Raises ValueError where the file has no such
    array.
    """
    with open(path) as text:
        tree = ast.parse(text.read())
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and node.targets[0].id == name
            and isinstance(node.value, ast.Call)
        ):
            return np.array(ast.literal_eval(node.value.args[0]), dtype=np.int64)
    raise ValueError(
        f"no array named {name!r} in {path}: a histogram is assigned as name = np.array([…])"
    )


def spfhp(histogram, max_length, max_sequences):
    """(packs, counts) by shortest-pack-first: from the longest length down, each into the
    pack with most room.

    >>> spfhp([2, 0, 2], 4, 2)
    ([[3, 1]], [2])

    histogram[i] counts sequences of length i + 1; max_length is a row's tokens, max_sequences
    the most in a pack. Returns lists of lengths, and how many rows follow each. Raises
    ValueError for negative or fractional counts, a sequence longer than a row, or a limit
    below one. Cost: about L^2 steps, whatever the number of sequences.
    """
    return _greedy(histogram, max_length, max_sequences, longest=False)


def lpfhp(histogram, max_length, max_sequences):
    """(packs, counts) by longest-pack-first: each length into the fullest pack where it fits,
    as often as it fits.

    >>> lpfhp([0, 4], 4, 2)
    ([[2, 2]], [2])

    Arguments, returns and errors as `spfhp`. As many copies of one length go into a pack at
    once as fit.
    """
    return _greedy(histogram, max_length, max_sequences, longest=True)


def nnlshp(histogram, max_length, max_sequences):
    """(packs, counts) by non-negative least squares over all strategies that fill a row
    exactly, with the authors' weights and rounding.

    >>> nnlshp([2, 0, 2], 4, 2)
    ([[3, 1]], [2])

    Arguments, returns and errors as `spfhp`. Cost: dense, max_length rows by K strategies
    (22,102 of at most three sequences in 512 tokens): minutes there, a moment with 64
    lengths.
    """
    counts_L = _checked(histogram, max_length, max_sequences)
    strategies = full_rows(max_length, max_sequences)
    uses_LK = np.zeros((max_length, len(strategies)))
    for column, strategy in enumerate(strategies):
        np.add.at(uses_LK[:, column], np.array(strategy) - 1, 1.0)
    weights_L = np.where(np.arange(1, max_length + 1) <= SHORT, SHORT_WEIGHT, 1.0)
    # one unit for all lengths; the strategies of the solution do not depend on it
    unit = max(1, counts_L.max())
    rows_K, _ = nnls(
        weights_L[:, None] * uses_LK, weights_L * counts_L / unit, maxiter=10 * len(strategies)
    )
    whole_K = np.rint(rows_K * unit).astype(np.int64)
    left_L = counts_L - (uses_LK @ whole_K).astype(np.int64)
    rows = Counter({strategies[k]: int(whole_K[k]) for k in np.flatnonzero(whole_K)})
    for at in np.flatnonzero(left_L):
        length, left = int(at) + 1, int(left_L[at])
        if left > 0:
            rows[(length,)] += left
        else:
            _take_out(rows, length, -left)
    packs = [list(pack) for pack, count in rows.items() if pack and count]
    return packs, [rows[tuple(pack)] for pack in packs]


def _take_out(rows, length, times):
    """Rows that were rounded up give up a place that no sequence is left for."""
    while times:
        pack = next(pack for pack, count in rows.items() if count and length in pack)
        place, count = pack.index(length), min(rows[pack], times)
        rows[pack] -= count
        rows[pack[:place] + pack[place + 1 :]] += count
        times -= count


def full_rows(max_length, max_sequences):
    """All strategies that fill a row: tuples of at most `max_sequences` falling lengths with
    the sum `max_length`."""

    def parts(total, most, largest):
        if total == 0:
            yield ()
        elif most > 0:
            for first in range(min(total, largest), 0, -1):
                if first * most < total:
                    return
                for rest in parts(total - first, most - 1, first):
                    yield (first, *rest)

    return list(parts(max_length, max_sequences, max_length))


def assign(lengths, packs, counts):
    """A row for each pack: the numbers of the sequences in it, those of one length in order.

    >>> assign([1, 3, 1, 3], [[3, 1]], [2])
    [[1, 0], [3, 2]]

    Raises ValueError where packs and lengths do not hold the same sequences.
    """
    waiting = {}
    for number, length in enumerate(lengths):
        waiting.setdefault(int(length), []).append(number)
    queues = {length: iter(numbers) for length, numbers in waiting.items()}
    rows = [
        [next(queues.get(length, iter(())), None) for length in pack]
        for pack, count in zip(packs, counts, strict=True)
        for _ in range(count)
    ]
    given = [number for row in rows for number in row]
    if None in given or len(given) != len(lengths):
        raise ValueError(
            f"packs of {len(given)} sequences for {len(lengths)} lengths: they must hold the "
            "same lengths, each as often"
        )
    return rows


def efficiency(packs, counts, max_length):
    """The share of tokens that are not padding, from 0 to 1; ValueError where there is no
    pack."""
    if not sum(counts):
        raise ValueError(
            "no packs: the efficiency of nothing is not defined; give at least one sequence"
        )
    tokens = sum(sum(pack) * count for pack, count in zip(packs, counts, strict=True))
    return tokens / (max_length * sum(counts))


def packing_factor(packs, counts):
    """Sequences in a row, on average: what a batch of rows grows by, and what the rate or
    batch is corrected by."""
    if not sum(counts):
        raise ValueError("no packs: give at least one sequence")
    return sum(len(pack) * count for pack, count in zip(packs, counts, strict=True)) / sum(
        counts
    )


def _checked(histogram, max_length, max_sequences):
    given_L = np.asarray(histogram)
    if max_length < 1 or max_sequences < 1:
        raise ValueError(
            f"max_length {max_length} and max_sequences {max_sequences} must both be 1 or more"
        )
    if (
        given_L.ndim != 1
        or not np.isfinite(given_L).all()
        or (given_L < 0).any()
        or (given_L % 1).any()
    ):
        raise ValueError(
            "a histogram is one row of whole counts of 0 or more, entry i for length i + 1"
        )
    if given_L[max_length:].any():
        longest = int(np.flatnonzero(given_L)[-1]) + 1
        raise ValueError(
            f"a sequence of {longest} tokens does not fit a row of {max_length}: "
            "cut it, or widen the row"
        )
    counts_L = np.zeros(max_length, np.int64)
    counts_L[: min(max_length, len(given_L))] = given_L[:max_length]
    return counts_L


def _greedy(histogram, max_length, max_sequences, longest):
    counts_L = _checked(histogram, max_length, max_sequences)
    open_by_room = [
        [] for _ in range(max_length + 1)
    ]  # packs that may grow, by the room that is left
    closed = []

    def put(pack, count):
        room = max_length - sum(pack)
        (closed if room == 0 or len(pack) == max_sequences else open_by_room[room]).append(
            (pack, count)
        )

    for length in range(max_length, 0, -1):
        waiting = int(counts_L[length - 1])
        while waiting:
            fitting = (
                range(length, max_length + 1) if longest else range(max_length, length - 1, -1)
            )
            room = next((room for room in fitting if open_by_room[room]), None)
            pack, count = ([], waiting) if room is None else open_by_room[room].pop()
            copies = 1
            if longest:
                copies = min((room or max_length) // length, max_sequences - len(pack), waiting)
            grown = min(count, waiting // copies)
            if room is not None and count > grown:
                open_by_room[room].append((pack, count - grown))
            put(pack + [length] * copies, grown)
            waiting -= grown * copies
    packed = closed + [entry for packs in open_by_room for entry in packs]
    return [pack for pack, _ in packed], [count for _, count in packed]
