"""Mean average precision at k of ranked groups: the score of the Outbrain competition.

    AP@k = Σ_(rank ≤ k, clicked) hits so far / rank, over min(k, clicks of the group)

With one click a display, as in the competition, it is 1 / rank of the clicked ad, or 0 beyond
rank k. Equal scores are the trap: a sort would rank them as they happen to lie, and a file in
which the clicked ad comes first would reward a constant. We rank the clicked rows last among
equals: the order of rows cannot matter, and ties never flatter.

Popularity, which needs no training, is an ad's click rate in the training rows, drawn towards
the mean of all ads as if it had been shown `prior` times more:

    s = (clicks + prior · mean) / (views + prior)

Shapes: `N` rows, `G` groups.
"""

import torch


def map_at_k(scores, clicked, groups, k=12):
    """Mean average precision of the first k rows of each group, a float.

    >>> map_at_k([0.1, 0.9, 0.3], [1, 0, 0], [7, 7, 7])
    0.3333333333333333

    scores, clicked (0/1) and groups, e.g. display_id, are (N,) in any order. See
    `average_precision`, whose mean over the groups this is.
    """
    return float(average_precision(scores, clicked, groups, k).mean())


def average_precision(scores, clicked, groups, k=12):
    """Each group's average precision at k, (G,) float64, groups ascending.

    A group without a click counts 0. Raises ValueError for unequal lengths, no rows, scores
    that are NaN, other labels than 0 and 1, and k < 1. Costs three sorts.
    """
    scores, clicked, groups = (torch.as_tensor(x).flatten() for x in (scores, clicked, groups))
    if not len(scores) == len(clicked) == len(groups) or not len(scores) or k < 1:
        raise ValueError(
            f"{len(scores)} scores, {len(clicked)} labels, {len(groups)} groups, k={k}: equal "
            "numbers, at least one row and a k of 1 or more are needed"
        )
    wrong = torch.stack([scores.isnan(), (clicked != 0) & (clicked != 1)]).sum(1)
    nan, other = wrong.tolist()  # both at once: a host that reads waits for its GPU
    if nan:
        raise ValueError(f"{nan} scores are NaN, which have no rank")
    if other:
        raise ValueError("labels other than 0 and 1; a row is clicked or not")
    order = torch.argsort(clicked, stable=True)
    order = order[torch.argsort(scores[order], descending=True, stable=True)]
    order = order[torch.argsort(groups[order], stable=True)]
    hit = clicked[order].double()
    _, group, counts = groups[order].unique_consecutive(return_inverse=True, return_counts=True)
    first = (counts.cumsum(0) - counts)[group]  # where a row's group begins
    rank = torch.arange(1, len(hit) + 1, device=hit.device) - first
    running = hit.cumsum(0)
    before = torch.nn.functional.pad(running, (1, 0))[first]
    gain = torch.where(rank <= k, hit * (running - before) / rank, 0.0)
    total = torch.zeros(len(counts), dtype=torch.float64, device=hit.device)
    clicks = total.index_add(0, group, hit).clamp(1, k)
    return total.index_add(0, group, gain) / clicks


def random_scores(rows, seed=0):
    """(rows,) float64 from 0 to 1: a ranking by chance."""
    draw = torch.Generator().manual_seed(seed)
    return torch.rand(rows, generator=draw, dtype=torch.float64)


def popularity_scores(train, valid, prior=20.0, seed=None):
    """(N,) float64: each validation row's click rate of its ad in the training rows.

    An ad that training lacks scores the mean. `seed` breaks ties by chance, by a term too small
    to change any other order; without it equal rates stay equal.
    """
    ads, at = train["ad_id"].unique(return_inverse=True)
    clicked = train["clicked"].double()
    views = torch.bincount(at, minlength=len(ads))
    clicks = torch.zeros(len(ads), dtype=torch.float64).index_add(0, at, clicked)
    mean = clicked.mean()
    rates = (clicks + prior * mean) / (views + prior)
    wanted = valid["ad_id"].contiguous()
    found = torch.searchsorted(ads, wanted).clamp(max=len(ads) - 1)
    scores = torch.where(ads[found] == wanted, rates[found], mean)
    return scores if seed is None else scores + 1e-12 * random_scores(len(scores), seed)
