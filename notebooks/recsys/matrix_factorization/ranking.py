"""What is recommended, and how good it is. Capped recall at k is ALX's: hits over the smaller
of k and the number of wanted items, so that 1.0 can be reached.

Shapes: `B` rows to be served, `N` items, `K` recommended.
"""

import torch


def scores(users_BD, items_ND, dtype=None):
    """The scores (B, N) in float32, rounded to `dtype` where one is given."""
    found = users_BD.float() @ items_ND.float().T
    return found if dtype is None else found.to(dtype).float()


def popularity(cols, count, rows):
    """Scores (rows, count) that ask nobody: how many links lead to each item."""
    return torch.bincount(cols, minlength=count).float().expand(rows, count)


def top_k(scores_BN, seen, k):
    """The items (B, K) of the highest scores, best first, never one of `seen`; -1 where none is
    left. ValueError unless 1 <= k, and for scores that are NaN: they have no order.
    """
    if k < 1:
        raise ValueError(f"k={k}: at least 1 item is recommended")
    if count := int(torch.isnan(scores_BN).any(1).sum()):
        raise ValueError(f"{count} rows have scores that are NaN: they have no order")
    masked, (row, item) = scores_BN.clone(), _pairs(seen, scores_BN.device)
    masked[row, item] = -torch.inf
    best = torch.topk(masked, min(k, masked.shape[1]), dim=1)
    return torch.where(best.values > -torch.inf, best.indices, -1)


def capped_recall(best_BK, wanted):
    """The share (B,) of wanted items among those recommended, over at most K; ValueError where
    none is wanted.
    """
    counts = torch.tensor([len(items) for items in wanted], device=best_BK.device)
    if not len(counts) or int(counts.min()) == 0:
        told = f"{int((counts == 0).sum())} of {len(counts)} rows want nothing"
        raise ValueError(f"{told}: recall is not defined there")
    row, item = _pairs(wanted, best_BK.device)
    width = max(int(best_BK.max()), int(item.max())) + 2
    is_wanted = torch.zeros(len(counts), width, device=best_BK.device)
    is_wanted[row, item] = 1  # the last column is nobody's, and -1 looks there
    hits = is_wanted.gather(1, best_BK % width).sum(1)
    return hits / counts.clamp(max=best_BK.shape[1])


def neighbours(table_ND, k):
    """The k nearest rows (N, k) of each row by the cosine, itself left out."""
    unit_ND = torch.nn.functional.normalize(table_ND.float(), dim=1)
    near_NN = unit_ND @ unit_ND.T
    near_NN[:, ~table_ND.any(1)] = -torch.inf  # a page that nobody links to is near none
    return torch.topk(near_NN.fill_diagonal_(-torch.inf), k, dim=1).indices


def _pairs(histories, where):
    """(row, item) of all items of a list of histories, as two tensors."""
    counts = torch.tensor([len(history) for history in histories])
    items = torch.cat([torch.as_tensor(own, dtype=torch.int64).cpu() for own in histories])
    return torch.repeat_interleave(torch.arange(len(counts)), counts).to(where), items.to(where)
