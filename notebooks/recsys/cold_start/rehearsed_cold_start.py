"""An hour's UPDATE and its lists as a GPU would run them, the naive way, and a broken one.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import item_network
import torch
from click_world import SLATE
from item_network import Beliefs

METRICS = {}  # no claim of the article is a rate or a time
WIDTH = 17  # numbers of a state, the constant one among them


def ours(sizes, device):
    """One UPDATE with the impressions of an hour, then a list for each of its users"""
    known, phi, items, clicks, cold, theta = _hour(sizes, device)

    def call():
        now = item_network.update(known, phi, items, theta, clicks)
        return item_network.scores(now, phi, 0.3, cold).topk(SLATE).indices

    return call


def naive(sizes, device):
    """The same with one user's list after another"""
    known, phi, items, clicks, cold, theta = _hour(sizes, device)

    def call():
        now = item_network.update(known, phi, items, theta, clicks)
        rows = [item_network.scores(now, phi[n : n + 1], 0.3, cold) for n in range(len(phi))]
        return torch.cat(rows).topk(SLATE).indices

    return call


def broken(sizes, device):
    """The same, but the lists are ranked on the host"""
    known, phi, items, clicks, cold, theta = _hour(sizes, device)

    def call():
        now = item_network.update(known, phi, items, theta, clicks)
        return item_network.scores(now, phi, 0.3, cold).cpu().topk(SLATE).indices.to(device)

    return call


def _hour(sizes, device):
    """(beliefs, states, lists, clicks, the cold items, chances of places) of one hour."""
    users, count = sizes["visits"], sizes["warm"] + 191
    mean = torch.randn(count, WIDTH, device=device)
    precision = 10 * torch.eye(WIDTH, device=device).expand(count, -1, -1).contiguous()
    known = Beliefs(
        mean, precision, torch.linalg.inv(precision), torch.ones(WIDTH, device=device)
    )
    phi = torch.randn(users, WIDTH, device=device)
    items = torch.arange(users * SLATE, device=device).reshape(users, SLATE) % count
    clicks = items % 9 == 0
    cold = torch.arange(count, device=device) < 191
    theta = torch.ones(users, SLATE, device=device)
    return known, phi, items, clicks, cold, theta
