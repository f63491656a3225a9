"""An hour's UPDATE and its lists as a GPU would run them, the naive way, and a broken one.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import item_network
import torch
from click_world import SLATE
from item_network import Beliefs

METRICS = {}  # no claim of the article is a rate or a time
WIDTH = 17  # numbers of a state, the constant one among them


def ours(sizes, device, pieces=1, ranked=lambda found: found.topk(SLATE).indices):
    """One UPDATE with the impressions of an hour, then a list for each of its users"""
    users, count = sizes["visits"], sizes["warm"] + 191
    precision = 10 * torch.eye(WIDTH, device=device).expand(count, -1, -1).contiguous()
    mean, one = torch.randn(count, WIDTH, device=device), torch.ones(WIDTH, device=device)
    known = Beliefs(mean, precision, torch.linalg.inv(precision), one)
    phi, theta = (
        torch.randn(users, WIDTH, device=device),
        torch.ones(users, SLATE, device=device),
    )
    items = torch.arange(users * SLATE, device=device).reshape(users, SLATE) % count
    clicks, cold = items % 9 == 0, torch.arange(count, device=device) < 191

    def call():
        now = item_network.update(known, phi, items, theta, clicks)
        rows = [item_network.scores(now, part, 0.3, cold) for part in phi.tensor_split(pieces)]
        return ranked(torch.cat(rows) if pieces > 1 else rows[0])

    return call


def naive(sizes, device):
    """The same with one user's list after another"""
    return ours(sizes, device, sizes["visits"])


def broken(sizes, device):
    """The same, but the lists are ranked on the host"""
    return ours(sizes, device, 1, lambda found: found.cpu().topk(SLATE).indices.to(device))
